//! Programs of the host that the agent runs for their output.

use std::fmt::{self, Debug};
use std::io;
use std::path::PathBuf;
use std::time::Duration;

use async_trait::async_trait;

/// One run of a program. Its input, environment and arguments are never printed.
#[derive(Clone, PartialEq, Eq)]
pub struct ProgramRun {
    /// The file of the program.
    pub path: PathBuf,
    /// Its arguments.
    pub args: Vec<String>,
    /// Additional variables; they replace the agent's variables of the same name.
    pub env: Vec<(String, String)>,
    /// Its standard input.
    pub input: Vec<u8>,
    /// After this time it is killed, with the processes that it has started.
    pub limit: Duration,
    /// The maximum number of bytes that it may print.
    pub longest_output: usize,
}

impl Debug for ProgramRun {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ProgramRun")
            .field("path", &self.path)
            .field("limit", &self.limit)
            .finish_non_exhaustive()
    }
}

/// Why a program has no output. Never contains the output, which may be secret.
#[derive(Debug, thiserror::Error)]
pub enum ProgramError {
    /// It could not be started, or its output could not be read.
    #[error("run {path}", path = .path.display())]
    Run {
        /// The file of the program.
        path: PathBuf,
        /// The cause.
        #[source]
        source: io::Error,
    },
    /// It was killed at its limit.
    #[error("{path} did not end within {limit:?} and was killed", path = .path.display())]
    TooSlow {
        /// The file of the program.
        path: PathBuf,
        /// The limit.
        limit: Duration,
    },
    /// It printed more than it may, and was killed.
    #[error("{path} printed more than {longest} bytes and was killed", path = .path.display())]
    TooMuch {
        /// The file of the program.
        path: PathBuf,
        /// The maximum number of bytes that it may print.
        longest: usize,
    },
    /// It ended with an error.
    #[error("{path} failed: {status}", path = .path.display())]
    Failed {
        /// The file of the program.
        path: PathBuf,
        /// Its exit status in words.
        status: String,
    },
}

/// Runs programs without a shell. A program inherits the environment of the agent, and only its three standard
/// streams as files.
#[async_trait]
pub trait Programs: Debug + Send + Sync {
    /// Runs a program and returns its standard output, once it has ended with success.
    async fn run(&self, run: ProgramRun) -> Result<Vec<u8>, ProgramError>;
}
