//! Runs a credential plugin.

use std::io::{self, Read as _};
use std::os::fd::AsFd as _;
use std::os::unix::process::CommandExt as _;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::Duration;

use jiff::Timestamp;
use kube::config::{ExecConfig, ExecInteractiveMode};
use rustix::process::{
    Pid, PidfdFlags, Signal, WaitId, WaitIdOptions, kill_process_group, pidfd_open,
    pidfd_send_signal, waitid,
};
use serde_json::json;

use super::PluginError;
use super::output::{Credential, credential};

/// The longest output.
const LONGEST: u64 = 1 << 20;
/// How long to read the output of a killed plugin.
const AFTER_KILL: Duration = Duration::from_secs(1);

/// A plugin, as configured in the kubeconfig.
#[derive(Debug)]
pub(super) struct Program {
    exec: ExecConfig,
    /// The content of `KUBERNETES_EXEC_INFO`.
    info: String,
    limit: Duration,
}

impl Program {
    /// Checks the settings without running the plugin.
    pub(super) fn new(exec: ExecConfig, limit: Duration) -> Result<Self, PluginError> {
        let name = exec.command.clone().unwrap_or_default();
        let wrong = |why| Err(PluginError::Settings(name.clone(), why));
        if name.is_empty() {
            return wrong("users[].exec.command is missing");
        }
        if exec.interactive_mode == Some(ExecInteractiveMode::Always) {
            return wrong("interactiveMode Always needs a terminal, which the agent does not have");
        }
        let cluster = exec.cluster.as_ref().filter(|_| exec.provide_cluster_info);
        if exec.provide_cluster_info && cluster.is_none() {
            return wrong("provideClusterInfo is set, and the kubeconfig has no cluster");
        }
        let mut spec = json!({ "interactive": false });
        if let Some(cluster) = cluster {
            spec["cluster"] = json!(cluster);
        }
        let info = json!({
            "apiVersion": exec.api_version, "kind": "ExecCredential", "spec": spec,
        });
        Ok(Self { info: info.to_string(), exec, limit })
    }

    /// Its name for errors.
    pub(super) fn name(&self) -> String {
        self.exec.command.clone().unwrap_or_default()
    }

    /// Runs the plugin up to its timeout. Blocks until it has exited.
    pub(super) fn run(&self) -> Result<Credential, PluginError> {
        let output = self.output()?;
        credential(&output, now()).map_err(|why| PluginError::Output(self.name(), why))
    }

    fn command(&self) -> Command {
        let mut command = Command::new(self.name());
        command.args(self.exec.args.iter().flatten());
        for variable in self.exec.env.iter().flatten() {
            if let (Some(name), Some(value)) = (variable.get("name"), variable.get("value")) {
                command.env(name, value);
            }
        }
        command.env("KUBERNETES_EXEC_INFO", &self.info);
        for name in self.exec.drop_env.iter().flatten() {
            command.env_remove(name);
        }
        // Its own process group, so that its children are killed with it.
        command.process_group(0).stdin(Stdio::null()).stdout(Stdio::piped());
        command
    }

    fn output(&self) -> Result<Vec<u8>, PluginError> {
        let failed = |error| PluginError::Start(self.name(), Arc::new(error));
        let mut child = self.command().spawn().map_err(failed)?;
        let ended = wait_for(&mut child);
        let output = ended.and_then(|(process, ended)| {
            if let Ok(output) = ended.recv_timeout(self.limit) {
                return output.map(Some);
            }
            // It is not reaped yet, so its group id is not reused.
            _ = kill_process_group(Pid::from_child(&child), Signal::KILL);
            _ = pidfd_send_signal(process, Signal::KILL);
            _ = ended.recv_timeout(AFTER_KILL);
            Ok(None)
        });
        if output.is_err() {
            _ = child.kill();
        }
        let status = child.wait().map_err(failed)?;
        match output.map_err(failed)? {
            None => Err(PluginError::TooSlow(self.name(), self.limit)),
            Some(_) if !status.success() => Err(PluginError::Failed(self.name(), status)),
            Some(output) => Ok(output),
        }
    }
}

type Ended = mpsc::Receiver<io::Result<Vec<u8>>>;

/// Reads the output on another thread until the process has exited; does not reap it.
fn wait_for(child: &mut Child) -> io::Result<(rustix::fd::OwnedFd, Ended)> {
    let process = pidfd_open(Pid::from_child(child), PidfdFlags::empty())?;
    let (same, stdout) = (process.try_clone()?, child.stdout.take());
    let (sender, ended) = mpsc::channel();
    let read = move || {
        let output = read(stdout);
        let exit =
            waitid(WaitId::PidFd(same.as_fd()), WaitIdOptions::EXITED | WaitIdOptions::NOWAIT);
        // Without a receiver the wait has timed out.
        sender.send(exit.map_err(io::Error::from).and(output)).ok();
    };
    thread::Builder::new().name("credentials".to_owned()).spawn(read)?;
    Ok((process, ended))
}

fn read(stdout: Option<ChildStdout>) -> io::Result<Vec<u8>> {
    let mut output = Vec::new();
    if let Some(stdout) = stdout {
        stdout.take(LONGEST).read_to_end(&mut output)?;
    }
    Ok(output)
}

#[expect(clippy::disallowed_methods, reason = "plugins say by the wall clock when a token expires")]
fn now() -> Timestamp {
    Timestamp::now()
}
