//! The settings and dependencies of log rotation.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use model::panics::PanicGuard;
use model::ports::clock::WallClock;
use model::ports::files::HostFiles;
use model::ports::log_files::LogFiles;

use crate::metrics::LogMetrics;
use crate::rotation::ReopenLog;

/// The settings of log rotation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings {
    /// The size at which a log is rotated; `None` if logs are not rotated.
    pub max_size: Option<u64>,
    /// How many files of a log stay, including the live one.
    pub max_files: usize,
    /// How many files are compressed concurrently.
    pub workers: usize,
    /// The longest interval between checks of a growing log.
    pub monitor_interval: Duration,
    /// The common limit of all logs of a pod in bytes; `None` for no limit.
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

/// The dependencies of log rotation.
#[derive(Debug, Clone)]
pub struct LogParts {
    /// Measures, renames and compresses files.
    pub files: Arc<dyn LogFiles>,
    /// Removes files, and records that.
    pub removals: Arc<dyn HostFiles>,
    /// Reopens logs.
    pub runtime: Arc<dyn ReopenLog>,
    /// The time of day, for names.
    pub clock: Arc<dyn WallClock>,
    /// The directory of pod logs.
    pub pod_logs: PathBuf,
    /// Counts rotations.
    pub metrics: LogMetrics,
    /// Catches panics in the work for single containers.
    pub panics: PanicGuard,
}
