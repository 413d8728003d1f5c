//! What the sync loop and the pods' workers tell one another of pods whose resources change.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use k8s_openapi::api::core::v1::Pod;
use model::admission::PendingResize;
use model::ids::PodUid;
use podspec::{Allocation, ReportedResize, view};
use tokio::sync::Notify;

use crate::resize_metrics::{Counts, ResizeMetrics};

/// Resizes that wait, written by the sync loop; and those under way, begun there and ended by workers.
#[derive(Debug)]
pub struct Resizes {
    /// Counts them.
    pub metrics: ResizeMetrics,
    /// Never held across an await.
    state: Mutex<State>,
    /// Wakes the sync loop.
    done: Notify,
}

#[derive(Debug, Default)]
struct State {
    pending: BTreeMap<PodUid, Arc<PendingResize>>,
    /// What pods will be given, once others have gone or it is on record: nobody else gets it.
    reserved: BTreeMap<PodUid, Allocation>,
    under_way: BTreeMap<PodUid, UnderWay>,
    /// Those that are over, until the sync loop hears of it.
    over: BTreeSet<PodUid>,
}

/// A pod was given other resources than it has.
#[derive(Debug)]
struct UnderWay {
    /// What it is to have; none when an earlier agent gave it that.
    to: Option<Allocation>,
    /// What it had before, and may still have.
    before: Allocation,
    /// What is in the way.
    error: Option<Arc<str>>,
    /// Whether it may have been over before this agent came.
    doubtful: bool,
}

impl UnderWay {
    fn new(to: Option<Allocation>, before: Allocation) -> Self {
        Self { to, before, error: None, doubtful: false }
    }
}

impl State {
    fn counts(&self) -> Counts {
        let infeasible = self.pending.values().filter(|pending| pending.infeasible).count();
        let deferred = self.pending.len() - infeasible;
        Counts { deferred, infeasible, in_progress: self.under_way.len() }
    }
}

impl Resizes {
    /// None yet.
    pub fn new(metrics: ResizeMetrics) -> Self {
        Self { metrics, state: Mutex::default(), done: Notify::new() }
    }

