//! What holder, supervisor and pid 1 say to each other.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::network::Addresses;

/// The first and the last line a supervisor prints.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum Report {
    /// The instance is there.
    Ready { slot: u8, dir: PathBuf, addresses: Addresses },
    /// The instance could not be made; what there was of it is removed.
    Failed { reason: String },
    /// The instance is removed, except for what the problems name.
    Gone { problems: Vec<String> },
}

/// The first line of pid 1.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum InitReport {
    Listening,
    Failed { reason: String },
}

/// Asked of pid 1. All process ids are those of the instance's PID namespace.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum Request {
    /// Starts a program in a process group of its own. Standard input, output and error come as
    /// descriptors with the message.
    Spawn {
        argv: Vec<String>,
        env: Vec<(String, String)>,
        dir: PathBuf,
    },
    Signal {
        pid: i32,
        signal: Signal,
        to: Target,
    },
    /// Waits for the end of a spawned process, up to a time.
    Wait {
        pid: i32,
        milliseconds: u64,
    },
}

/// Who gets a signal.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub(crate) enum Target {
    Process,
    Group,
}

/// Pid 1's answer.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum Response {
    Spawned {
        pid: i32,
    },
    Signalled,
    /// The process is still there.
    Running,
    /// The process ended, with this raw wait status.
    Ended {
        status: i32,
    },
    Refused {
        reason: String,
    },
}

/// The signals that tests need.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Signal {
    Hup,
    Int,
    Quit,
    Kill,
    Term,
    Usr1,
    Usr2,
    Stop,
    Cont,
}

impl From<Signal> for rustix::process::Signal {
    fn from(signal: Signal) -> Self {
        match signal {
            Signal::Hup => Self::HUP,
            Signal::Int => Self::INT,
            Signal::Quit => Self::QUIT,
            Signal::Kill => Self::KILL,
            Signal::Term => Self::TERM,
            Signal::Usr1 => Self::USR1,
            Signal::Usr2 => Self::USR2,
            Signal::Stop => Self::STOP,
            Signal::Cont => Self::CONT,
        }
    }
}
