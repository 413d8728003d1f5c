//! Rotation of container logs, and how much disk they take.
//!
//! ```text
//!  pod statuses ──observe──> LogRotation ──> a driver for each container that runs
//!                                               │  quiet: a watch for the next write, nothing else
//!                                               │  written: looks, as often as growth demands
//!                                               │  full: rename, reopen, delete the oldest
//!                                               v
//!                                            compression queue ──> workers
//! ```
//!
//! Inputs: pod statuses, as the runtime cache publishes them; sizes and names of files. Outputs: renamed, compressed
//! and deleted log files; requests to the runtime to open a log again; the bytes that logs take.
//!
//! Invariants:
//! - a live file exceeds its limit by at most 1.2 seconds of writing at the rate that was seen; of its rotated files at
//!   most `max_files - 1` stay, the newest among them;
//! - no rename replaces a file, and a file goes only by a verdict or after its whole gzip is there; so lines that stay
//!   are contiguous, whenever the agent is killed;
//! - a log that is not written costs one watch of a file and one look every [`REPAIR`];
//! - a file system or runtime that hangs delays only the logs that it serves;
//! - only the driver of a container rotates its log, and only one worker at a time compresses files of a container.

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
