//! Merges all sources into one.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use futures_util::future::select_all;
use futures_util::{FutureExt as _, future};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Pod;
use model::ids::PodUid;
use tokio::sync::watch::error::RecvError;

use super::{CopyWatch, Refusal, SourceWatch, UnreadWatch};
use crate::decide::merge::Changes;
use crate::decide::sources::Merged;

pub use crate::decide::sources::{RejectedPod, SourceChange, SourceName};

/// The merged sets of the configured sources. Each pod has a unique uid, and each pod of a manifest has a unique
/// name among those.
#[derive(Debug)]
pub struct Sources {
    merged: Merged,
    /// Written by the sources; closed when they end.
    watches: Vec<(SourceName, SourceWatch)>,
}

impl Sources {
    /// Merges all configured sources.
    pub fn new(mut watches: Vec<(SourceName, SourceWatch)>) -> Self {
        for (_, watch) in &mut watches {
            // A set may have been published before this receiver existed.
            if watch.pods.borrow().is_some() {
                watch.pods.mark_changed();
            }
            if !watch.refusals.borrow().is_empty() {
                watch.refusals.mark_changed();
            }
        }
        let merged = Merged::new(watches.iter().map(|(source, _)| *source));
        Self { merged, watches }
    }

    /// Waits for a change. The first set of a source is one, even if it is empty; so are changed
    /// [`Sources::refusals`], [`Sources::unread`] and [`Sources::copies`], without a change of pods. Returns `None` if
    /// a source ended. Cancel safe.
    pub async fn changed(&mut self) -> Option<SourceChange> {
        loop {
            if let Some(change) = self.merged.follow_up() {
                return Some(change);
            }
            if self.watches.is_empty() {
                return future::pending().await;
            }
            let waits = self.watches.iter_mut().map(|(_, watch)| change_kind(watch).boxed());
            // If several are ready, the first is served first; sources change rarely.
            let (change_kind, index, _) = select_all(waits).await;
            let (source, watch) = &mut self.watches[index];
            match change_kind.ok()? {
                ChangeKind::Others => {
                    watch.refusals.mark_unchanged();
                    if let Some(unread) = &mut watch.unread {
                        unread.mark_unchanged();
                    }
                    if let Some(copies) = &mut watch.copies {
                        copies.mark_unchanged();
                    }
                    let changes = Changes::default();
                    return Some(SourceChange { source: *source, changes, refused: Vec::new() });
                }
                ChangeKind::Pods => {
                    let Some(pods) = watch.pods.borrow_and_update().clone() else { continue };
                    if let Some(change) = self.merged.set_latest(*source, pods) {
                        return Some(change);
                    }
                }
            }
        }
    }

    /// Whether every source has published a set. Before that, no pod can be called orphaned.
    pub fn all_ready(&self) -> bool {
        self.merged.all_ready()
    }

    /// Whether a pod exists but could not be decoded: it is not run, and not orphaned either.
    pub fn is_unread(&self, uid: &PodUid) -> bool {
        self.all_unread().any(|unread| unread.contains(uid))
    }

    /// The pods that exist but could not be decoded.
    pub fn unread(&self) -> BTreeSet<PodUid> {
        self.all_unread().flat_map(Arc::unwrap_or_clone).collect()
    }

    fn all_unread(&self) -> impl Iterator<Item = Arc<BTreeSet<PodUid>>> {
        let all = self.watches.iter().filter_map(|(_, watch)| watch.unread.as_ref());
        all.map(|unread| Arc::clone(&unread.borrow()))
    }

    /// Pods of stored copies of manifests that cannot be used, with when each copy was written.
    pub fn copies(&self) -> BTreeMap<PodUid, Timestamp> {
        let all = self.watches.iter().filter_map(|(_, watch)| watch.copies.as_ref());
        all.flat_map(|copies| Arc::unwrap_or_clone(Arc::clone(&copies.borrow()))).collect()
    }

    /// A wanted pod, as of the last [`Sources::changed`].
    pub fn get(&self, uid: &PodUid) -> Option<&Arc<Pod>> {
        self.merged.get(uid)
    }

    /// All wanted pods, as of the last [`Sources::changed`].
    pub fn pods(&self) -> impl Iterator<Item = (&PodUid, &Arc<Pod>)> {
        self.merged.pods()
    }

    /// Problems of manifests, and pods that are rejected in favour of others.
    pub fn refusals(&self) -> Vec<Refusal> {
        let listed = self.watches.iter().flat_map(|(_, watch)| watch.refusals.borrow().to_vec());
        let mut refusals: Vec<Refusal> = listed.collect();
        for (source, refused) in self.merged.refused() {
            // The source's own refusal has more details.
            if refusals.iter().any(|listed| listed.uid.as_ref() == Some(&refused.uid)) {
                continue;
            }
            refusals.push(Refusal {
                manifest: format!("{} of the source {source}", refused.pod),
                message: refused.to_string(),
                pod: Some(refused.pod.clone()),
                uid: Some(refused.uid.clone()),
                last_good_stays: false,
            });
        }
        refusals
    }
}

/// Which channel of a source changed.
enum ChangeKind {
    Pods,
    /// Refusals, undecodable pods or stored copies.
    Others,
}

async fn change_kind(watch: &mut SourceWatch) -> Result<ChangeKind, RecvError> {
    // Biased: pods before refusals; both change rarely.
    tokio::select! {
        biased;
        changed = watch.pods.changed() => changed.map(|()| ChangeKind::Pods),
        changed = watch.refusals.changed() => changed.map(|()| ChangeKind::Others),
        changed = unread_changed(&mut watch.unread) => changed.map(|()| ChangeKind::Others),
        changed = copies_changed(&mut watch.copies) => changed.map(|()| ChangeKind::Others),
    }
}

async fn unread_changed(unread: &mut Option<UnreadWatch>) -> Result<(), RecvError> {
    match unread {
        Some(unread) => unread.changed().await,
        None => future::pending().await,
    }
}

async fn copies_changed(copies: &mut Option<CopyWatch>) -> Result<(), RecvError> {
    match copies {
        Some(copies) => copies.changed().await,
        None => future::pending().await,
    }
}

#[cfg(test)]
#[path = "sources_tests.rs"]
mod tests;
