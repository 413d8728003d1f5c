//! `testbed run`: one command inside an instance, on our own terminal.

use std::env;
use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

use crate::error::Error;
use crate::process::{Command, Process, ProcessError};
use crate::protocol::Signal;
use crate::{Cache, ControlPlaneOptions, Instance, Options, User};

/// How long one request for the command's end waits; there is always a next one.
const QUESTION: Duration = Duration::from_mins(10);

/// The node's name for the command.
const NODE: &str = "node-1";

/// Starts an instance, runs `command` in it, removes the instance, and returns the command's exit code: 128 and the
/// signal's number when a signal ended it. With a control plane, all its components run.
///
/// Interrupt, hang-up and termination are forwarded to the command, which thereby decides when to end.
pub fn run(command: Command, control_plane: bool) -> Result<u8, Error> {
    // From here on, an early signal is kept until the command runs.
    let mut signals = Signals::new([SIGHUP, SIGINT, SIGTERM]).map_err(Error::Signals)?;
    let instance = Instance::start(&Options::default())?;
    let command = if control_plane { with_control_plane(&instance, command)? } else { command };
    let command = command
        .env("FERROLET_TESTBED_SOCKET", instance.containerd_socket().to_string_lossy())
        .env("FERROLET_TESTBED_DIR", instance.dir().to_string_lossy())
        .env("FERROLET_TESTBED_NODE_IP", instance.node_ip().to_string())
        .env("FERROLET_TESTBED_POD_CIDR", instance.pod_cidr())
        .current_dir(env::current_dir().map_err(Error::CurrentDir)?);
    let process = Arc::new(instance.spawn_attached(&command)?);
    let target = Arc::clone(&process);
    let handle = signals.handle();
    let forwarder = thread::spawn(move || {
        for signal in &mut signals {
            forward(&target, signal);
        }
    });
    let status = wait(&process);
    handle.close();
    forwarder.join().ok();
    instance.stop()?;
    Ok(exit_code(status?))
}

/// Starts a control plane and sets the command's variables for it.
fn with_control_plane(instance: &Instance, command: Command) -> Result<Command, Error> {
    let (controller_manager, scheduler) = (Some(Vec::new()), Some(Vec::new()));
    let options =
        ControlPlaneOptions { controller_manager, scheduler, ..ControlPlaneOptions::default() };
    let control_plane = instance.start_control_plane(&options)?;
    let node = control_plane.kubeconfig(&User::node(NODE)).map_err(Error::ControlPlane)?;
    let bin = Cache::from_env().map_err(Error::Cache)?.parts().bin();
    let path = format!("{}:{}", bin.display(), env::var("PATH").unwrap_or_default());
    Ok(command
        .env("KUBECONFIG", control_plane.admin_kubeconfig().to_string_lossy())
        .env("FERROLET_TESTBED_NODE", NODE)
        .env("FERROLET_TESTBED_NODE_KUBECONFIG", node.to_string_lossy())
        .env("PATH", path))
}

/// A late signal finds the command ended, as intended.
fn forward(process: &Process, signal: i32) {
    let sent = match signal {
        // A terminal interrupts all foreground processes, so the whole group gets it.
        SIGINT => process.signal_group(Signal::Int),
        SIGHUP => process.signal(Signal::Hup),
        _ => process.signal(Signal::Term),
    };
    sent.ok();
}

fn wait(process: &Process) -> Result<ExitStatus, Error> {
    loop {
        match process.wait(QUESTION) {
            Err(ProcessError::StillRunning { .. }) => {}
            other => return other.map_err(Error::Process),
        }
    }
}

fn exit_code(status: ExitStatus) -> u8 {
    let code = status.code().or_else(|| Some(128 + status.signal()?));
    code.and_then(|code| u8::try_from(code).ok()).unwrap_or(1)
}
