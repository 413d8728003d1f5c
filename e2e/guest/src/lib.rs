//! The protocol between a test and the program inside its virtual machine.
//!
//! - Input: a [`Request`], one line of JSON.
//! - Output: an [`Answer`] to each, in order, one line of JSON. The first answer, [`Answer::Ready`], comes
//!   unasked.
//! - Invariant: an answer is bounded: it has the last [`TEXT_MAX`] bytes of a file or of the output of a program.

use serde::{Deserialize, Serialize};

/// The name of the virtual serial port they speak over.
pub const PORT: &str = "ferrolet.guest";
/// An answer has at most this many bytes of a text: its end.
pub const TEXT_MAX: usize = 512 << 10;
/// Where the guest's program lies in its root.
pub const PROGRAM: &str = "/guest";
/// The file that names the kernel modules to load, in order, one path a line.
pub const MODULES: &str = "/lib/modules/wanted";
/// The kernel's parameter that names the program that is to be pid 1; without it the guest's own stays.
pub const INIT: &str = "GUEST_INIT";

/// What a test asks for. Paths and process ids are the guest's.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Request {
    /// Puts a whole file in place, and the directories above it.
    Write { path: String, text: String },
    /// The content of a file.
    Read { path: String },
    /// Removes a file.
    Remove { path: String },
    /// All directories below one, by their paths, in order.
    Directories { path: String },
    /// Runs a program to its end; it is killed, with its process group, when the time is over.
    Run { argv: Vec<String>, milliseconds: u64 },
    /// Starts a program whose output goes to a file.
    Spawn { argv: Vec<String>, log: String },
    /// Sends a signal, by its number, to a process.
    Signal { pid: i32, signal: i32 },
    /// Waits for the end of a spawned process, up to a time.
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
    /// The process is still there.
    Running,
    /// The process ended: a code, or else a signal, and what it printed, if it was run.
    Ended {
        code: Option<i32>,
        signal: Option<i32>,
        stdout: String,
        stderr: String,
    },
    /// The request failed, for this reason.
    Failed(String),
}

/// The end of a text, on the border of a character.
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
