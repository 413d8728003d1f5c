//! What is left of pods: what the sync loop tells whoever collects it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;
use gc::containers::{ContainerGc, Deletor, StopUnknown};
use gc::decide::PodStates;
use gc::decide::deletor::ObservedPod;
use gc::decide::schedule::{RemovedBy, is_whole, removed_by};
use k8s_openapi::api::core::v1::Pod;
use model::chain::Chain;
use model::ids::PodUid;
use model::lifecycle::LifecycleEvent;
use model::observed::{Container, ContainerStatus, PodStatus};
use model::pod_state::{PodState, WorkerState};
use model::ports::clock::WallClock;
use model::ports::runtime::RuntimeError;
use pods::WorkerStates;
use podspec::view;
use runtime::PodKiller;

use crate::cgroup_sweep::CgroupSweep;

/// Which pods there are, by the sources and by the workers.
#[derive(Debug)]
pub(crate) struct KnownPods {
    workers: WorkerStates,
    /// Written by the sync loop alone. Never held across an await.
    told: Mutex<Told>,
}

#[derive(Debug, Default)]
struct Told {
    /// The pods that sources give, those that were refused included, and whether they may run for so
    /// long only.
    given: BTreeMap<PodUid, bool>,
    /// Those of them that were refused: nothing of them is to run.
    refused: BTreeSet<PodUid>,
    /// Pods for which a worker was asked, which may not have begun.
    working: BTreeSet<PodUid>,
    /// Whether every source was heard.
    sources_ready: bool,
    /// Whether whatever runs and whatever is wanted has a worker since: who has none is gone.
    looked_after: bool,
}

impl KnownPods {
    pub(crate) fn new(workers: WorkerStates) -> Self {
        Self { workers, told: Mutex::default() }
    }

    fn told(&self) -> MutexGuard<'_, Told> {
        self.told.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// How far a pod is that a source gives; nothing of one that none gives any more, though it may still end.
    pub(crate) fn given(&self, uid: &PodUid) -> Option<PodState> {
        let is_given = self.told().given.contains_key(uid);
        is_given.then(|| self.state(uid))
    }

    /// By which rule nothing of a pod runs, nor will: it is gone, or was refused. Before everything that runs
    /// has a worker nobody knows.
    pub(crate) fn runs_nothing(&self, uid: &PodUid) -> Option<&'static str> {
        let told = self.told();
        let has_worker = told.working.contains(uid) || self.workers.get(uid).is_some();
        if !told.sources_ready || !told.looked_after || has_worker {
            None
        } else if told.refused.contains(uid) {
            Some("pod-was-refused")
        } else {
            (!told.given.contains_key(uid)).then_some("pod-is-gone")
        }
    }
}

impl PodStates for KnownPods {
    fn sources_ready(&self) -> bool {
        self.told().sources_ready
    }

    fn state(&self, uid: &PodUid) -> PodState {
        // Both are looked at under one lock, so that a pod that comes is not missed between the two.
        let told = self.told();
        match self.workers.get(uid) {
            Some(worker) => PodState::Known(worker),
            None if told.given.contains_key(uid) => PodState::Given,
            // It lives and is about to be ended.
            None if told.working.contains(uid) => PodState::Known(WorkerState::default()),
            None if told.looked_after => PodState::Gone,
            None => PodState::NotHeard,
        }
    }

    /// The time that a pod may run counts from its first sandbox.
    fn needs_first_sandbox(&self, uid: &PodUid) -> bool {
        self.told().given.get(uid).copied().unwrap_or(false)
    }

    fn any_ends(&self) -> bool {
        self.workers.any_ends()
    }
}

/// The sync loop's side.
#[derive(Debug)]
pub(crate) struct Remains {
    known: Arc<KnownPods>,
    gc: ContainerGc,
    deletor: Deletor,
    clock: Arc<dyn WallClock>,
    cgroups: CgroupSweep,
}

