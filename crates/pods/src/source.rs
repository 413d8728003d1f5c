//! Sources of pods. Every source publishes complete sets, the latest one on a watch channel: a slow reader
//! misses only outdated sets.
//!
//! A source with a broken manifest keeps publishing the last good version of it. That version is on disk
//! before it is published, so it survives a restart.

pub mod api;
mod copies;
pub mod file;
pub mod http;
mod last_good;
mod problem;
mod refusal;
mod sources;
mod stored_manifest;
mod support;

use std::collections::BTreeSet;
use std::sync::Arc;

use k8s_openapi::api::core::v1::Pod;
use model::ids::PodUid;
use tokio::sync::watch;

pub use copies::{CopyTimes, CopyWatch};
pub use refusal::{Refusal, RefusalList, RefusalWatch};
pub use sources::{RejectedPod, SourceChange, SourceName, Sources};
pub use support::SupportCheck;

/// The complete set of pods of a source, in its own order.
pub type PodList = Arc<Vec<Arc<Pod>>>;

/// The latest set of a source; `None` until it was read for the first time.
pub type PodSetWatch = watch::Receiver<Option<PodList>>;

/// Pods that exist but could not be decoded.
pub type UnreadWatch = watch::Receiver<Arc<BTreeSet<PodUid>>>;

/// The channels of a source.
#[derive(Debug, Clone)]
pub struct SourceWatch {
    /// The pods.
    pub pods: PodSetWatch,
    /// Problems of manifests.
    pub refusals: RefusalWatch,
    /// Pods that exist, could not be decoded and have no earlier version: not to be run, and not orphaned either.
    /// `None` for a source without such pods.
    pub unread: Option<UnreadWatch>,
    /// Pods of stored copies of manifests. `None` for a source that stores none.
    pub copies: Option<CopyWatch>,
}
