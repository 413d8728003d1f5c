//! An index of objects by the pod UID in their labels, for lists of one pod. Objects without the label are
//! under an empty UID.

use std::collections::{BTreeMap, BTreeSet};

use model::labels;

#[derive(Debug)]
pub(super) struct ByPod<I>(BTreeMap<String, BTreeSet<I>>);

impl<I> Default for ByPod<I> {
    fn default() -> Self {
        Self(BTreeMap::new())
    }
}

impl<I: Ord + Clone> ByPod<I> {
    pub(super) fn add(&mut self, labels: &BTreeMap<String, String>, id: &I) {
        self.0.entry(uid(labels).to_owned()).or_default().insert(id.clone());
    }

    pub(super) fn remove(&mut self, labels: &BTreeMap<String, String>, id: &I) {
        let uid = uid(labels);
        if let Some(ids) = self.0.get_mut(uid) {
            ids.remove(id);
            if ids.is_empty() {
                self.0.remove(uid);
            }
        }
    }

    pub(super) fn of(&self, uid: &str) -> impl Iterator<Item = &I> {
        self.0.get(uid).into_iter().flatten()
    }
}

/// The pod UID in the labels.
pub(super) fn uid(labels: &BTreeMap<String, String>) -> &str {
    labels.get(labels::POD_UID).map(String::as_str).unwrap_or_default()
}
