//! The holder's side of a supervisor: start, hold, release.

use std::env;
use std::io::{self, BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Child, ChildStdin, Command, ExitStatus, Stdio};
use std::sync::mpsc::{self, Receiver};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use crate::deadline::Deadline;
use crate::network::Addresses;
use crate::paths::InstanceDir;
use crate::protocol::Report;

/// The path of the supervisor's program, for holders in another directory.
const PROGRAM: &str = "FERROLET_TESTBED_BIN";
/// Enough to remove leftovers of several dead instances.
const START: Duration = Duration::from_mins(2);
/// Longer than the supervisor's own deadlines together.
const STOP: Duration = Duration::from_mins(2);

/// Why the supervisor failed its holder.
#[derive(Debug, thiserror::Error)]
pub enum SupervisorError {
    #[error("the program {} does not exist: run `make test`, or build it with `cargo build -p testbed`", path.display())]
    Missing { path: PathBuf },
    #[error("cannot run {}", path.display())]
    Start {
        path: PathBuf,
        #[source]
        source: io::Error,
    },
    #[error("no instance could be made: {reason}")]
    Failed { reason: String },
    #[error("it ended ({status}) without saying why")]
    Ended { status: ExitStatus },
    #[error("it said nothing for {} s", time.as_secs())]
    Silent { time: Duration },
    #[error("cannot check whether it ended")]
    Ask(#[source] io::Error),
    #[error("not everything of the instance could be removed: {}", problems.join("; "))]
    Leftovers { problems: Vec<String> },
}

/// An instance that a supervisor has made.
#[derive(Debug)]
pub(crate) struct Ready {
    pub(crate) slot: u8,
    pub(crate) dir: InstanceDir,
    pub(crate) addresses: Addresses,
}

/// A running supervisor. Dropping it ends the instance and waits for that.
#[derive(Debug)]
pub(crate) struct Supervisor {
    child: Child,
    /// The pipe; closing it ends the instance. The kernel closes it when we die.
    hold: Option<ChildStdin>,
    /// Filled by a thread that reads the supervisor's output, and closed at its end. The lock is never contended: it
    /// makes references to an instance shareable.
    reports: Mutex<Receiver<Report>>,
}

impl Supervisor {
    /// Starts a supervisor and waits until its instance is ready.
    pub(crate) fn start() -> Result<(Self, Ready), SupervisorError> {
        let path = program()?;
        let spawned = Command::new(&path)
            .arg("supervise")
            .current_dir("/")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn();
        let mut child = spawned.map_err(|source| SupervisorError::Start { path, source })?;
        let hold = child.stdin.take();
        let output = child.stdout.take().expect("standard output is piped");
        let (sender, reports) = mpsc::channel();
        thread::spawn(move || {
            for line in BufReader::new(output).lines().map_while(Result::ok) {
                if let Ok(report) = serde_json::from_str(&line) {
                    sender.send(report).ok();
                }
            }
        });
        let mut supervisor = Self { child, hold, reports: Mutex::new(reports) };
        match supervisor.next_report(START)? {
            Report::Ready { slot, dir, addresses } => {
                let dir = InstanceDir::open(dir);
                Ok((supervisor, Ready { slot, dir, addresses }))
            }
            Report::Failed { reason } => {
                // It ends by itself and removes the instance.
                supervisor.hold = None;
                supervisor.wait_ended()?;
                Err(SupervisorError::Failed { reason })
            }
            Report::Gone { problems } => Err(SupervisorError::Leftovers { problems }),
        }
    }

    fn next_report(&mut self, time: Duration) -> Result<Report, SupervisorError> {
        let reports = self.reports.get_mut().unwrap_or_else(PoisonError::into_inner);
        if let Ok(report) = reports.recv_timeout(time) {
            return Ok(report);
        }
        let ended =
            Deadline::after(Duration::from_secs(1)).poll(|| self.child.try_wait().transpose());
        match ended {
            Some(status) => {
                Err(SupervisorError::Ended { status: status.map_err(SupervisorError::Ask)? })
            }
            None => Err(SupervisorError::Silent { time }),
        }
    }

    fn wait_ended(&mut self) -> Result<ExitStatus, SupervisorError> {
        let ended = Deadline::after(STOP).poll(|| self.child.try_wait().transpose());
        ended.ok_or(SupervisorError::Silent { time: STOP })?.map_err(SupervisorError::Ask)
    }

    /// The supervisor's process id on the host.
    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Ends the instance and waits until it is removed. A second call has no effect.
    pub(crate) fn stop(&mut self) -> Result<(), SupervisorError> {
        if self.hold.take().is_none() {
            return Ok(());
        }
        let report = self.next_report(STOP)?;
        self.wait_ended()?;
        match report {
            Report::Gone { problems } if !problems.is_empty() => {
                Err(SupervisorError::Leftovers { problems })
            }
            _ => Ok(()),
        }
    }
}

impl Drop for Supervisor {
    fn drop(&mut self) {
        if let Err(error) = self.stop() {
            eprintln!("testbed: {}", crate::error::chain(&error));
        }
    }
}

/// The testbed's own program. Cargo puts it into the profile's directory and test programs into one below it.
pub fn program() -> Result<PathBuf, SupervisorError> {
    if let Some(path) = env::var_os(PROGRAM).map(PathBuf::from) {
        return if path.is_file() { Ok(path) } else { Err(SupervisorError::Missing { path }) };
    }
    let own = env::current_exe()
        .map_err(|source| SupervisorError::Start { path: "testbed".into(), source })?;
    let candidates = own.ancestors().skip(1).take(2).map(|dir| dir.join("testbed"));
    let mut path = own.clone();
    for candidate in candidates {
        if candidate.is_file() {
            return Ok(candidate);
        }
        path = candidate;
    }
    Err(SupervisorError::Missing { path })
}