impl Remains {
    pub(crate) fn new(
        known: Arc<KnownPods>,
        (gc, deletor): (ContainerGc, Deletor),
        clock: Arc<dyn WallClock>,
        cgroups: CgroupSweep,
    ) -> Self {
        Self { known, gc, deletor, clock, cgroups }
    }

    /// Which pods there are, for whoever else asks.
    pub(crate) fn known_pods(&self) -> Arc<KnownPods> {
        Arc::clone(&self.known)
    }

    /// Looks for what was missed.
    pub(crate) fn housekeeping(&self) {
        self.cgroups.everything();
    }

    /// These pods are given by sources; so are those that could not be read.
    pub(crate) fn known<'a>(
        &self,
        given: impl Iterator<Item = (&'a PodUid, &'a Arc<Pod>)>,
        unread: &BTreeSet<PodUid>,
        sources_ready: bool,
    ) {
        let has_deadline =
            |pod: &Pod| view::spec(pod).is_some_and(|spec| spec.active_deadline_seconds.is_some());
        let mut told = self.known.told();
        let given = given.map(|(uid, pod)| (uid.clone(), has_deadline(pod)));
        told.given = given.chain(unread.iter().map(|uid| (uid.clone(), false))).collect();
        let Told { given, refused, .. } = &mut *told;
        refused.retain(|uid| given.contains_key(uid));
        let before = std::mem::replace(&mut told.sources_ready, sources_ready);
        drop(told);
        if before != sources_ready {
            self.gc.everything_changed();
        }
    }

    /// A pod was refused: what an earlier agent made for it goes, so far as nothing of it runs.
    pub(crate) fn refused(&self, uid: &PodUid) {
        self.known.told().refused.insert(uid.clone());
        if self.known.runs_nothing(uid).is_some() {
            self.cgroups.of_pod(uid);
        }
    }

    /// A pod that may have been refused is looked at anew.
    pub(crate) fn not_refused(&self, uid: &PodUid) {
        self.known.told().refused.remove(uid);
    }

    /// A worker is about to be asked for a pod.
    pub(crate) fn worked_on(&self, uid: &PodUid) {
        self.known.told().working.insert(uid.clone());
    }

    /// A pod has no worker any more.
    pub(crate) fn forgotten(&self, uid: &PodUid) {
        self.known.told().working.remove(uid);
    }

    /// All sources were heard, and whatever runs or is wanted has a worker.
    pub(crate) fn all_looked_after(&self) {
        let before = std::mem::replace(&mut self.known.told().looked_after, true);
        if !before {
            self.gc.everything_changed();
            self.cgroups.everything();
        }
    }

    /// A pod has ended or is forgotten: if all that is left of it may go, it goes now.
    pub(crate) fn ended(&self, uid: &PodUid) {
        if self.known.state(uid).content_removable().is_some() {
            self.gc.pod_is_removable(uid);
        } else {
            self.gc.pod_has_ended(uid);
        }
        if self.known.runs_nothing(uid).is_some() {
            self.cgroups.of_pod(uid);
        }
    }

    /// Something happened to a pod in the runtime, which is like this now.
    pub(crate) fn happened(
        &self,
        uid: &PodUid,
        now: &Result<Arc<PodStatus>, RuntimeError>,
        events: &[LifecycleEvent],
    ) {
        match now {
            Ok(status) if is_whole(status) => self.gc.pod_is_whole(uid),
            _ => self.gc.pod_changed(uid),
        }
        let Ok(status) = now else { return };
        self.gc.pod_is_like(uid, status);
        let Some(pod) = status.sandboxes.first().map(|sandbox| sandbox.pod.clone()) else { return };
        let state = self.known.state(&status.uid);
        match removed_by(state, self.known.sources_ready(), self.known.any_ends()) {
            RemovedBy::Nobody => {}
            RemovedBy::HeldPass => self.gc.pod_is_removable(uid),
            RemovedBy::Deletor(all) => {
                let died = events.iter().filter_map(LifecycleEvent::died).map(ToString::to_string);
                let pod = ObservedPod { status, name: &pod };
                self.deletor.died(died, pod, all, self.clock.now());
            }
        }
    }
}

