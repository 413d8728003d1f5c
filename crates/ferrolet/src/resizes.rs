//! What the sync loop and the pods' workers tell one another of pods whose resources change.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use k8s_openapi::api::core::v1::Pod;
use model::ids::PodUid;
use podspec::Allocation;
use status::decide::PendingResize;
use tokio::sync::Notify;

/// Resizes that wait, written by the sync loop; and those under way, begun there and ended by workers.
#[derive(Debug, Default)]
pub(crate) struct Resizes {
    /// Never held across an await.
    state: Mutex<State>,
    /// Wakes the sync loop.
    done: Notify,
}

#[derive(Debug, Default)]
struct State {
    pending: BTreeMap<PodUid, Arc<PendingResize>>,
    under_way: BTreeMap<PodUid, UnderWay>,
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
}

impl Resizes {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Why a pod is not given what it asks for.
    pub(crate) fn pending(&self, uid: &PodUid) -> Option<Arc<PendingResize>> {
        self.state().pending.get(uid).cloned()
    }

    /// A pod is not given what it asks for, or is again.
    pub(crate) fn set_pending(&self, uid: &PodUid, pending: Option<PendingResize>) {
        let all = &mut self.state().pending;
        match pending {
            Some(pending) => all.insert(uid.clone(), Arc::new(pending)),
            None => all.remove(uid),
        };
    }

    /// A pod was given other resources than it had.
    pub(crate) fn begin(&self, uid: &PodUid, pod: &Pod, before: &Pod) {
        let mut state = self.state();
        let mut before = Allocation::of(before);
        if let Some(earlier) = state.under_way.remove(uid) {
            before = before.max(&earlier.before);
        }
        let under_way = UnderWay { to: Some(Allocation::of(pod)), before, error: None };
        state.under_way.insert(uid.clone(), under_way);
    }

    /// What a pod takes of the node: as long as it may still have more than it was given, that.
    pub(crate) fn taken(&self, uid: &PodUid, pod: Arc<Pod>) -> Arc<Pod> {
        match self.state().under_way.get(uid) {
            Some(under_way) => under_way.before.max(&Allocation::of(&pod)).applied(&pod),
            None => pod,
        }
    }

    /// A worker sees whether the pod, as it was told of it, has what it was given. Whether that is news
    /// and means that a resize is over.
    pub(crate) fn seen(&self, uid: &PodUid, pod: &Pod, resizes: bool) -> bool {
        let mut state = self.state();
        if resizes {
            // An earlier agent began it.
            let unknown = || UnderWay { to: None, before: Allocation::default(), error: None };
            state.under_way.entry(uid.clone()).or_insert_with(unknown);
            return false;
        }
        // A job may still be about the pod as it was before.
        let is_meant = |one: &UnderWay| one.to.as_ref().is_none_or(|to| to.is_of(pod));
        let is_over = state.under_way.get(uid).is_some_and(is_meant);
        if is_over {
            state.under_way.remove(uid);
            self.done.notify_one();
        }
        is_over
    }

    /// Something is in the way of a resize. Whether that is news.
    pub(crate) fn failed(&self, uid: &PodUid, error: &str) -> bool {
        let mut state = self.state();
        let Some(under_way) = state.under_way.get_mut(uid) else { return false };
        let is_news = under_way.error.as_deref() != Some(error);
        under_way.error = Some(error.into());
        is_news
    }

    /// What is in the way of a pod's resize.
    pub(crate) fn error(&self, uid: &PodUid) -> Option<Arc<str>> {
        self.state().under_way.get(uid)?.error.clone()
    }

    /// Waits until a resize is over.
    pub(crate) async fn done(&self) {
        self.done.notified().await;
    }

    /// A pod went.
    pub(crate) fn forget(&self, uid: &PodUid) {
        let mut state = self.state();
        state.pending.remove(uid);
        state.under_way.remove(uid);
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::ResourceRequirements;
    use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
    use testkit::pods::pod;

    use super::*;

    #[test]
    fn a_resize_is_over_when_the_pod_that_is_meant_has_what_it_was_given() {
        let resizes = Resizes::default();
        let uid = PodUid::from("uid");
        let asking = |cpu: &str| {
            let quantity = Quantity(cpu.to_owned());
            let requests = Some([("cpu".to_owned(), quantity)].into());
            let resources = ResourceRequirements { requests, ..ResourceRequirements::default() };
            let pod = pod("web").container("main", "image", ["sleep", "forever"]);
            pod.spec(|spec| spec.containers[0].resources = Some(resources)).build()
        };
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
}
