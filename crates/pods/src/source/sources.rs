//! All sources as one.

use std::sync::Arc;

use futures_util::future::select_all;
use k8s_openapi::api::core::v1::Pod;
use model::ids::PodUid;

use super::PodSetWatch;
use crate::decide::sources::Merged;

pub use crate::decide::sources::{Refused, SourceChange, SourceName};

/// What the configured sources say, merged; each pod has its name and its uid for itself.
#[derive(Debug)]
pub struct Sources {
    merged: Merged,
    /// Written by the sources; closed when they end.
    watches: Vec<(SourceName, PodSetWatch)>,
}

impl Sources {
    /// Of all sources that are configured.
    pub fn new(mut watches: Vec<(SourceName, PodSetWatch)>) -> Self {
        for (_, watch) in &mut watches {
            // Whatever was said before anybody listened.
            if watch.borrow().is_some() {
                watch.mark_changed();
            }
        }
        let merged = Merged::new(watches.iter().map(|(source, _)| *source));
        Self { merged, watches }
    }

    /// Waits until something is new. The first set of a source is, even if it is empty. `None` when a
    /// source ended. Nothing is lost when the wait is given up.
    pub async fn changed(&mut self) -> Option<SourceChange> {
        loop {
            if let Some(change) = self.merged.follow_up() {
                return Some(change);
            }
            if self.watches.is_empty() {
                return std::future::pending().await;
            }
            let waits = self.watches.iter_mut().map(|(_, watch)| Box::pin(watch.changed()));
            // The first of several is served first; all of them change at the pace of people.
            let (changed, index, _) = select_all(waits).await;
            changed.ok()?;
            let (source, watch) = &mut self.watches[index];
            let Some(pods) = watch.borrow_and_update().clone() else { continue };
            if let Some(change) = self.merged.tell(*source, pods) {
                return Some(change);
            }
        }
    }

    /// Whether every source was heard. Before that nobody knows which pods are unwanted.
    pub fn all_ready(&self) -> bool {
        self.merged.all_told()
    }

    /// A pod that is wanted, as far as [`Sources::changed`] has told.
    pub fn get(&self, uid: &PodUid) -> Option<&Arc<Pod>> {
        self.merged.get(uid)
    }

    /// All pods that are wanted, as far as [`Sources::changed`] has told.
    pub fn pods(&self) -> impl Iterator<Item = (&PodUid, &Arc<Pod>)> {
        self.merged.pods()
    }
}

#[cfg(test)]
#[path = "sources_tests.rs"]
mod tests;
