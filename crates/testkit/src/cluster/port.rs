//! The ports of the API server.

use async_trait::async_trait;
use model::cluster::{
    ClusterEvent, Deletion, FailedStatus, Lease, LeaseName, LeaseRecord, NodeRecord, PodPhase,
    PodRecord, PodRemoved, PodTarget, Uid, Version,
};
use model::ports::clock::WallClock as _;
use model::ports::cluster::{ApiError, ClusterEvents, Leases, Nodes, PodFeed, PodWrites, Sink};
use model::verdict::Verdict;

use super::call_faults::with_fault;
use super::{ApiCall, MemoryCluster, RemovedPod, State};

impl MemoryCluster {
    /// Runs a call with its fault, if any.
    pub(super) async fn call<T>(
        &self,
        kind: ApiCall,
        what: &str,
        call: impl FnOnce(&mut State) -> Result<T, ApiError>,
    ) -> Result<T, ApiError> {
        let fault = {
            let mut state = self.shared.state();
            state.calls.push((kind, what.to_owned()));
            state.faults.next(&self.who, kind)
        };
        with_fault(fault, || self.shared.change(call)).await
    }
}

#[async_trait]
impl PodFeed for MemoryCluster {
    async fn follow_pods(&self, sink: &dyn Sink<PodRecord, Uid>) {
        self.watch_pods(sink).await;
    }
}

#[async_trait]
impl Nodes for MemoryCluster {
    async fn follow_nodes(&self, sink: &dyn Sink<NodeRecord, String>) {
        self.watch_nodes(sink).await;
    }

    async fn node(&self, name: &str) -> Result<Option<NodeRecord>, ApiError> {
        self.call(ApiCall::Node, name, |state| Ok(state.nodes.get(name).cloned())).await
    }
}

fn key(pod: &PodTarget) -> (String, String) {
    (pod.namespace.to_string(), pod.name.to_string())
}

fn named(pod: &PodTarget) -> String {
    format!("{}/{}", pod.namespace, pod.name)
}

#[async_trait]
impl PodWrites for MemoryCluster {
    async fn fail_pod(&self, pod: &PodTarget, status: &FailedStatus) -> Result<Version, ApiError> {
        let fail = |state: &mut State| {
            let mut stored = state.pods.get(&key(pod)).cloned().ok_or(ApiError::NotFound)?;
            if stored.record.uid != pod.uid {
                return Err(ApiError::Conflict("uid mismatch".to_owned()));
            }
            if pod.version.0.is_some() && stored.record.version != pod.version {
                return Err(ApiError::Conflict("resource version mismatch".to_owned()));
            }
            stored.record.phase = PodPhase::Failed;
            if let Some(generation) = status.observed_generation {
                stored.record.observed_generation = generation;
            }
            if let Some(disruption) = &status.disruption {
                stored.record.disrupted_since = Some(disruption.since.as_second());
                stored.disruption = Some(disruption.clone());
            }
            Ok(state.put_pod(key(pod), stored))
        };
        self.call(ApiCall::FailPod, &named(pod), fail).await
    }

    async fn remove_pod(&self, pod: &PodTarget, verdict: &Verdict) -> Result<PodRemoved, ApiError> {
        let (at, by) = (self.clock.now(), self.who.clone());
        let remove = |state: &mut State| {
            let mut stored = state.pods.get(&key(pod)).cloned().ok_or(ApiError::NotFound)?;
            if stored.record.uid != pod.uid {
                return Err(ApiError::Conflict("uid mismatch".to_owned()));
            }
            if pod.version.0.is_some() && stored.record.version != pod.version {
                return Err(ApiError::Conflict("resource version mismatch".to_owned()));
            }
            if stored.has_finalizer {
                if stored.record.deletion != Deletion::Forced {
                    stored.record.deletion = Deletion::Forced;
                    state.put_pod(key(pod), stored);
                }
                return Ok(PodRemoved::Held);
            }
            state.removed.push(RemovedPod {
                node: state.nodes.get(&stored.record.node).cloned(),
                record: stored.record,
                disruption: stored.disruption,
                verdict: verdict.clone(),
                at,
                target: pod.clone(),
                by,
                holders: state.leases.values().map(|lease| lease.record.holder.clone()).collect(),
            });
            state.drop_pod(&key(pod));
            Ok(PodRemoved::Gone)
        };
        self.call(ApiCall::RemovePod, &named(pod), remove).await
    }
}

#[async_trait]
impl Leases for MemoryCluster {
    async fn lease(&self, name: &LeaseName) -> Result<Option<Lease>, ApiError> {
        self.call(ApiCall::Lease, &name.name, |state| Ok(state.leases.get(name).cloned())).await
    }

