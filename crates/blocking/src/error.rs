//! Errors of blocking calls, and overdue calls.

use std::fmt;
use std::io;
use std::path::PathBuf;
use std::time::Duration;

/// A call that has not returned within its limit, and still holds a thread.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StuckCall {
    /// The operation: `read`, `create directory`, …
    pub operation: &'static str,
    /// Its object: a file, a cgroup, a program.
    pub subject: PathBuf,
    /// How long it has been running.
    pub running: Duration,
}

impl fmt::Display for StuckCall {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { operation, subject, running } = self;
        write!(f, "{operation} {} has not returned for {} s", subject.display(), running.as_secs())
    }
}

/// Why a call returned no result.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CallError {
    /// It is running, and did not return in time.
    #[error("has not returned for {} s", .0.as_secs())]
    Overdue(Duration),
    /// It was not started: an earlier call for the same file or pod directory is overdue.
    #[error("not tried: {0}")]
    Stuck(StuckCall),
    /// It was not started: no thread was free in time.
    #[error("not tried: all {threads} threads for {pool} are busy{}", because(.oldest.as_ref()))]
    Busy {
        /// The pool without a free thread.
        pool: &'static str,
        /// The number of its threads.
        threads: usize,
        /// The call that has run for longest.
        oldest: Option<StuckCall>,
    },
    /// It panicked, or the agent is stopping.
    #[error("{0}")]
    Ended(String),
}

fn because(oldest: Option<&StuckCall>) -> String {
    oldest.map(|oldest| format!("; {oldest}")).unwrap_or_default()
}

impl From<CallError> for io::Error {
    fn from(error: CallError) -> Self {
        let kind = match &error {
            CallError::Overdue(_) | CallError::Stuck(_) => io::ErrorKind::TimedOut,
            CallError::Busy { .. } => io::ErrorKind::ResourceBusy,
            CallError::Ended(_) => io::ErrorKind::Other,
        };
        Self::new(kind, error)
    }
}
