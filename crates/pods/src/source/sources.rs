//! All sources as one.

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

pub use crate::decide::sources::{Refused, SourceChange, SourceName};

/// What the configured sources say, merged; each pod has its uid for itself, and each of a manifest its
/// name among those.
#[derive(Debug)]
pub struct Sources {
    merged: Merged,
    /// Written by the sources; closed when they end.
    watches: Vec<(SourceName, SourceWatch)>,
}

impl Sources {
    /// Of all sources that are configured.
    pub fn new(mut watches: Vec<(SourceName, SourceWatch)>) -> Self {
        for (_, watch) in &mut watches {
            // Whatever was said before anybody listened.
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

    /// Waits until something is new. The first set of a source is, even if it is empty; so are other
    /// [`Sources::refusals`], [`Sources::unread`] and [`Sources::copies`], with no change of pods. `None` when a source ended. Nothing is lost when
    /// the wait is given up.
    pub async fn changed(&mut self) -> Option<SourceChange> {
        loop {
            if let Some(change) = self.merged.follow_up() {
                return Some(change);
            }
            if self.watches.is_empty() {
                return future::pending().await;
            }
            let waits = self.watches.iter_mut().map(|(_, watch)| news(watch).boxed());
            // The first of several is served first; all of them change at the pace of people.
            let (news, index, _) = select_all(waits).await;
            let (source, watch) = &mut self.watches[index];
            match news.ok()? {
                News::Others => {
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
                News::Pods => {
                    let Some(pods) = watch.pods.borrow_and_update().clone() else { continue };
                    if let Some(change) = self.merged.tell(*source, pods) {
                        return Some(change);
                    }
                }
            }
        }
    }

    /// Whether every source was heard. Before that nobody knows which pods are unwanted.
    pub fn all_ready(&self) -> bool {
        self.merged.all_told()
    }

    /// Whether it is known of a pod only that it is there: it is not run, and not unwanted either.
    pub fn is_unread(&self, uid: &PodUid) -> bool {
        self.all_unread().any(|unread| unread.contains(uid))
    }

    /// The pods of which only that is known.
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

    /// A pod that is wanted, as far as [`Sources::changed`] has told.
    pub fn get(&self, uid: &PodUid) -> Option<&Arc<Pod>> {
        self.merged.get(uid)
    }

    /// All pods that are wanted, as far as [`Sources::changed`] has told.
    pub fn pods(&self) -> impl Iterator<Item = (&PodUid, &Arc<Pod>)> {
        self.merged.pods()
    }

    /// What is wrong with manifests, and which pods have to stand back behind others.
    pub fn refusals(&self) -> Vec<Refusal> {
        let told = self.watches.iter().flat_map(|(_, watch)| watch.refusals.borrow().to_vec());
        let mut refusals: Vec<Refusal> = told.collect();
        for (source, refused) in self.merged.refused() {
            // A source that knows more says it itself.
            if refusals.iter().any(|told| told.uid.as_ref() == Some(&refused.uid)) {
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

/// Of what there is news.
enum News {
    Pods,
    /// What is refused, could not be understood, or is of a stored copy.
    Others,
}

async fn news(watch: &mut SourceWatch) -> Result<News, RecvError> {
    // Biased: pods before what is said about them; both change at the pace of people.
    tokio::select! {
        biased;
        changed = watch.pods.changed() => changed.map(|()| News::Pods),
        changed = watch.refusals.changed() => changed.map(|()| News::Others),
        changed = unread_changed(&mut watch.unread) => changed.map(|()| News::Others),
        changed = copies_changed(&mut watch.copies) => changed.map(|()| News::Others),
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
