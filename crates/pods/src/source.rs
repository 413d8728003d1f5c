//! Where pods come from. Every source tells complete sets, the latest on a watch channel: whoever is
//! late misses nothing but what is no longer true.
//!
//! A source that finds something wrong keeps telling what it told last: of a manifest that is broken
//! its last good version, which is on disk before anybody hears of it and so survives a restart.

pub mod api;
mod copies;
pub mod file;
pub mod http;
mod kept;
mod last_good;
mod problem;
mod refusal;
mod sources;
mod support;

use std::collections::BTreeSet;
use std::sync::Arc;

use k8s_openapi::api::core::v1::Pod;
use model::ids::PodUid;
use tokio::sync::watch;

pub use copies::{CopyTimes, CopyWatch};
pub use refusal::{Refusal, RefusalList, RefusalWatch};
pub use sources::{Refused, SourceChange, SourceName, Sources};
pub use support::SupportCheck;

/// The complete set of pods of a source, in its own order.
pub type PodList = Arc<Vec<Arc<Pod>>>;

/// The latest set of a source; `None` until it was read for the first time.
pub type PodSetWatch = watch::Receiver<Option<PodList>>;

/// Pods of which a source knows only that they are there.
pub type UnreadWatch = watch::Receiver<Arc<BTreeSet<PodUid>>>;

/// All that a source tells.
#[derive(Debug, Clone)]
pub struct SourceWatch {
    /// The pods.
    pub pods: PodSetWatch,
    /// What is wrong with manifests.
    pub refusals: RefusalWatch,
    /// Pods that could not be understood, and of which nothing was before: not to be run, and not unwanted either.
    /// None for a source without such pods.
    pub unread: Option<UnreadWatch>,
    /// Pods of stored copies of manifests. None for a source that stores none.
    pub copies: Option<CopyWatch>,
}
