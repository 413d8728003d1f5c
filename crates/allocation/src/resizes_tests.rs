//! Tests of the table from the view of workers.

use k8s_openapi::api::core::v1::ResourceRequirements;
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use podspec::{Allocation, ReportedResize, view};
use prometheus::{Registry, TextEncoder};
use testkit::pods::pod;

use super::*;
use crate::decide::pod_allocation::{Actuation, Refusal, ResizeRequest};
use crate::decide::resize::RefusedResize;

fn resizes() -> (Resizes, Registry) {
    let registry = Registry::new();
    (Resizes::new(ResizeMetrics::new(&registry).unwrap()), registry)
}

fn requesting(cpu: &str) -> Pod {
    let quantity = Quantity(cpu.to_owned());
    let requests = Some([("cpu".to_owned(), quantity)].into());
    let resources = ResourceRequirements { requests, ..ResourceRequirements::default() };
    let pod = pod("web").container("main", "image", ["sleep", "forever"]);
    pod.spec(|spec| spec.containers[0].resources = Some(resources)).build()
}

impl Resizes {
    fn taken(&self, uid: &PodUid, cpu: &str) -> Allocation {
        let pod = Arc::new(requesting(cpu));
        let taken = self.entry(uid, |entry| entry.taken(Arc::clone(&pod)));
        Allocation::of(&taken.unwrap_or(pod))
    }

    fn reserve(&self, uid: &PodUid, pod: &Pod) {
        let stage = ResizeStage::AwaitingRoom(Allocation::of(pod));
        let request = ResizeRequest { stage, refusal: None };
        self.change(uid, |entry| entry.request = Some(Box::new(request)));
    }

    fn set_pending(&self, uid: &PodUid, pending: Option<bool>) {
        self.change(uid, |entry| {
            entry.request = pending.map(|infeasible| {
                let (wanted, message) = (Allocation::default(), "no room".to_owned());
                let refused = RefusedResize { wanted, infeasible, message };
                let refusal = Some(Refusal { since: jiff::Timestamp::UNIX_EPOCH, refused });
                Box::new(ResizeRequest { refusal, ..ResizeRequest::default() })
            });
        });
    }

    fn begin(&self, uid: &PodUid, pod: &Pod, before: &Pod) {
        let desired = Arc::new(pod.clone());
        self.change(uid, |entry| {
            entry.admit(Arc::clone(&desired), Arc::clone(&desired));
            entry.actuate(pod, before, &desired);
        });
    }

    fn resume(&self, pod: &Pod, before: Allocation, reported: &ReportedResize, unconfirmed: bool) {
        let error = reported.error.as_deref().map(Into::into);
        let to = Some(Allocation::of(pod));
        let actuation = Actuation { to, before, error, unconfirmed };
        self.change(&view::uid(pod), |entry| entry.actuation = Some(Box::new(actuation)));
    }

    fn forget(&self, uid: &PodUid) {
        self.write(|table| table.remove(uid));
    }
}

// behaviour: RSZ-5
#[test]
fn granted_and_previous_resources_count_as_used() {
    let (resizes, _) = resizes();
    let uid = PodUid::from("uid");
    let taken = |cpu: &str| resizes.taken(&uid, cpu);
    let of = |cpu: &str| Allocation::of(&requesting(cpu));
    assert_eq!(taken("1"), of("1"));
    resizes.reserve(&uid, &requesting("3"));
    assert_eq!((taken("1"), taken("4")), (of("3"), of("4")));
    resizes.begin(&uid, &requesting("3"), &requesting("2"));
    assert_eq!(
        (taken("3"), taken("1")),
        (of("3"), of("2")),
        "it is allocated and no longer reserved"
    );
    resizes.reserve(&uid, &requesting("5"));
    resizes.set_pending(&uid, None);
    assert_eq!(taken("1"), of("2"));
    resizes.forget(&uid);
    assert_eq!(taken("1"), of("1"));
    // An earlier agent started it.
    let reported = ReportedResize { error: Some("busy".to_owned()), ..ReportedResize::default() };
    let uid = view::uid(&requesting("1"));
    let taken = |cpu: &str| resizes.taken(&uid, cpu);
    resizes.resume(&requesting("1"), of("6"), &reported, false);
    assert_eq!((taken("1"), resizes.error(&uid).as_deref()), (of("6"), Some("busy")));
    assert!(resizes.seen(&uid, &requesting("1"), false));
    assert_eq!(taken("1"), of("1"));
    // The completion of a resize that may have been complete before is not reported.
    for (sees_it, reported) in [(false, false), (true, true)] {
        resizes.resume(&requesting("1"), of("6"), &ReportedResize::default(), true);
        assert!(!sees_it || !resizes.seen(&uid, &requesting("1"), true));
        assert_eq!(resizes.seen(&uid, &requesting("1"), false), reported);
        assert_eq!(taken("1"), of("1"));
    }
    assert!(resizes.read(|table| table.pods.is_empty()), "no entry without content");
}

