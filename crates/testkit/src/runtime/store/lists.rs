//! Lists of the store.

use std::collections::BTreeMap;

use jiff::Timestamp;
use model::ids::{ContainerId, PodUid, SandboxId};
use model::labels;
use model::observed::{Container, Sandbox, SandboxStatus};
use model::ports::runtime::{ContainerFilter, ImageUse, SandboxFilter};
use model::wanted::{LinuxResources, NamespaceMode};

use super::{Refusal, SandboxRecord, Store};
use crate::runtime::by_pod;
use crate::runtime::container::ContainerRecord;

impl Store {
    pub(in crate::runtime) fn sandbox(&self, id: &SandboxId) -> Option<&SandboxRecord> {
        self.sandboxes.get(id)
    }

    /// A container as of the last update.
    #[cfg(feature = "hollow")]
    pub(in crate::runtime) fn seen_container(&self, id: &ContainerId) -> Option<&ContainerRecord> {
        self.containers.get(id)
    }

    /// Stores the resources of a sandbox.
    pub(in crate::runtime) fn limit_sandbox(
        &mut self,
        id: &SandboxId,
        overhead: &LinuxResources,
        resources: &LinuxResources,
    ) -> Result<(), Refusal> {
        let record = self.sandboxes.get_mut(id);
        let record = record.ok_or_else(|| Refusal::not_found("sandbox", id.as_str()))?;
        record.config.overhead = overhead.clone();
        record.config.resources = resources.clone();
        Ok(())
    }

    pub(in crate::runtime) fn sandboxes(&self, filter: &SandboxFilter) -> Vec<Sandbox> {
        self.chosen_sandboxes(filter).map(SandboxRecord::listed).collect()
    }

    pub(in crate::runtime) fn sandbox_status(
        &self,
        id: &SandboxId,
    ) -> Result<SandboxStatus, Refusal> {
        let record =
            self.sandboxes.get(id).ok_or_else(|| Refusal::not_found("sandbox", id.as_str()))?;
        Ok(SandboxStatus {
            id: id.clone(),
            pod_uid: record.config.pod_uid.clone(),
            pod: record.config.pod.clone(),
            attempt: record.config.attempt,
            state: record.state,
            created_at: record.created_at,
            ips: record.ips.clone(),
            host_network: record.config.network == NamespaceMode::Node,
            given: record
                .config
                .annotations
                .get(labels::POD_SIZES)
                .map(|text| text.as_str().into()),
        })
    }

    pub(in crate::runtime) fn containers(
        &mut self,
        filter: &ContainerFilter,
        now: Timestamp,
    ) -> Vec<Container> {
        self.advance(now);
        self.chosen_containers(filter).map(ContainerRecord::listed).collect()
    }

    /// The ids of used images, including those of containers without a pod.
    pub(in crate::runtime) fn image_uses(
        &mut self,
        filter: &ContainerFilter,
        now: Timestamp,
    ) -> Vec<ImageUse> {
        self.advance(now);
        self.chosen_containers(filter).map(ContainerRecord::image_use).collect()
    }

    /// The sandboxes that match a filter, in the order of their ids.
    pub(in crate::runtime) fn chosen_sandboxes<'a>(
        &'a self,
        filter: &'a SandboxFilter,
    ) -> impl Iterator<Item = &'a SandboxRecord> {
        let all: Box<dyn Iterator<Item = &SandboxRecord>> = match filter {
            SandboxFilter { id: Some(id), .. } => Box::new(self.sandboxes.get(id).into_iter()),
            SandboxFilter { pod_uid: Some(uid), .. } if !uid.is_empty() => {
                let ids = self.sandboxes_by_pod.of(uid.as_str());
                Box::new(ids.filter_map(|id| self.sandboxes.get(id)))
            }
            _ => Box::new(self.sandboxes.values()),
        };
        all.filter(move |record| {
            filter.state.is_none_or(|state| state == record.state)
                && match &filter.pod_uid {
                    // The runtime filters by labels only; it also knows the pod of a sandbox.
                    Some(uid) if uid.is_empty() => record.config.pod_uid.is_empty(),
                    uid => is_of_pod(&record.config.labels, uid.as_ref()),
                }
        })
    }

    /// The containers that match a filter as of the last update, in the order of their ids.
    pub(in crate::runtime) fn chosen_containers<'a>(
        &'a self,
        filter: &'a ContainerFilter,
    ) -> impl Iterator<Item = &'a ContainerRecord> {
        let known = |id: &ContainerId| self.containers.get(id);
        let all: Box<dyn Iterator<Item = &ContainerRecord>> = match filter {
            ContainerFilter { id: Some(id), .. } => Box::new(known(id).into_iter()),
            ContainerFilter { sandbox_id: Some(id), .. } => {
                let sandbox = self.sandboxes.get(id);
                let ids = sandbox.into_iter().flat_map(|sandbox| &sandbox.containers);
                Box::new(ids.filter_map(known))
            }
            ContainerFilter { pod_uid: Some(uid), .. } => {
                Box::new(self.containers_by_pod.of(uid.as_str()).filter_map(known))
            }
            _ => Box::new(self.containers.values()),
        };
        all.filter(move |record| {
            filter.state.is_none_or(|state| state == record.state())
                && filter.sandbox_id.as_ref().is_none_or(|id| *id == record.sandbox_id)
                && is_of_pod(&record.config.labels, filter.pod_uid.as_ref())
        })
    }
}

/// Whether labels have this pod UID, or none.
fn is_of_pod(labels: &BTreeMap<String, String>, wanted: Option<&PodUid>) -> bool {
    wanted.is_none_or(|uid| by_pod::uid(labels) == uid.as_str())
}
