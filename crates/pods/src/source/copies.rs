//! Pods that were read from a stored copy because their manifest cannot be used, and when the copy was
//! written. Such a copy may be older than the running pod: writing a later copy may have failed.

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::Timestamp;
use model::ids::PodUid;
use tokio::sync::watch;

/// When the stored copy of each pod was written.
pub type CopyTimes = Arc<BTreeMap<PodUid, Timestamp>>;

/// The latest [`CopyTimes`] of a source.
pub type CopyWatch = watch::Receiver<CopyTimes>;

/// Publishes more copies. Called before the pods are published: a reader of the pods must know which of them
/// are copies.
pub(super) fn add(copies: &watch::Sender<CopyTimes>, more: &BTreeMap<PodUid, Timestamp>) {
    let mut all = BTreeMap::clone(&copies.borrow());
    all.extend(more.iter().map(|(uid, written)| (uid.clone(), *written)));
    set(copies, all);
}

/// Publishes exactly these copies, if they changed. Called after the pods are published.
pub(super) fn set(copies: &watch::Sender<CopyTimes>, now: BTreeMap<PodUid, Timestamp>) {
    copies.send_if_modified(|before| {
        let is_new = **before != now;
        if is_new {
            *before = Arc::new(now);
        }
        is_new
    });
}