// behaviour: RSZ-24
#[test]
fn resize_metrics_follow_the_table() {
    let (resizes, registry) = resizes();
    let (one, other) = (PodUid::from("one"), PodUid::from("other"));
    let lines = || {
        let text = TextEncoder::new().encode_to_string(&registry.gather()).unwrap();
        let lines = text.lines().filter(|line| !line.starts_with('#'));
        lines.map(ToOwned::to_owned).collect::<Vec<String>>()
    };
    resizes.set_pending(&one, Some(false));
    resizes.begin(&other, &requesting("2"), &requesting("1"));
    resizes.set_pending(&other, Some(true));
    let expected = [
        "kubelet_pod_in_progress_resizes 1",
        "kubelet_pod_pending_resizes{reason=\"deferred\"} 1",
        "kubelet_pod_pending_resizes{reason=\"infeasible\"} 1",
    ];
    assert_eq!(lines(), expected);
    let pending = PendingResize { infeasible: true, message: "no room".to_owned() };
    assert_eq!(resizes.pending(&other).as_deref(), Some(&pending));
    resizes.set_pending(&one, None);
    resizes.forget(&other);
    assert_eq!(lines(), ["kubelet_pod_in_progress_resizes 0"]);
    resizes.metrics.requested(("cpu", "limits", "increase"));
    resizes.metrics.infeasible("removal");
    resizes.metrics.deferred_accepted(crate::resize_metrics::Trigger::PodsRemoved);
    let expected = [
        "kubelet_container_requested_resizes_total{operation=\"increase\",requirement=\"limits\",resource=\"cpu\"} 1",
        "kubelet_pod_deferred_accepted_resizes_total{retry_trigger=\"pods_removed\"} 1",
        "kubelet_pod_in_progress_resizes 0",
        "kubelet_pod_infeasible_resizes_total{reason_detail=\"removal\"} 1",
    ];
    assert_eq!(lines(), expected);
}

#[test]
fn resize_completes_when_the_observed_pod_has_its_allocation() {
    let (resizes, _) = resizes();
    let uid = PodUid::from("uid");
    let (old, new) = (requesting("1"), requesting("2"));
    assert!(!resizes.seen(&uid, &old, false), "there is no resize");
    resizes.begin(&uid, &new, &old);
    assert_eq!(resizes.taken(&uid, "500m"), Allocation::of(&old));
    assert!(!resizes.seen(&uid, &old, false), "a job of an older version");
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
fn lagging_cgroup_counts_as_resize_in_progress_only_during_a_resize() {
    let (resizes, _) = resizes();
    let (old, new) = (requesting("1"), requesting("2"));
    let uid = view::uid(&new);
    assert!(!resizes.is_resizing_cgroup(&uid) && !resizes.failed(&uid, "busy"));
    assert!(!resizes.seen(&uid, &new, false), "its completion is not reported");
    resizes.begin(&uid, &new, &old);
    assert!(resizes.is_resizing_cgroup(&uid) && resizes.failed(&uid, "busy"));
    assert!(resizes.seen(&uid, &new, false) && !resizes.is_resizing_cgroup(&uid));
    // A resize that may have been complete under an earlier agent.
    resizes.resume(&new, Allocation::of(&old), &ReportedResize::default(), true);
    assert!(resizes.is_resizing_cgroup(&uid) && resizes.seen(&uid, &new, false));
}
