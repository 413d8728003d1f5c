//! The processes that pid 1 started, and the orphans that it inherits.

use std::collections::HashMap;
use std::io;
use std::process::Command;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rustix::process::{Pid, Signal, WaitOptions, kill_process, kill_process_group, wait};

use crate::protocol::Target;

/// Why pid 1 failed to start, signal or await a process.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ChildError {
    #[error("cannot start {program}")]
    Spawn {
        program: String,
        #[source]
        source: io::Error,
    },
    #[error("process {pid} was not started here")]
    Unknown { pid: i32 },
    #[error("process {pid} has ended")]
    Ended { pid: i32 },
    #[error("cannot signal process {pid}")]
    Signal {
        pid: i32,
        #[source]
        source: io::Error,
    },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum State {
    Running,
    /// Ended, with this raw wait status.
    Ended(i32),
}

/// Every process that was ever started.
///
/// The lock is held while starting, reaping and signalling. So a process is in the table before its end is seen, a
/// failed start is reaped by its starter, and a pid is never signalled after it was reused.
#[derive(Debug, Default)]
pub(crate) struct Children {
    /// Written by `spawn` and `reap`.
    table: Mutex<HashMap<i32, State>>,
    /// Notified by `reap` whenever a process has ended.
    ended: Condvar,
}

impl Children {
    fn lock(&self) -> MutexGuard<'_, HashMap<i32, State>> {
        // A poisoned lock is usable: the table is never half changed.
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn spawn(&self, command: &mut Command) -> Result<i32, ChildError> {
        let mut table = self.lock();
        let child = command.spawn().map_err(|source| ChildError::Spawn {
            program: command.get_program().to_string_lossy().into_owned(),
            source,
        })?;
        let pid = child.id().cast_signed();
        table.insert(pid, State::Running);
        Ok(pid)
    }

    /// Records the status of all ended processes, orphans included.
    pub(crate) fn reap(&self) {
        let mut table = self.lock();
        // Ends when nothing has ended or there is no child at all.
        while let Ok(Some((pid, status))) = wait(WaitOptions::NOHANG) {
            if let Some(state) = table.get_mut(&pid.as_raw_nonzero().get())
                && *state == State::Running
            {
                *state = State::Ended(status.as_raw());
            }
        }
        self.ended.notify_all();
    }

    /// Waits for the end of `pid`, with a timeout.
    pub(crate) fn wait(&self, pid: i32, time: Duration) -> Result<State, ChildError> {
        let running = |table: &mut HashMap<i32, State>| table.get(&pid) == Some(&State::Running);
        let (table, _) = self
            .ended
            .wait_timeout_while(self.lock(), time, running)
            .unwrap_or_else(PoisonError::into_inner);
        table.get(&pid).copied().ok_or(ChildError::Unknown { pid })
    }

    pub(crate) fn signal(&self, pid: i32, signal: Signal, to: Target) -> Result<(), ChildError> {
        let table = self.lock();
        match table.get(&pid) {
            None => return Err(ChildError::Unknown { pid }),
            Some(State::Ended(_)) => return Err(ChildError::Ended { pid }),
            Some(State::Running) => {}
        }
        let id = Pid::from_raw(pid).ok_or(ChildError::Unknown { pid })?;
        let sent = match to {
            Target::Process => kill_process(id, signal),
            Target::Group => kill_process_group(id, signal),
        };
        sent.map_err(|source| ChildError::Signal { pid, source: source.into() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::process::CommandExt;

    use crate::deadline::Deadline;

    /// One test, because reaping takes the children of every thread.
    #[test]
    fn children_are_awaited_signalled_and_reaped() {
        let children = Children::default();
        let reaped = |pid| {
            Deadline::after(Duration::from_secs(10)).poll(|| {
                children.reap();
                match children.wait(pid, Duration::ZERO) {
                    Ok(State::Ended(status)) => Some(status),
                    _ => None,
                }
            })
        };
        let pid =
            children.spawn(Command::new("sh").args(["-c", "exit 3"]).process_group(0)).unwrap();
        assert_eq!(reaped(pid), Some(3 << 8));

        let pid = children.spawn(Command::new("sleep").arg("1000")).unwrap();
        assert_eq!(children.wait(pid, Duration::from_millis(1)).unwrap(), State::Running);
        children.signal(pid, Signal::KILL, Target::Process).unwrap();
        assert_eq!(reaped(pid), Some(9));
        let error = children.signal(pid, Signal::KILL, Target::Process).unwrap_err();
        assert!(matches!(error, ChildError::Ended { .. }), "{error}");

        let error = children.spawn(&mut Command::new("/nonexistent")).unwrap_err();
        assert_eq!(error.to_string(), "cannot start /nonexistent");
        let error = children.wait(1, Duration::ZERO).unwrap_err();
        assert!(matches!(error, ChildError::Unknown { pid: 1 }), "{error}");
    }
}
