//! Notifies garbage collection of pods that changed, ended or are gone.

use std::sync::Arc;

use async_trait::async_trait;
use gc::containers::{ContainerGc, Deletor, StopUnknown};
use gc::decide::PodStates as _;
use gc::decide::deletor::ObservedPod;
use gc::decide::schedule::{RemovedBy, is_whole, removed_by};
use model::chain::Chain;
use model::ids::PodUid;
use model::lifecycle::LifecycleEvent;
use model::observed::{Container, ContainerStatus, RuntimePodStatus};
use model::ports::clock::WallClock;
use model::ports::runtime::RuntimeError;
use runtime::PodKiller;

use crate::cgroup_sweep::CgroupSweep;
use crate::pod_index::PodIndex;

/// The sync loop's side of garbage collection.
#[derive(Debug)]
pub(crate) struct GcNotifier {
    pub(crate) index: Arc<PodIndex>,
    pub(crate) containers: ContainerGc,
    pub(crate) deletor: Deletor,
    pub(crate) clock: Arc<dyn WallClock>,
    pub(crate) cgroups: CgroupSweep,
}

impl GcNotifier {
    /// Looks for cgroups that were missed.
    pub(crate) fn housekeeping(&self) {
        self.cgroups.everything();
    }

    /// Whether every source has listed its pods. The pods are in the index already.
    pub(crate) fn sources_ready(&self, is_ready: bool) {
        if self.index.set_sources_ready(is_ready) {
            self.containers.everything_changed();
        }
    }

    /// Every running and every desired pod has a worker.
    pub(crate) fn complete(&self) {
        if self.index.set_complete() {
            self.containers.everything_changed();
            self.cgroups.everything();
        }
    }

    /// A pod was rejected: the cgroup that an earlier agent created for it is removed.
    pub(crate) fn rejected(&self, uid: &PodUid) {
        if self.index.runs_nothing(uid).is_some() {
            self.cgroups.of_pod(uid);
        }
    }

    /// A pod has ended or is forgotten: if its containers may be removed, they are removed now.
    pub(crate) fn ended(&self, uid: &PodUid) {
        if self.index.state(uid).content_removable().is_some() {
            self.containers.pod_is_removable(uid);
        } else {
            self.containers.pod_has_ended(uid);
        }
        if self.index.runs_nothing(uid).is_some() {
            self.cgroups.of_pod(uid);
        }
    }

    /// The containers or sandboxes of a pod changed; `now` is its status.
    pub(crate) fn changed(
        &self,
        uid: &PodUid,
        now: &Result<Arc<RuntimePodStatus>, RuntimeError>,
        events: &[LifecycleEvent],
    ) {
        match now {
            Ok(status) if is_whole(status) => self.containers.pod_is_whole(uid),
            _ => self.containers.pod_changed(uid),
        }
        let Ok(status) = now else { return };
        self.containers.observe_pod(uid, status);
        let Some(pod) = status.sandboxes.first().map(|sandbox| sandbox.pod.clone()) else { return };
        let state = self.index.state(&status.uid);
        match removed_by(state, self.index.sources_ready(), self.index.any_terminating()) {
            RemovedBy::NotYet => {}
            RemovedBy::HeldPass => self.containers.pod_is_removable(uid),
            RemovedBy::Deletor(all) => {
                let died = events.iter().filter_map(LifecycleEvent::died).map(ToString::to_string);
                let pod = ObservedPod { status, name: &pod };
                self.deletor.died(died, pod, all, self.clock.now());
            }
        }
    }
}

/// Stops containers in an unknown state the way containers of pods are stopped.
#[derive(Debug)]
pub(crate) struct StopThroughRuntime(pub(crate) Arc<PodKiller>);

#[async_trait]
impl StopUnknown for StopThroughRuntime {
    async fn stop(&self, container: &Container, status: &ContainerStatus) -> Result<(), String> {
        let stopped = self.0.without_spec(&container.pod_uid, &container.pod, status).await;
        stopped.map_err(|error| Chain(&error).to_string())
    }
}
