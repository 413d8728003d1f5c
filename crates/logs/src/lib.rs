//! Rotation of container logs, and their disk usage.
//!
//! ```text
//!  pod statuses ──observe──> LogRotation ──> a driver for each running container
//!                                               │  quiet: a watch for the next write, nothing else
//!                                               │  written: checks, as often as growth requires
//!                                               │  full: rename, reopen, delete the oldest
//!                                               v
//!                                            compression queue ──> workers
//! ```
//!
//! Inputs: pod statuses from the runtime cache; sizes and names of files. Outputs: renamed, compressed and
//! deleted log files; requests to the runtime to reopen a log; the disk usage of logs.
//!
//! Invariants:
//! - a live file exceeds its limit by at most 1.2 seconds of writing at the observed rate; at most `max_files -
//!   1` of its rotated files stay, the newest among them;
//! - no rename replaces a file, and a file is deleted only by a verdict or after its gzip is complete; so the
//!   remaining lines are contiguous, even if the agent is killed at any moment;
//! - a log without writes costs one watch of a file and one check every [`REPAIR`];
//! - a hanging file system or runtime delays only its own logs;
//! - only the driver of a container rotates its log, and only one worker at a time compresses files of a
//!   container.

mod compressor;
pub mod decide;
mod driver;
mod metrics;
mod observed;
mod pod_limit;
mod rotation;
mod settings;
mod shared;
mod table;
mod task;

pub use driver::REPAIR;
pub use metrics::LogMetrics;
pub use rotation::ReopenLog;
pub use settings::{LogParts, Settings};
pub use table::LogUse;
pub use task::{LogRotation, LogRotationTask, log_rotation};
