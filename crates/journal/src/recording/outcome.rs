//! The outcome of a removal, as the journal records it, for each port that removes.

use model::chain::Chain;
use model::cluster::PodRemoved;
use model::ports::cgroups::CgroupError;
use model::ports::cluster::ApiError;
use model::ports::files::{FileError, Removed};
use model::ports::runtime::{Code, RuntimeError};

/// What the journal records of a removal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Recorded {
    Removed,
    /// Finalizers hold it.
    Held,
    AlreadyGone,
    Failed(String),
    /// Nothing: there was nothing to remove, or the removal is retried.
    Nothing,
}

/// The result of a removal through a port.
pub trait RemovalResult: Sized {
    /// The outcome that the journal records.
    fn recorded(&self) -> Recorded;

    /// The result of removing an image that a pod claimed, for the port that removes images.
    fn claimed(image: &str) -> Option<Self> {
        let _ = image;
        None
    }
}

fn failed(error: &(dyn std::error::Error + 'static)) -> Recorded {
    Recorded::Failed(Chain(error).to_string())
}

impl RemovalResult for Result<(), RuntimeError> {
    fn recorded(&self) -> Recorded {
        match self {
            Ok(()) => Recorded::Removed,
            Err(error) if error.is_not_found() => Recorded::AlreadyGone,
            Err(error) => failed(error),
        }
    }

    fn claimed(image: &str) -> Option<Self> {
        Some(Err(RuntimeError {
            method: "RemoveImage",
            object: image.to_owned(),
            code: Code::FailedPrecondition,
            message: "a pod uses the image by now".to_owned(),
        }))
    }
}

impl RemovalResult for Result<Removed, FileError> {
    fn recorded(&self) -> Recorded {
        match self {
            Ok(Removed::Now) => Recorded::Removed,
            Ok(Removed::Before) => Recorded::AlreadyGone,
            Err(error) => failed(error),
        }
    }
}

impl RemovalResult for Result<Removed, CgroupError> {
    fn recorded(&self) -> Recorded {
        match self {
            Ok(Removed::Now) => Recorded::Removed,
            // Most removed pods have left no cgroup, and the caller does not check before.
            Ok(Removed::Before) => Recorded::Nothing,
            Err(error) => failed(error),
        }
    }
}

impl RemovalResult for Result<PodRemoved, ApiError> {
    fn recorded(&self) -> Recorded {
        match self {
            Ok(PodRemoved::Gone) => Recorded::Removed,
            Ok(PodRemoved::Held) => Recorded::Held,
            Err(ApiError::NotFound) => Recorded::AlreadyGone,
            // The caller retries.
            Err(ApiError::Throttled { .. }) => Recorded::Nothing,
            Err(error) => failed(error),
        }
    }
}