    async fn create_lease(
        &self,
        name: &LeaseName,
        record: &LeaseRecord,
    ) -> Result<Lease, ApiError> {
        let create = |state: &mut State| {
            if state.leases.contains_key(name) {
                return Err(ApiError::Conflict("already exists".to_owned()));
            }
            state.version += 1;
            let version = state.version.to_string();
            let lease = Lease { record: record.clone(), uid: "lease".into(), version };
            state.leases.insert(name.clone(), lease.clone());
            Ok(lease)
        };
        self.call(ApiCall::Lease, &name.name, create).await
    }

    async fn update_lease(
        &self,
        name: &LeaseName,
        from: &Lease,
        record: &LeaseRecord,
    ) -> Result<Lease, ApiError> {
        let update = |state: &mut State| {
            state.version += 1;
            let version = state.version.to_string();
            let lease = state.leases.get_mut(name).ok_or(ApiError::NotFound)?;
            if lease.version != from.version {
                return Err(ApiError::Conflict("resource version mismatch".to_owned()));
            }
            (lease.version, lease.record) = (version, record.clone());
            Ok(lease.clone())
        };
        self.call(ApiCall::Lease, &name.name, update).await
    }
}

/// Whether two leases have the same name.
fn is_same(one: &ClusterEvent, other: &ClusterEvent) -> bool {
    let place = |event: &ClusterEvent| (event.about.namespace.clone(), event.about.name.clone());
    one.first == other.first && place(one) == place(other)
}

#[async_trait]
impl ClusterEvents for MemoryCluster {
    async fn write_event(&self, event: &ClusterEvent) -> Result<(), ApiError> {
        let name = event.about.name.clone();
        let write = |state: &mut State| {
            if state.events.iter().any(|one| is_same(one, event)) {
                return Err(ApiError::Conflict("already exists".to_owned()));
            }
            state.events.push(event.clone());
            Ok(())
        };
        self.call(ApiCall::Event, &name, write).await
    }

    async fn count_event(&self, event: &ClusterEvent) -> Result<(), ApiError> {
        let name = event.about.name.clone();
        let count = |state: &mut State| {
            let written = state.events.iter_mut().find(|one| is_same(one, event));
            let written = written.ok_or(ApiError::NotFound)?;
            (written.count, written.at) = (event.count, event.at);
            written.message.clone_from(&event.message);
            Ok(())
        };
        self.call(ApiCall::CountEvent, &name, count).await
    }
}

#[cfg(test)]
mod tests {
    use anyhow::{Context as _, Result};

    use k8s_openapi::api::core::v1::NodeSelectorTerm;
    use model::ports::objects::StorageReads;
    use model::storage::{ClaimName, ClaimRecord, PersistentVolumeRecord, PersistentVolumeSource};

    use super::*;
    use crate::cluster::{node, pod};
    use crate::contract::assert_kept;
    use crate::contract::cluster::{Harness, play_all};

    #[async_trait]
    impl Harness for MemoryCluster {
        fn pods(&self) -> &dyn PodWrites {
            self
        }
        fn nodes(&self) -> &dyn Nodes {
            self
        }
        fn leases(&self) -> &dyn Leases {
            self
        }
        async fn make_pod(&self, name: &str, is_held: bool) -> Result<PodTarget> {
            self.create_pod(pod(name));
            self.hold_pod(name, is_held);
            let PodRecord { namespace, name, uid, version, .. } =
                self.pod(name).context("it was just made")?;
            Ok(PodTarget { namespace: namespace.into(), name: name.into(), uid, version })
        }
        async fn phase(&self, name: &str) -> Result<Option<PodPhase>> {
            Ok(self.pod(name).map(|pod| pod.phase))
        }
        async fn make_node(&self, name: &str) -> Result<()> {
            self.put_node(NodeRecord { is_ready: false, ..node(name) });
            Ok(())
        }
        fn storage(&self) -> &dyn StorageReads {
            self
        }
        async fn make_claim(&self, name: &str) -> Result<ClaimName> {
            let key = ClaimName { namespace: "default".into(), name: name.into() };
            let claim =
                ClaimRecord { uid: "c1".into(), volume: name.into(), ..ClaimRecord::default() };
            self.put_claim(&key, claim);
            let path = "/disk".to_owned();
            let volume = PersistentVolumeRecord {
                claim_uid: Some("c1".into()),
                mode: Some("Filesystem".into()),
                access_modes: vec!["ReadWriteOnce".to_owned()],
                mount_options: Vec::new(),
                group: None,
                node_affinity: Some(vec![NodeSelectorTerm::default()]),
                source: PersistentVolumeSource::Local { path, fs_type: None },
            };
            self.put_persistent_volume(name, volume);
            Ok(key)
        }
    }

    #[tokio::test]
    async fn memory_api_server_passes_the_contract() {
        assert_eq!(assert_kept(&play_all(&MemoryCluster::default()).await), []);
    }
}