/// Ends containers of which nothing is known as pods' own are ended.
#[derive(Debug)]
pub(crate) struct StopThroughRuntime(pub(crate) Arc<PodKiller>);

#[async_trait]
impl StopUnknown for StopThroughRuntime {
    async fn stop(&self, container: &Container, status: &ContainerStatus) -> Result<(), String> {
        let stopped = self.0.without_spec(&container.pod_uid, &container.pod, status).await;
        stopped.map_err(|error| Chain(&error).to_string())
    }
}

#[cfg(test)]
impl KnownPods {
    /// These pods are given, and nobody works on them.
    pub(crate) fn giving(uids: &[&str]) -> Self {
        let known = Self::new(WorkerStates::default());
        known.told().given = uids.iter().map(|uid| (PodUid::from(*uid), false)).collect();
        known
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // behaviour: GC-4, GC-5
    #[test]
    fn a_pod_is_gone_once_all_is_looked_after_and_nobody_gives_it() {
        let known = KnownPods::new(WorkerStates::default());
        let (a, b) = (PodUid::from("a"), PodUid::from("b"));
        let states = |known: &KnownPods| [&a, &b].map(|uid| known.state(uid));
        assert_eq!(states(&known), [PodState::NotHeard; 2]);
        known.told().given.insert(a.clone(), false);
        known.told().sources_ready = true;
        assert_eq!(states(&known), [PodState::Given, PodState::NotHeard]);
        known.told().looked_after = true;
        assert_eq!(states(&known), [PodState::Given, PodState::Gone]);
        assert!(known.sources_ready() && !known.needs_first_sandbox(&a));
    }

    // behaviour: CGR-40
    #[test]
    fn of_a_pod_that_was_refused_nothing_runs_unless_it_has_a_worker() {
        let known = KnownPods::new(WorkerStates::default());
        let uid = PodUid::from("a");
        known.told().given.insert(uid.clone(), false);
        known.told().sources_ready = true;
        known.told().looked_after = true;
        assert_eq!(known.runs_nothing(&uid), None, "it is wanted");
        known.told().refused.insert(uid.clone());
        assert_eq!(known.runs_nothing(&uid), Some("pod-was-refused"));
        assert_eq!(known.state(&uid), PodState::Given, "its logs stay");
        known.told().working.insert(uid.clone());
        assert_eq!(known.runs_nothing(&uid), None, "it is being ended");
        known.told().working.remove(&uid);
        known.told().looked_after = false;
        assert_eq!(known.runs_nothing(&uid), None, "its earlier version may run");
        known.told().looked_after = true;
        known.told().given.clear();
        known.told().refused.clear();
        assert_eq!(known.runs_nothing(&uid), Some("pod-is-gone"));
    }

    // behaviour: PRS-2
    #[test]
    fn a_pod_that_no_source_gives_any_more_is_not_given_though_it_is_still_worked_on() {
        let (a, b) = (PodUid::from("a"), PodUid::from("b"));
        let known = KnownPods::giving(&["a"]);
        known.told().working.insert(b.clone());
        assert_eq!(known.given(&a), Some(PodState::Given));
        assert_eq!(known.state(&b), PodState::Known(WorkerState::default()));
        assert_eq!(known.given(&b), None);
    }

    #[test]
    fn a_stranger_that_is_about_to_be_ended_is_not_gone() {
        let known = KnownPods::new(WorkerStates::default());
        let uid = PodUid::from("a");
        known.told().sources_ready = true;
        known.told().looked_after = true;
        known.told().working.insert(uid.clone());
        assert_eq!(known.state(&uid), PodState::Known(WorkerState::default()));
        assert_eq!(known.state(&uid).content_removable(), None);
        known.told().working.remove(&uid);
        assert_eq!(known.state(&uid), PodState::Gone);
    }
}
