//! What logs are rotated with.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use model::panics::PanicGuard;
use model::ports::clock::WallClock;
use model::ports::files::HostFiles;
use model::ports::log_files::LogFiles;

use crate::metrics::LogMetrics;
use crate::rotation::ReopenLog;

/// How logs are rotated.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings {
    /// From which size on a log is rotated; none if logs are not rotated.
    pub max_size: Option<u64>,
    /// How many files of a log stay, the live one included.
    pub max_files: usize,
    /// How many files are compressed at a time.
    pub workers: usize,
    /// The longest time from one look to the next at a log that grows.
    pub monitor_interval: Duration,
    /// How many bytes all logs of a pod may take; none without a limit.
    pub max_bytes_per_pod: Option<u64>,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            max_size: Some(10 << 20),
            max_files: 5,
            workers: 1,
            monitor_interval: Duration::from_secs(10),
            max_bytes_per_pod: None,
        }
    }
}

/// What logs are rotated with.
#[derive(Debug, Clone)]
pub struct LogParts {
    /// Measures, renames and compresses files.
    pub files: Arc<dyn LogFiles>,
    /// Removes files, and records it.
    pub removals: Arc<dyn HostFiles>,
    /// Opens logs again.
    pub runtime: Arc<dyn ReopenLog>,
    /// The time of day, for names.
    pub clock: Arc<dyn WallClock>,
    /// Where logs of pods are.
    pub pod_logs: PathBuf,
    /// Counts rotations.
    pub metrics: LogMetrics,
    /// Catches panics in the work for single containers.
    pub panics: PanicGuard,
}
