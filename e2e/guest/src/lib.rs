//! The protocol between a test and the program inside its virtual machine.
//!
//! - Input: a [`Request`], one line of JSON.
//! - Output: an [`Answer`] to each, in order, one line of JSON. The first answer, [`Answer::Ready`], comes
//!   unasked.
//! - Invariant: an answer is bounded: it has the last [`TEXT_MAX`] bytes of a file or of the output of a program.

use serde::{Deserialize, Serialize};

/// The name of the virtual serial port.
pub const PORT: &str = "ferrolet.guest";
/// An answer has at most this many bytes of a text: its end.
pub const TEXT_MAX: usize = 512 << 10;
/// The path of the guest's program in its root.
pub const PROGRAM: &str = "/guest";
/// The file that names the kernel modules to load, in order, one path a line.
pub const MODULES: &str = "/lib/modules/wanted";
/// The kernel parameter with the path of the program that becomes pid 1; without it, it is the guest's own.
pub const INIT: &str = "GUEST_INIT";

/// A test's request. Paths and process ids are the guest's.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Request {
    /// Writes a file atomically, and creates its parent directories.
    Write { path: String, text: String },
    /// The content of a file.
    Read { path: String },
    /// Removes a file.
    Remove { path: String },
    /// The paths of all directories below a directory, in order.
    Directories { path: String },
    /// Runs a program; it is killed, with its process group, after its timeout.
    Run { argv: Vec<String>, milliseconds: u64 },
    /// Starts a program whose output goes to a file.
    Spawn { argv: Vec<String>, log: String },
    /// Sends a signal, by its number, to a process.
    Signal { pid: i32, signal: i32 },
    /// Waits for the end of a spawned process, with a timeout.
    Wait { pid: i32, milliseconds: u64 },
}

/// The guest's answer to a request.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Answer {
    /// The guest is ready, this long after its kernel started.
    Ready {
        milliseconds: u64,
    },
    Done,
    Text(String),
    Paths(Vec<String>),
    Spawned {
        pid: i32,
    },
    /// The process still runs.
    Running,
    /// The process ended. It has an exit code or a signal. The output is that of a command that was
    /// run, else empty.
    Ended {
        code: Option<i32>,
        signal: Option<i32>,
        stdout: String,
        stderr: String,
    },
    /// The request failed, for this reason.
    Failed(String),
}

/// The end of a text, cut at a character boundary.
pub fn bounded(bytes: &[u8]) -> String {
    String::from_utf8_lossy(&bytes[bytes.len().saturating_sub(TEXT_MAX)..]).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bounded_keeps_the_end_of_a_long_text() {
        assert_eq!(bounded(b"short"), "short");
        let mut long = vec![b'x'; TEXT_MAX];
        long.extend_from_slice(b"end");
        let kept = bounded(&long);
        assert_eq!(kept.len(), TEXT_MAX);
        assert!(kept.ends_with("xend"));
    }

    #[test]
    fn request_is_one_line() {
        let request = Request::Write { path: "/a".to_owned(), text: "one\ntwo\n".to_owned() };
        let line = serde_json::to_string(&request).unwrap();
        assert!(!line.contains('\n'), "{line}");
        assert_eq!(serde_json::from_str::<Request>(&line).unwrap(), request);
    }
}
