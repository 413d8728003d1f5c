//! The resources and ports that the pods of the node use together.

use std::collections::BTreeSet;
use std::sync::Arc;

use k8s_openapi::api::core::v1::Pod;
use model::ids::PodUid;
use podspec::view;

use super::ports::UsedPorts;
use super::resources::{Units, taken};

/// The counted pods and their sums.
#[derive(Debug, Clone, Default)]
pub struct Occupancy {
    pods: Vec<Arc<Pod>>,
    requests: Units,
    ports: UsedPorts,
}

impl Occupancy {
    /// Adds a pod.
    pub fn add(&mut self, pod: Arc<Pod>) {
        for (name, amount) in taken(&pod) {
            let sum = self.requests.entry(name).or_default();
            *sum = sum.saturating_add(amount);
        }
        self.ports.add(&pod);
        self.pods.push(pod);
    }

    /// Removes a pod; returns it.
    pub fn remove(&mut self, uid: &PodUid) -> Option<Arc<Pod>> {
        let is_meant = |pod: &Arc<Pod>| pod.metadata.uid.as_deref() == Some(uid.as_str());
        let at = self.pods.iter().position(is_meant)?;
        let gone = self.pods.remove(at);
        for (name, amount) in taken(&gone) {
            let sum = self.requests.entry(name).or_default();
            *sum = sum.saturating_sub(amount);
        }
        if self.ports.are_of(&gone) {
            // Another pod may use the same ports.
            self.ports = UsedPorts::default();
            self.pods.iter().for_each(|pod| self.ports.add(pod));
        }
        Some(gone)
    }

    /// The occupancy without these pods.
    #[must_use]
    pub fn without(&self, gone: &[PodUid]) -> Self {
        let gone: BTreeSet<&PodUid> = gone.iter().collect();
        let stay = self.pods.iter().filter(|pod| !gone.contains(&view::uid(pod)));
        stay.cloned().collect()
    }

    pub(super) fn pods(&self) -> &[Arc<Pod>] {
        &self.pods
    }

    pub(super) fn count(&self) -> i64 {
        i64::try_from(self.pods.len()).unwrap_or(i64::MAX)
    }

    pub(super) fn requests(&self) -> &Units {
        &self.requests
    }

    pub(super) fn has_free_ports(&self, pod: &Pod) -> bool {
        self.ports.are_free_for(pod)
    }
}

impl FromIterator<Arc<Pod>> for Occupancy {
    fn from_iter<T: IntoIterator<Item = Arc<Pod>>>(pods: T) -> Self {
        let mut all = Self::default();
        pods.into_iter().for_each(|pod| all.add(pod));
        all
    }
}