    /// Changes what is known, and counts.
    fn change<T>(&self, change: impl FnOnce(&mut State) -> T) -> T {
        let mut state = self.state();
        let before = state.counts();
        let changed = change(&mut state);
        let after = state.counts();
        if before != after {
            self.metrics.there_are(after);
        }
        changed
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Why a pod is not given what it asks for.
    pub fn pending(&self, uid: &PodUid) -> Option<Arc<PendingResize>> {
        self.state().pending.get(uid).cloned()
    }

    /// A pod is not given what it asks for, or is again.
    pub fn set_pending(&self, uid: &PodUid, pending: Option<PendingResize>) {
        self.change(|state| match pending {
            Some(pending) => state.pending.insert(uid.clone(), Arc::new(pending)),
            None => state.pending.remove(uid),
        });
    }

    /// A pod will be given what it asks for: nobody else gets that.
    pub fn reserve(&self, uid: &PodUid, desired: &Pod) {
        self.state().reserved.insert(uid.clone(), Allocation::of(desired));
    }

    /// Nothing is set aside for a pod any more.
    pub fn unreserve(&self, uid: &PodUid) {
        self.state().reserved.remove(uid);
    }

    /// A pod was given other resources than it had.
    pub fn begin(&self, uid: &PodUid, pod: &Pod, before: &Pod) {
        let mut before = Allocation::of(before);
        self.change(|state| {
            state.reserved.remove(uid);
            if let Some(earlier) = state.under_way.remove(uid) {
                before = before.max(&earlier.before);
            }
            let under_way = UnderWay::new(Some(Allocation::of(pod)), before);
            state.under_way.insert(uid.clone(), under_way);
        });
    }

    /// An earlier agent gave a pod other resources than it had `before`, and came so far.
    pub fn resume(&self, pod: &Pod, before: Allocation, told: &ReportedResize, doubtful: bool) {
        let error = told.error.as_deref().map(Into::into);
        let under_way = UnderWay::new(Some(Allocation::of(pod)), before);
        let under_way = UnderWay { error, doubtful, ..under_way };
        self.change(|state| state.under_way.insert(view::uid(pod), under_way));
    }

    /// What a pod takes of the node: as long as it may still have more than it was given, that; and
    /// what it will be given.
    pub fn taken(&self, uid: &PodUid, pod: Arc<Pod>) -> Arc<Pod> {
        let state = self.state();
        let before = state.under_way.get(uid).map(|under_way| &under_way.before);
        let more: Vec<&Allocation> = before.into_iter().chain(state.reserved.get(uid)).collect();
        if more.is_empty() {
            return pod;
        }
        let own = Allocation::of(&pod);
        more.into_iter().fold(own, |most, more| most.max(more)).applied(&pod)
    }

    /// A worker sees whether the pod, as it was told of it, has what it was given. Whether that is news
    /// and means that a resize is over.
    pub fn seen(&self, uid: &PodUid, pod: &Pod, resizes: bool) -> bool {
        let over = self.change(|state| {
            if resizes {
                // An earlier agent began it.
                let unknown = || UnderWay::new(None, Allocation::default());
                state.under_way.entry(uid.clone()).or_insert_with(unknown).doubtful = false;
                return None;
            }
            // A job may still be about the pod as it was before.
            let is_meant = |one: &UnderWay| one.to.as_ref().is_none_or(|to| to.is_of(pod));
            state.under_way.get(uid).filter(|one| is_meant(one))?;
            state.over.insert(uid.clone());
            state.under_way.remove(uid)
        });
        if over.is_some() {
            self.done.notify_one();
        }
        over.is_some_and(|over| !over.doubtful)
    }

    /// A worker sees that nothing but the pod's cgroup has not what it should. Whether that is part of a
    /// resize, which is not over then.
    pub fn goes_on(&self, uid: &PodUid) -> bool {
        let mut state = self.state();
        let Some(under_way) = state.under_way.get_mut(uid) else { return false };
        under_way.doubtful = false;
        true
    }

    /// Something is in the way of a resize. Whether that is news.
    pub fn failed(&self, uid: &PodUid, error: &str) -> bool {
        let mut state = self.state();
        let Some(under_way) = state.under_way.get_mut(uid) else { return false };
        let is_news = under_way.error.as_deref() != Some(error);
        under_way.error = Some(error.into());
        is_news
    }

    /// What is in the way of a pod's resize.
    pub fn error(&self, uid: &PodUid) -> Option<Arc<str>> {
        self.state().under_way.get(uid)?.error.clone()
    }

    /// Waits until resizes are over; answers which, each once.
    pub async fn done(&self) -> BTreeSet<PodUid> {
        self.done.notified().await;
        std::mem::take(&mut self.state().over)
    }

    /// A pod went.
    pub fn forget(&self, uid: &PodUid) {
        self.change(|state| {
            state.pending.remove(uid);
            state.reserved.remove(uid);
            state.under_way.remove(uid);
            state.over.remove(uid);
        });
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::ResourceRequirements;
    use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
    use prometheus::{Registry, TextEncoder};
    use testkit::pods::pod;

    use super::*;

    fn resizes() -> (Resizes, Registry) {
        let registry = Registry::new();
        (Resizes::new(ResizeMetrics::new(&registry).unwrap()), registry)
    }

    fn asking(cpu: &str) -> Pod {
        let quantity = Quantity(cpu.to_owned());
        let requests = Some([("cpu".to_owned(), quantity)].into());
        let resources = ResourceRequirements { requests, ..ResourceRequirements::default() };
        let pod = pod("web").container("main", "image", ["sleep", "forever"]);
        pod.spec(|spec| spec.containers[0].resources = Some(resources)).build()
    }

    // behaviour: RSZ-5
    #[test]
    fn what_a_pod_will_be_given_or_may_still_have_is_taken() {
        let (resizes, _) = resizes();
        let uid = PodUid::from("uid");
        let taken = |cpu: &str| Allocation::of(&resizes.taken(&uid, Arc::new(asking(cpu))));
        let of = |cpu: &str| Allocation::of(&asking(cpu));
        assert_eq!(taken("1"), of("1"));
        resizes.reserve(&uid, &asking("3"));
        assert_eq!((taken("1"), taken("4")), (of("3"), of("4")));
        resizes.begin(&uid, &asking("3"), &asking("2"));
        assert_eq!((taken("3"), taken("1")), (of("3"), of("2")), "it is given, no more set aside");
        resizes.reserve(&uid, &asking("5"));
        resizes.unreserve(&uid);
        assert_eq!(taken("1"), of("2"));
        resizes.forget(&uid);
        assert_eq!(taken("1"), of("1"));
        // An earlier agent began it.
        let told = ReportedResize { error: Some("busy".to_owned()), ..ReportedResize::default() };
        let uid = view::uid(&asking("1"));
        let taken = |cpu: &str| Allocation::of(&resizes.taken(&uid, Arc::new(asking(cpu))));
        resizes.resume(&asking("1"), of("6"), &told, false);
        assert_eq!((taken("1"), resizes.error(&uid).as_deref()), (of("6"), Some("busy")));
        assert!(resizes.seen(&uid, &asking("1"), false));
        assert_eq!(taken("1"), of("1"));
        // Nobody hears of the end of one that may have been over.
        for (sees_it, told) in [(false, false), (true, true)] {
            resizes.resume(&asking("1"), of("6"), &ReportedResize::default(), true);
            assert!(!sees_it || !resizes.seen(&uid, &asking("1"), true));
            assert_eq!(resizes.seen(&uid, &asking("1"), false), told);
            assert_eq!(taken("1"), of("1"));
        }
    }

    // behaviour: RSZ-24
    #[test]
    fn resizes_are_counted_as_they_come_and_go() {
        let (resizes, registry) = resizes();
        let (one, other) = (PodUid::from("one"), PodUid::from("other"));
        let told = || {
            let text = TextEncoder::new().encode_to_string(&registry.gather()).unwrap();
            let lines = text.lines().filter(|line| !line.starts_with('#'));
            lines.map(ToOwned::to_owned).collect::<Vec<String>>()
        };
        let pending =
            |infeasible| Some(PendingResize { infeasible, message: "no room".to_owned() });
        resizes.set_pending(&one, pending(false));
        resizes.set_pending(&other, pending(true));
        resizes.begin(&other, &asking("2"), &asking("1"));
        let expected = [
            "kubelet_pod_in_progress_resizes 1",
            "kubelet_pod_pending_resizes{reason=\"deferred\"} 1",
            "kubelet_pod_pending_resizes{reason=\"infeasible\"} 1",
        ];
        assert_eq!(told(), expected);
        resizes.set_pending(&one, None);
        resizes.forget(&other);
        assert_eq!(told(), ["kubelet_pod_in_progress_resizes 0"]);
        resizes.metrics.requested(("cpu", "limits", "increase"));
        resizes.metrics.infeasible("removal");
        resizes.metrics.deferred_accepted(crate::resize_metrics::Trigger::PodsRemoved);
        let expected = [
            "kubelet_container_requested_resizes_total{operation=\"increase\",requirement=\"limits\",resource=\"cpu\"} 1",
            "kubelet_pod_deferred_accepted_resizes_total{retry_trigger=\"pods_removed\"} 1",
            "kubelet_pod_in_progress_resizes 0",
            "kubelet_pod_infeasible_resizes_total{reason_detail=\"removal\"} 1",
        ];
        assert_eq!(told(), expected);
    }

    #[test]
    fn a_resize_is_over_when_the_pod_that_is_meant_has_what_it_was_given() {
        let (resizes, _) = resizes();
        let uid = PodUid::from("uid");
        let (old, new) = (asking("1"), asking("2"));
        assert!(!resizes.seen(&uid, &old, false), "there is none");
        resizes.begin(&uid, &new, &old);
        let less = Arc::new(asking("500m"));
        assert_eq!(Allocation::of(&resizes.taken(&uid, less)), Allocation::of(&old));
        assert!(!resizes.seen(&uid, &old, false), "a job that knows nothing of it");
        assert!(!resizes.seen(&uid, &new, true));
        assert!(resizes.failed(&uid, "busy") && !resizes.failed(&uid, "busy"));
        assert_eq!(resizes.error(&uid).as_deref(), Some("busy"));
        assert!(resizes.seen(&uid, &new, false));
        assert!(!resizes.seen(&uid, &new, false), "once");
        assert_eq!(resizes.error(&uid), None);
        assert!(!resizes.failed(&uid, "late"));
        assert!(!resizes.seen(&uid, &new, true) && resizes.seen(&uid, &old, false));
    }

    // behaviour: CGR-41
    #[test]
    fn a_cgroup_that_has_not_what_it_should_is_a_resize_where_there_is_one() {
        let (resizes, _) = resizes();
        let (old, new) = (asking("1"), asking("2"));
        let uid = view::uid(&new);
        assert!(!resizes.goes_on(&uid) && !resizes.failed(&uid, "busy"));
        assert!(!resizes.seen(&uid, &new, false), "nobody hears of its end");
        resizes.begin(&uid, &new, &old);
        assert!(resizes.goes_on(&uid) && resizes.failed(&uid, "busy"));
        assert!(resizes.seen(&uid, &new, false) && !resizes.goes_on(&uid));
        // One of which an earlier agent did not know whether it was over.
        resizes.resume(&new, Allocation::of(&old), &ReportedResize::default(), true);
        assert!(resizes.goes_on(&uid) && resizes.seen(&uid, &new, false));
    }
}
