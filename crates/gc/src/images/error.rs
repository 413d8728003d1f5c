//! Errors of image garbage collection.

use std::path::PathBuf;
use std::time::Duration;

use model::chain::{Chain, aggregate};
use model::panics::CaughtPanic;
use model::ports::files::FileError;
use model::ports::runtime::{Code, RuntimeError};

/// A failed pass or part of it.
#[derive(Debug, thiserror::Error)]
pub enum ImageGcError {
    /// The images cannot be listed.
    #[error("list images")]
    ListImages(#[source] RuntimeError),
    /// The images that containers use cannot be listed.
    #[error("list image uses of containers")]
    ListUses(#[source] RuntimeError),
    /// The mounts of a container cannot be read.
    #[error("inspect the mounts of a container")]
    Mounts(#[source] RuntimeError),
    /// The image of sandboxes cannot be read.
    #[error("inspect sandboxes for their image")]
    Sandboxes(#[source] RuntimeError),
    /// The location of images cannot be read.
    #[error("request the image filesystem")]
    Filesystem(#[source] RuntimeError),
    /// The runtime names no image file system.
    #[error("the runtime reports no image filesystem")]
    NoFilesystem,
    /// The file system cannot be measured.
    #[error("measure the image filesystem")]
    Measure(#[source] FileError),
    /// The file system has no capacity, or is unknown on this host.
    #[error("invalid capacity 0 on image filesystem: {}", .0.display())]
    NoCapacity(PathBuf),
    /// Images that are too old could not be removed.
    #[error(
        "wanted to free images older than {maximum_age:?}, encountered errors in image deletion: {errors}"
    )]
    Age {
        /// The maximum age.
        maximum_age: Duration,
        /// The errors.
        errors: Errors,
    },
    /// Images could not be removed to make room.
    #[error(
        "wanted to free {wanted} bytes, but freed {freed} bytes space with errors in image deletion: {errors}"
    )]
    Space {
        /// The wanted space.
        wanted: u64,
        /// The freed space.
        freed: u64,
        /// The errors.
        errors: Errors,
    },
    /// All possible removals are done, and the space is not enough.
    #[error("{0}")]
    NotEnough(String),
    /// The agent stops.
    #[error("the agent stops")]
    Stopped,
    /// Several of these.
    #[error("{}; {}", model::chain::Chain(&**.0), model::chain::Chain(&**.1))]
    Both(Box<ImageGcError>, Box<ImageGcError>),
}

/// A call that panicked. It may have been executed, so its result is `Unknown`.
pub(super) fn panicked(method: &'static str, object: &str, panic: &CaughtPanic) -> RuntimeError {
    let (object, message) = (object.to_owned(), panic.to_string());
    RuntimeError { method, object, code: Code::Unknown, message }
}

/// Failed removals.
#[derive(Debug, Default)]
pub struct Errors(pub Vec<RuntimeError>);

impl std::fmt::Display for Errors {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        for (position, error) in self.0.iter().enumerate() {
            let gap = if position == 0 { "" } else { ", " };
            write!(f, "{gap}{error}")?;
        }
        Ok(())
    }
}

impl ImageGcError {
    /// The message of the event that reports it: upstream's text if the runtime failed.
    pub(crate) fn event_message(&self) -> String {
        let deletion = |errors: &Errors| {
            aggregate(errors.0.iter().map(RuntimeError::rpc_text)).unwrap_or_default()
        };
        match self {
            Self::ListImages(error)
            | Self::ListUses(error)
            | Self::Sandboxes(error)
            | Self::Filesystem(error) => error.rpc_text(),
            Self::Mounts(error) => {
                format!("get container status: runtime container status: {}", error.rpc_text())
            }
            Self::Age { maximum_age, errors } => format!(
                "wanted to free images older than {maximum_age:?}, encountered errors in image \
                 deletion: {}",
                deletion(errors)
            ),
            Self::Space { wanted, freed, errors } => format!(
                "wanted to free {wanted} bytes, but freed {freed} bytes space with errors in image \
                 deletion: {}",
                deletion(errors)
            ),
            Self::Both(first, second) => {
                format!("{}; {}", first.event_message(), second.event_message())
            }
            Self::NoFilesystem
            | Self::Measure(_)
            | Self::NoCapacity(_)
            | Self::NotEnough(_)
            | Self::Stopped => Chain(self).to_string(),
        }
    }

    /// Combines two errors.
    pub(crate) fn and(first: Option<Self>, second: Option<Self>) -> Option<Self> {
        match (first, second) {
            (Some(first), Some(second)) => Some(Self::Both(Box::new(first), Box::new(second))),
            (first, second) => first.or(second),
        }
    }
}
