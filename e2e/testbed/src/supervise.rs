//! The supervisor: owns everything of an instance outside of its namespaces, and ends the instance when its own
//! standard input ends.

use std::env;
use std::fs::{self, DirBuilder};
use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::unix::fs::DirBuilderExt;
use std::process::{Child, Command, ExitCode, Stdio};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::Duration;

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

use crate::cgroup::{self, CgroupError};
use crate::deadline::Deadline;
use crate::error::{AtPath, PathError, chain};
use crate::hold;
use crate::network::{self, Addresses, NetworkError};
use crate::paths::{Cache, CacheError, InstanceDir};
use crate::protocol::{InitReport, Report};
use crate::slot::Slot;
use crate::sweep::{self, Remainder, SweepError};

/// How long pid 1 may take to prepare its namespaces.
const INIT_START: Duration = Duration::from_secs(20);
/// How long pid 1 may take to end, with everything in its PID namespace, before the processes are killed one by one.
const INIT_END: Duration = Duration::from_secs(10);

/// Why there is no instance.
#[derive(Debug, thiserror::Error)]
enum SuperviseError {
    #[error("cannot take signals")]
    Signals(#[source] io::Error),
    #[error("cannot use the cache directory")]
    Cache(#[source] CacheError),
    #[error("cannot get a slot")]
    Slot(#[source] SweepError),
    #[error("cannot make the instance's directory")]
    Directory(#[source] PathError),
    #[error("cannot make the instance's cgroups")]
    Cgroup(#[source] CgroupError),
    #[error("cannot move the namespaces' parent aside")]
    MoveAside(#[source] PathError),
    #[error("cannot start pid 1")]
    Launch(#[source] io::Error),
    #[error("pid 1 could not prepare its namespaces: {reason}")]
    Init { reason: String },
    #[error("pid 1 ended before it was ready")]
    InitEnded,
    #[error("pid 1 was not ready in {} s", INIT_START.as_secs())]
    InitSlow,
    #[error("cannot connect the instance")]
    Network(#[source] NetworkError),
}

/// Makes an instance, holds it until standard input ends, and removes it.
pub fn supervise() -> ExitCode {
    let (instance, addresses) = match ignore_signals().and_then(|()| Supervised::start()) {
        Ok(instance) => instance,
        Err(error) => {
            send_report(&Report::Failed { reason: chain(&error) });
            return ExitCode::FAILURE;
        }
    };
    let (slot, dir) = (instance.slot.number(), instance.dir.path().to_owned());
    send_report(&Report::Ready { slot, dir, addresses });
    hold::wait_for_release();
    let problems = instance.end();
    for problem in &problems {
        complain(problem);
    }
    let problems: Vec<String> = problems.iter().map(|problem| chain(problem)).collect();
    let clean = problems.is_empty();
    send_report(&Report::Gone { problems });
    if clean { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Only the end of the pipe ends a supervisor: interrupted together with its holder, it could not clean up.
fn ignore_signals() -> Result<(), SuperviseError> {
    // Fails for the leader of a process group, which is out of the holder's group already.
    rustix::process::setsid().ok();
    for signal in [SIGHUP, SIGINT, SIGTERM] {
        // A handler and not "ignore", which programs started from here would inherit.
        signal_hook::flag::register(signal, Arc::new(AtomicBool::new(false)))
            .map_err(SuperviseError::Signals)?;
    }
    Ok(())
}

/// The holder may be dead and its pipe closed; then nothing needs to be reported.
fn send_report(report: &Report) {
    let line = serde_json::to_string(report).expect("reports are plain text and numbers");
    writeln!(io::stdout(), "{line}").ok();
}

fn complain(problem: &SweepError) {
    writeln!(io::stderr(), "testbed: {}", chain(problem)).ok();
}

struct Supervised {
    slot: Slot,
    dir: InstanceDir,
    /// The parent of pid 1. Its standard input, which pid 1 inherited, is the pipe that holds pid 1.
    init: Option<Child>,
}

impl Supervised {
    fn start() -> Result<(Self, Addresses), SuperviseError> {
        let cache = Cache::from_env().map_err(SuperviseError::Cache)?;
        let taken = sweep::take_slot(&cache, &mut |problem| complain(&problem));
        let (slot, dir) = taken.map_err(SuperviseError::Slot)?;
        let mut instance = Self { slot, dir, init: None };
        match instance.bring_up() {
            Ok(addresses) => Ok((instance, addresses)),
            Err(error) => {
                instance.end().iter().for_each(complain);
                Err(error)
            }
        }
    }

    fn bring_up(&mut self) -> Result<Addresses, SuperviseError> {
        let slot = self.slot.number();
        // Accessible to all, because containers with other user ids have their files below.
        let dir = self.dir.path();
        DirBuilder::new()
            .mode(0o711)
            .create(dir)
            .at("make", dir)
            .map_err(SuperviseError::Directory)?;
        let mut child = self.launch()?;
        let pid = child.id();
        let lines = child.stdout.take();
        self.init = Some(child);
        wait_ready(lines.expect("standard output is piped"))?;
        let addresses = network::connect(slot, pid).map_err(SuperviseError::Network)?;
        cgroup::move_aside(pid).map_err(SuperviseError::MoveAside)?;
        Ok(addresses)
    }

    /// Starts, inside the instance's cgroups and new namespaces, pid 1.
    fn launch(&self) -> Result<Child, SuperviseError> {
        let slot = self.slot.number();
        let cgroups = cgroup::make(slot).map_err(SuperviseError::Cgroup)?;
        let program = env::current_exe().map_err(SuperviseError::Launch)?;
        Command::new(&program)
            .arg("enter")
            .args(&cgroups)
            .args(["--", "unshare", "--mount", "--pid", "--net", "--cgroup"])
            .args(["--fork", "--kill-child=KILL", "--mount-proc", "--"])
            .arg(&program)
            .args(["init", &slot.to_string()])
            .arg(self.dir.path())
            .current_dir("/")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .map_err(SuperviseError::Launch)
    }

    /// Ends pid 1, removes everything, and returns what could not be removed.
    fn end(mut self) -> Vec<SweepError> {
        let slot = self.slot.number();
        if let Some(child) = &mut self.init {
            drop(child.stdin.take());
            let frozen = cgroup::find(slot).unwrap_or_default();
            Deadline::after(INIT_END).poll(|| {
                cgroup::thaw(&frozen);
                child.try_wait().ok().flatten()
            });
        }
        let keep = env::var_os("FERROLET_KEEP").is_some_and(|value| value == "1");
        let leave = if keep { Remainder::Directory } else { Remainder::Nothing };
        let mut problems = sweep::clear(slot, self.dir.path(), leave);
        if keep {
            problems.extend(self.keep_directory().err());
        }
        if let Some(child) = &mut self.init {
            // It is killed by now, if it did not end before.
            Deadline::after(Duration::from_secs(1)).poll(|| child.try_wait().ok().flatten());
        }
        problems
            .extend(self.slot.release().map_err(|source| SweepError::Take { slot, source }).err());
        problems
    }

    /// Moves the directory to where the next instance of this slot does not remove it.
    fn keep_directory(&self) -> Result<(), SweepError> {
        let slot = self.slot.number();
        let kept = self.dir.path().with_file_name(format!("kept-{slot}-{}", std::process::id()));
        fs::rename(self.dir.path(), &kept)
            .at("move", self.dir.path())
            .map_err(|source| SweepError::Directory { slot, source })?;
        writeln!(io::stderr(), "testbed: the instance's files are kept in {}", kept.display()).ok();
        Ok(())
    }
}

fn wait_ready(output: impl Read + Send + 'static) -> Result<(), SuperviseError> {
    let (sender, receiver) = mpsc::channel();
    // Ends at the latest with pid 1, which closes the other end.
    thread::spawn(move || {
        let mut line = String::new();
        if BufReader::new(output).read_line(&mut line).is_ok() {
            sender.send(line).ok();
        }
    });
    let line = receiver.recv_timeout(INIT_START).map_err(|error| match error {
        RecvTimeoutError::Timeout => SuperviseError::InitSlow,
        RecvTimeoutError::Disconnected => SuperviseError::InitEnded,
    })?;
    match serde_json::from_str(&line) {
        Ok(InitReport::Listening) => Ok(()),
        Ok(InitReport::Failed { reason }) => Err(SuperviseError::Init { reason }),
        Err(_) => Err(SuperviseError::InitEnded),
    }
}
