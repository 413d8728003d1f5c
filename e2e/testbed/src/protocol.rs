//! The messages between holder, supervisor and pid 1.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::network::Addresses;

/// The first and the last line a supervisor prints.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum Report {
    /// The instance is ready.
    Ready { slot: u8, dir: PathBuf, addresses: Addresses },
    /// The instance could not be made, and its parts are removed.
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

/// A request to pid 1. All process ids are those of the instance's PID namespace.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum Request {
    /// Starts a program in its own process group. Standard input, output and error come as descriptors with the
    /// message.
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
    /// Waits for the end of a spawned process, with a timeout.
    Wait {
        pid: i32,
        milliseconds: u64,
    },
}

/// The target of a signal.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub(crate) enum Target {
    Process,
    Group,
}

/// The response of pid 1.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum Response {
    Spawned {
        pid: i32,
    },
    Signalled,
    /// The process still runs.
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
