use std::net::IpAddr;

use jiff::Timestamp;
use model::observed::RuntimePodStatus as Observed;
use prometheus::{Registry, TextEncoder};
use testkit::clock::VirtualClock;
use testkit::pods::pod;

use model::pod_failure::PodFailure;

use super::*;
use crate::store::StatusEntry;

struct Harness {
    manager: PodStatusManager,
    changes: watch::Receiver<u64>,
    registry: Registry,
}

fn harness() -> Harness {
    let (registry, changes) = (Registry::new(), watch::Sender::new(0));
    let receiver = changes.subscribe();
    let manager = PodStatusManager::new(StatusParts {
        node: NodeFacts::default(),
        host_ips: Arc::<Vec<IpAddr>>::default(),
        clock: Arc::new(VirtualClock::new()),
        metrics: PodMetrics::new(&registry).unwrap(),
        changes,
    });
    Harness { manager, changes: receiver, registry }
}

impl Harness {
    fn entry(&self, pod: &Pod) -> Option<StatusEntry> {
        self.manager.reader().entries().remove(&view::uid(pod))
    }

    fn phase(&self, pod: &Pod) -> Option<String> {
        self.entry(pod)?.status?.phase.clone()
    }

    /// Publishes an observation of a worker that has started nothing.
    fn observe(&self, pod: &Arc<Pod>, overrides: &StatusOverrides) -> Published {
        self.manager.observed(pod, &Observed::empty(view::uid(pod)), overrides)
    }

    /// Whether a change was counted since the last call.
    fn has_changed(&mut self) -> bool {
        let changed = self.changes.has_changed().unwrap();
        self.changes.mark_unchanged();
        changed
    }

    fn count(&self, metric: &str) -> String {
        let text = TextEncoder::new().encode_to_string(&self.registry.gather()).unwrap();
        let line = text.lines().find_map(|line| line.strip_prefix(&format!("{metric}_count ")));
        line.unwrap_or_default().to_owned()
    }
}

fn web() -> Arc<Pod> {
    Arc::new(pod("web").container("main", "image", ["sleep", "forever"]).build())
}

#[tokio::test(start_paused = true)]
async fn observation_is_returned_as_published_with_the_pod_of_its_source() {
    let mut harness = harness();
    let desired = web();
    harness.manager.desired(&desired);
    assert!(harness.has_changed());
    let mut allocated = Pod::clone(&desired);
    allocated.metadata.labels = Some([("of".to_owned(), "the worker".to_owned())].into());
    let published = harness.observe(&Arc::new(allocated), &StatusOverrides::default());
    assert!(harness.has_changed());
    let entry = harness.entry(&desired).unwrap();
    assert_eq!(Some(&published.status), entry.status.as_ref());
    assert_eq!((published.version, published.finished), (entry.version, entry.finished));
    assert_eq!(published.start_time(), Some(harness.manager.parts.clock.now()));
    assert!(!published.has_terminal_phase() && !published.is_restarting_all());
    assert!(Arc::ptr_eq(&entry.pod, &desired));
    let again = harness.observe(&desired, &StatusOverrides::default());
    assert_eq!(again, published);
    assert!(!harness.has_changed(), "an equal status is no change");
}

#[test]
fn final_status_stays_until_the_pod_is_forgotten() {
    let mut harness = harness();
    let pod = web();
    harness.manager.desired(&pod);
    let stopped = StatusOverrides { stopped_for_good: true, ..StatusOverrides::default() };
    let last = harness.observe(&pod, &stopped);
    harness.manager.recheck(&view::uid(&pod));
    assert!(harness.entry(&pod).unwrap().version > last.version);
    harness.manager.terminated(&pod);
    let finished = harness.entry(&pod).unwrap();
    assert!(finished.finished);
    let late = harness.observe(&pod, &StatusOverrides::default());
    assert_eq!(Some(late.status), finished.status);
    assert_eq!(harness.entry(&pod).unwrap().version, finished.version);
    harness.has_changed();
    harness.manager.forgotten(&view::uid(&pod));
    assert!(harness.has_changed() && harness.entry(&pod).is_none());
    harness.manager.forgotten(&view::uid(&pod));
    assert!(!harness.has_changed());
    harness.manager.desired(&pod);
    assert_eq!(harness.phase(&pod), None, "a pod that is added again has no status");
}

#[test]
fn rejected_pod_has_failed_and_terminating_pod_has_a_deletion_timestamp() {
    let harness = harness();
    let pod = web();
    harness.manager.rejected(&pod, "OutOfcpu", "Pod was rejected: no room");
    let status = harness.entry(&pod).unwrap().status.unwrap();
    assert_eq!(status.phase.as_deref(), Some("Failed"));
    assert_eq!(status.reason.as_deref(), Some("OutOfcpu"));
    assert_eq!(status.message.as_deref(), Some("Pod was rejected: no room"));
    harness.manager.terminating(&pod);
    let entry = harness.entry(&pod).unwrap();
    assert!(entry.pod.metadata.deletion_timestamp.is_some());
    assert_eq!(entry.status, Some(status));
}

#[test]
fn retain_drops_all_other_pods() {
    let mut harness = harness();
    let (kept, gone) = (web(), Arc::new(pod("gone").build()));
    harness.manager.desired(&kept);
    harness.manager.rejected(&gone, "OutOfcpu", "no room");
    harness.has_changed();
    harness.manager.retain(|uid| *uid == view::uid(&kept));
    assert!(harness.has_changed());
    assert_eq!(harness.manager.reader().entries().len(), 1);
    assert_eq!(harness.manager.reader().count(), 0);
    harness.manager.retain(|uid| *uid == view::uid(&kept));
    assert!(!harness.has_changed());
    assert!(!harness.manager.reader().sources_complete());
    harness.manager.sources_complete();
    assert!(harness.manager.reader().sources_complete());
}

#[test]
fn start_is_measured_once_per_pod_of_a_source() {
    let harness = harness();
    let pod = web();
    let started = "kubelet_pod_worker_start_duration_seconds";
    harness.observe(&pod, &StatusOverrides::default());
    assert_eq!(harness.count(started), "0", "no source has added it");
    harness.manager.forgotten(&view::uid(&pod));
    harness.manager.desired(&pod);
    let arrived = harness.entry(&pod).unwrap().arrived;
    assert!(arrived.is_some_and(|arrived: Timestamp| arrived <= harness.manager.parts.clock.now()));
    for _ in 0..2 {
        harness.observe(&pod, &StatusOverrides::default());
        assert_eq!(harness.count(started), "1");
    }
    let failure =
        PodFailure { reason: "Evicted", message: "low on memory".to_owned(), disruption: None };
    let failed = StatusOverrides { failure: Some(failure), ..StatusOverrides::default() };
    assert!(harness.observe(&pod, &failed).has_terminal_phase());
    assert_eq!(harness.entry(&pod).unwrap().arrived, None);
}
