//! The upstream kubelet and our program, in one instance of the testbed.

use std::net::{IpAddr, SocketAddr};
use std::path::Path;
use std::process::Output;

use anyhow::{Context, Result, ensure};
use e2e::node::{PATIENCE, program};
use serde_json::Value;
use testbed::wait;
use testbed::{Cache, Command, Instance, Options, Process, Runtime};

use crate::case::Case;
use crate::certificates::Certificates;

/// A place to start kubelets in, one after the other, so that their ports do not conflict.
pub(crate) struct Place {
    instance: Instance,
    kubelet: String,
    certificates: Certificates,
}

impl Place {
    /// An instance in which the in-memory runtime listens where a kubelet expects one.
    pub(crate) fn start() -> Result<Self> {
        let options = Options { runtime: Runtime::None, ..Options::default() };
        let instance = Instance::start(&options).context("start an instance of the testbed")?;
        let kubelet = Cache::from_env()?.parts().program("kubelet");
        ensure!(kubelet.exists(), "{} is missing: run `make testbed`", kubelet.display());
        let kubelet = kubelet.display().to_string();
        let place = Self { instance, kubelet, certificates: Certificates::new()? };
        place.start_runtime()?;
        Ok(place)
    }

    fn start_runtime(&self) -> Result<()> {
        let script = format!(
            "mkdir -p /run/containerd && exec {} --socket /run/containerd/containerd.sock",
            program("hollow")?.display()
        );
        let command = Command::new("/bin/sh").args(["-c", &script]);
        let hollow = self.instance.spawn("hollow", &command)?;
        wait::until("the in-memory runtime listens", PATIENCE, || {
            let log = hollow.log();
            Ok(if log.contains("hollow: ready") { Ok(()) } else { Err(log) })
        })
    }

    /// Copies a stored case to this place.
    pub(crate) fn lay_out(&self, stored: &Path) -> Result<Case> {
        let case = Case::lay_out(stored, &self.instance.dir().join("cases"))?;
        self.certificates.write(&case.directory)?;
        Ok(case)
    }

    /// Flags of a kubelet in addition to those of the case; the configuration has no fields for
    /// them.
    fn surroundings(&self, case: &Case) -> [String; 3] {
        [
            format!("--node-ip={}", self.instance.node_ip()),
            format!("--root-dir={}", case.directory.join("root").display()),
            format!("--cert-dir={}", self.instance.dir().join("pki").display()),
        ]
    }

    fn kubelet(&self, case: &Case) -> Command {
        Command::new(&self.kubelet)
            .args(case.file().map(|file| format!("--config={file}")))
            .args(case.flags())
            .args(self.surroundings(case))
            .current_dir(&case.directory)
    }

    /// The output of `ferrolet config check` for the case.
    pub(crate) fn check(&self, case: &Case, ours: &[&str]) -> Result<Output> {
        let command = Command::new(program("ferrolet")?.display().to_string())
            .args(["config", "check"])
            .args(case.file())
            .args(case.flags())
            .args(self.surroundings(case))
            .args(ours.iter().copied())
            .current_dir(&case.directory);
        Ok(self.instance.run(&command)?)
    }

    /// Starts the kubelet, reads its configuration, and stops it.
    pub(crate) fn configz(&self, case: &Case, port: u16) -> Result<Value> {
        let kubelet =
            self.instance.spawn(&format!("kubelet-{}", case.name), &self.kubelet(case))?;
        let address = SocketAddr::new(IpAddr::V4(self.instance.node_ip()), port);
        let answer = self.get_configz(&kubelet, address);
        if kubelet.is_alive()? {
            kubelet.kill()?;
            kubelet.wait(PATIENCE)?;
        }
        let answer =
            answer.with_context(|| format!("the end of its log:\n{}", tail(&kubelet.log())))?;
        let mut answer: Value = serde_json::from_str(&answer).context("read /configz")?;
        Ok(answer["kubeletconfig"].take())
    }

    fn get_configz(&self, kubelet: &Process, address: SocketAddr) -> Result<String> {
        wait::until(&format!("a kubelet at {address}"), PATIENCE, || {
            ensure!(kubelet.is_alive()?, "the kubelet ended");
            Ok(self.certificates.get(address, "/configz").map_err(|error| format!("{error:#}")))
        })
    }

    /// Runs a kubelet that rejects its configuration; returns its error.
    pub(crate) fn refusal(&self, case: &Case) -> Result<String> {
        let output = self.instance.run(&self.kubelet(case));
        let output = output.with_context(|| format!("{}: the kubelet keeps running", case.name))?;
        ensure!(!output.status.success(), "{}: the kubelet exited with 0", case.name);
        Ok(String::from_utf8_lossy(&output.stderr).into_owned())
    }

    /// Stops the place. Fails if anything is left behind.
    pub(crate) fn stop(self) -> Result<()> {
        Ok(self.instance.stop()?)
    }
}

/// The last lines of a log, without the usage text of its flags.
fn tail(log: &str) -> String {
    let lines: Vec<&str> = log.lines().filter(|line| !line.contains("FLAG:")).collect();
    lines[lines.len().saturating_sub(12)..].join("\n")
}
