//! A node: an instance of the testbed on which kubeadm and the kubelet are installed.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use testbed::{Cache, Command, Instance, Options};

/// The files that make an instance a node.
const FILES: [(&str, &str); 4] = [
    ("prepare.sh", include_str!("../node/prepare.sh")),
    ("systemctl", include_str!("../node/systemctl")),
    ("kubelet.service", include_str!("../node/kubelet.service")),
    ("10-kubeadm.conf", include_str!("../node/10-kubeadm.conf")),
];

/// The directories of a node's programs: those of the testbed would hide them.
const PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";
/// The checks of kubeadm that fail on the machine of the tests: it has cgroup v1.
const IGNORED_CHECKS: &str = "--ignore-preflight-errors=SystemVerification";
/// How long a program may take.
const PROGRAM: Duration = Duration::from_mins(1);
/// How long kubeadm may take.
const KUBEADM: Duration = Duration::from_mins(5);

/// A machine with containerd, kubeadm and ferrolet. Dropping it removes everything.
#[derive(Debug)]
pub struct Node {
    name: &'static str,
    instance: Instance,
}

impl Node {
    /// Starts a machine. ferrolet is in the directory `programs`.
    pub fn start(name: &'static str, programs: &Path) -> Result<Self> {
        let options = Options { without_network: true, ..Options::default() };
        let instance = Instance::start(&options).context("start an instance")?;
        let node = Self { name, instance };
        node.import_images()?;
        let setup = node.instance.dir().join("setup");
        fs::create_dir(&setup).context("make the directory of the set-up")?;
        for (file, content) in FILES {
            node.write(&format!("setup/{file}"), content)?;
        }
        let dir = node.instance.dir().display().to_string();
        let ip = node.ip();
        let prepare = setup.join("prepare.sh").display().to_string();
        let programs = programs.display().to_string();
        node.run(&["bash", &prepare, &dir, &programs, &ip]).context("prepare the node")?;
        Ok(node)
    }

    /// Imports the archives that `e2e/build-images.sh kubeadm` made.
    fn import_images(&self) -> Result<()> {
        let directory = Cache::from_env()?.parts().images_dir().join("kubeadm");
        let list = || format!("list {}: run `make kubeadm`", directory.display());
        for entry in fs::read_dir(&directory).with_context(list)? {
            let archive = entry?.path().display().to_string();
            let output = self.instance.ctr(&["images", "import", &archive])?;
            let stderr = String::from_utf8_lossy(&output.stderr);
            ensure!(output.status.success(), "import {archive}: {stderr}");
        }
        Ok(())
    }

    pub fn name(&self) -> &'static str {
        self.name
    }

    pub fn ip(&self) -> String {
        self.instance.node_ip().to_string()
    }

    pub fn instance(&self) -> &Instance {
        &self.instance
    }

    /// Writes a file into the directory of the instance, and returns its path.
    pub fn write(&self, name: &str, content: &str) -> Result<String> {
        let path = self.instance.dir().join(name);
        fs::write(&path, content).with_context(|| format!("write {}", path.display()))?;
        Ok(path.display().to_string())
    }

    /// Runs a program, and returns its output without the final line feed.
    pub fn run(&self, words: &[&str]) -> Result<String> {
        self.run_in("/", words)
    }

    fn run_in(&self, directory: &str, words: &[&str]) -> Result<String> {
        let output = self.instance.run_within(&command(words).current_dir(directory), PROGRAM)?;
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).trim_end().to_owned();
        let line = words.join(" ");
        ensure!(
            output.status.success(),
            "{}: `{line}` failed with {}: {} {}",
            self.name,
            output.status,
            text(&output.stdout),
            text(&output.stderr)
        );
        Ok(text(&output.stdout))
    }

    /// Runs a script of the shell, which ends at the first command that fails.
    pub fn script(&self, script: &str) -> Result<String> {
        self.run(&["bash", "-euc", script])
    }

    /// The same in the directory of ferrolet.
    pub fn script_in(&self, directory: &Path, script: &str) -> Result<String> {
        self.run_in(&directory.display().to_string(), &["bash", "-euc", script])
    }

    /// Runs kubeadm; its output is appended to a log of the instance.
    pub fn kubeadm(&self, words: &[&str]) -> Result<()> {
        let log = format!("kubeadm-{}", words[0]);
        let command = command(&["kubeadm"]).args(words.iter().copied()).arg("-v=1");
        let process = self.instance.spawn(&log, &command).context("start kubeadm")?;
        let status = process.wait(KUBEADM)?;
        if !status.success() {
            let log = process.log();
            let lines: Vec<&str> = log.lines().collect();
            let end = lines[lines.len().saturating_sub(15)..].join("\n");
            bail!("{}: kubeadm {} failed with {status}:\n{end}", self.name, words.join(" "));
        }
        Ok(())
    }

    /// Runs kubeadm without the checks that the machine of the tests fails.
    pub fn kubeadm_unchecked(&self, words: &[&str]) -> Result<()> {
        self.kubeadm(&[words, &[IGNORED_CHECKS]].concat())
    }

    /// The content of a file; empty if it is missing.
    pub fn read(&self, path: &str) -> String {
        let content = self.instance.read_file(path).unwrap_or_default();
        String::from_utf8_lossy(&content).into_owned()
    }

    /// Copies the logs of the node into a directory.
    pub fn copy_logs(&self, into: &Path) -> Result<()> {
        let own = self.instance.dir().join("log");
        let list = || format!("list {}", own.display());
        let to = |name: &str| into.join(format!("{}-{name}", self.name));
        for entry in fs::read_dir(&own).with_context(list)? {
            let from: PathBuf = entry?.path();
            let name = from.file_name().unwrap_or_default().to_string_lossy().into_owned();
            fs::copy(&from, to(&name)).with_context(|| format!("copy {}", from.display()))?;
        }
        fs::write(to("kubelet.log"), self.read("/var/log/kubelet.log")).context("copy a log")?;
        Ok(())
    }

    /// Removes the node. Fails if anything is left behind.
    pub fn stop(self) -> Result<()> {
        Ok(self.instance.stop()?)
    }
}

/// A program with the environment of an administrator.
fn command(words: &[&str]) -> Command {
    let direct = ["HTTP_PROXY", "HTTPS_PROXY", "http_proxy", "https_proxy"];
    let command = Command::new(words[0])
        .args(words[1..].iter().copied())
        .env("PATH", PATH)
        .env("KUBECONFIG", "/etc/kubernetes/admin.conf");
    direct.into_iter().fold(command, |command, name| command.env(name, ""))
}
