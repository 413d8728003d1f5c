//! Pid 1 of an instance: prepares its namespaces, starts programs on request, reaps all processes.

use std::fs;
use std::io::{self, Write};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{self, Command};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use signal_hook::consts::SIGCHLD;
use signal_hook::iterator::Signals;

use crate::MARKER;
use crate::children::{ChildError, Children, State};
use crate::error::{AtPath, PathError, chain};
use crate::hold;
use crate::mounts;
use crate::paths::InstanceDir;
use crate::protocol::{InitReport, Request, Response};
use crate::wire::Wire;

/// Runs as pid 1 for the instance in `dir`, until standard input ends.
///
/// Prints whether it is ready as its first line.
pub fn init(slot: u8, dir: PathBuf) -> process::ExitCode {
    if process::id() != 1 {
        eprintln!("testbed: init is for pid 1 of an instance; here it would cover the host's /run");
        return process::ExitCode::FAILURE;
    }
    let dir = InstanceDir::open(dir);
    let listening = prepare(&dir).and_then(|listener| {
        let signals = Signals::new([SIGCHLD]).at("watch the children of", dir.path())?;
        Ok((listener, signals))
    });
    let (report, listening) = match listening {
        Ok(listening) => (InitReport::Listening, Some(listening)),
        Err(error) => (InitReport::Failed { reason: chain(&error) }, None),
    };
    let reported = serde_json::to_string(&report)
        .map_err(io::Error::from)
        .and_then(|line| writeln!(io::stdout(), "{line}"));
    let (Some((listener, mut signals)), Ok(())) = (listening, reported) else {
        return process::ExitCode::FAILURE;
    };

    let children = Arc::new(Children::default());
    let reaper = Arc::clone(&children);
    thread::spawn(move || {
        for _ in &mut signals {
            reaper.reap();
        }
    });
    thread::spawn(move || serve(&listener, slot, &children));
    hold::wait_for_release();
    // The end of pid 1 is the end of everything in its PID namespace.
    process::ExitCode::SUCCESS
}

fn prepare(dir: &InstanceDir) -> Result<UnixListener, PathError> {
    mounts::isolate(dir)?;
    let forward = "/proc/sys/net/ipv4/ip_forward";
    fs::write(forward, "1").at("write", forward)?;
    let socket = dir.init_socket();
    let listener = UnixListener::bind(&socket).at("bind", &socket)?;
    fs::set_permissions(&socket, fs::Permissions::from_mode(0o600)).at("protect", &socket)?;
    Ok(listener)
}

fn serve(listener: &UnixListener, slot: u8, children: &Arc<Children>) {
    for stream in listener.incoming().flatten() {
        let children = Arc::clone(children);
        thread::spawn(move || {
            if let Err(error) = converse(stream, slot, &children) {
                eprintln!("testbed init: a connection failed: {error}");
            }
        });
    }
}

fn converse(stream: UnixStream, slot: u8, children: &Children) -> io::Result<()> {
    let mut wire = Wire::new(stream);
    while let Some(request) = wire.receive::<Request>()? {
        let response = answer(request, slot, &mut wire, children);
        let response = response.unwrap_or_else(|error| Response::Refused { reason: chain(&error) });
        wire.send(&response, &[])?;
    }
    Ok(())
}

fn answer(
    request: Request,
    slot: u8,
    wire: &mut Wire,
    children: &Children,
) -> Result<Response, ChildError> {
    match request {
        Request::Spawn { argv, env, dir } => {
            let (Some(descriptors), Some((program, args))) =
                (wire.take_stdio(), argv.split_first())
            else {
                return Ok(Response::Refused {
                    reason: "a program and its three descriptors are needed".to_owned(),
                });
            };
            let [stdin, stdout, stderr] = descriptors;
            let mut command = Command::new(program);
            command
                .args(args)
                .envs(env)
                .env(MARKER, slot.to_string())
                .current_dir(dir)
                .stdin(stdin)
                .stdout(stdout)
                .stderr(stderr)
                .process_group(0);
            children.spawn(&mut command).map(|pid| Response::Spawned { pid })
        }
        Request::Signal { pid, signal, to } => {
            children.signal(pid, signal.into(), to).map(|()| Response::Signalled)
        }
        Request::Wait { pid, milliseconds } => {
            match children.wait(pid, Duration::from_millis(milliseconds))? {
                State::Running => Ok(Response::Running),
                State::Ended(status) => Ok(Response::Ended { status }),
            }
        }
    }
}
