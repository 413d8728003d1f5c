//! Signals: their names, and waiting for them with a time limit.

use std::collections::BTreeSet;
use std::fmt;
use std::io;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::thread;
use std::time::Instant;

use signal_hook::consts::signal;
use signal_hook::iterator::Signals;

/// Signals a program can have a handler for, by the name without `SIG`.
const NAMES: [(&str, i32); 13] = [
    ("ALRM", signal::SIGALRM),
    ("CHLD", signal::SIGCHLD),
    ("CONT", signal::SIGCONT),
    ("HUP", signal::SIGHUP),
    ("INT", signal::SIGINT),
    ("PIPE", signal::SIGPIPE),
    ("QUIT", signal::SIGQUIT),
    ("TERM", signal::SIGTERM),
    ("TSTP", signal::SIGTSTP),
    ("URG", signal::SIGURG),
    ("USR1", signal::SIGUSR1),
    ("USR2", signal::SIGUSR2),
    ("WINCH", signal::SIGWINCH),
];

/// A signal that can be caught.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Signal(i32);

impl Signal {
    pub(crate) const INT: Self = Self(signal::SIGINT);
    pub(crate) const TERM: Self = Self(signal::SIGTERM);

    /// The signal called `name`: `TERM`, `SIGTERM` or `15`, in any case.
    pub(crate) fn named(name: &str) -> Option<Self> {
        let upper = name.to_uppercase();
        let short = upper.strip_prefix("SIG").unwrap_or(&upper);
        NAMES
            .iter()
            .find(|(known, number)| *known == short || number.to_string() == upper)
            .map(|(_, number)| Self(*number))
    }

    /// The exit code that stands for death by this signal.
    pub(crate) fn exit_code(self) -> i32 {
        128 + self.0
    }
}

impl fmt::Display for Signal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match NAMES.iter().find(|(_, number)| *number == self.0) {
            Some((name, _)) => write!(f, "SIG{name}"),
            None => write!(f, "signal {}", self.0),
        }
    }
}

/// The signals that end a command by default.
pub(crate) const ENDING: [Signal; 2] = [Signal::TERM, Signal::INT];

/// Caught signals, one after the other.
///
/// They are received in a thread of their own, because that wait has no time limit. Only that thread
/// sends, and it lasts as long as the process.
pub(crate) struct Inbox {
    caught: Receiver<Signal>,
}

impl Inbox {
    /// Catches these signals from now on.
    pub(crate) fn catching(signals: &BTreeSet<Signal>) -> io::Result<Self> {
        let mut source = Signals::new(signals.iter().map(|signal| signal.0))?;
        let (caught_by, caught) = mpsc::channel();
        thread::Builder::new().name("signals".into()).spawn(move || {
            for number in source.forever() {
                if caught_by.send(Signal(number)).is_err() {
                    break;
                }
            }
        })?;
        Ok(Self { caught })
    }

    /// The next signal, or nothing when `deadline` comes first. Without a deadline it waits for ever.
    pub(crate) fn next(&self, deadline: Option<Instant>) -> Option<Signal> {
        let Some(deadline) = deadline else {
            return Some(self.caught.recv().expect("the sending thread never ends"));
        };
        match self.caught.recv_timeout(deadline.saturating_duration_since(Instant::now())) {
            Ok(signal) => Some(signal),
            Err(RecvTimeoutError::Timeout) => None,
            Err(RecvTimeoutError::Disconnected) => unreachable!("the sending thread never ends"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn signal_is_parsed_by_name_with_or_without_prefix_and_by_number() {
        for name in ["TERM", "SIGTERM", "sigterm", "term", "15"] {
            assert_eq!(Signal::named(name), Some(Signal::TERM), "{name}");
        }
    }

    #[test]
    fn uncatchable_signal_is_rejected() {
        for name in ["KILL", "SIGKILL", "9", "STOP", "19", "", "SIG", "TERMS"] {
            assert_eq!(Signal::named(name), None, "{name}");
        }
    }

    #[test]
    fn signal_prints_its_full_name() {
        assert_eq!(Signal::TERM.to_string(), "SIGTERM");
    }
}
