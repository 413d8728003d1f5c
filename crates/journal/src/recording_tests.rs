use std::path::Path;
use std::sync::Arc;

use futures_util::FutureExt as _;
use model::cgroup::CgroupName;
use model::cluster::{FailedStatus, PodTarget};
use model::ids::{PodName, PodUid};
use model::intercept::Intercepted;
use model::ports::cgroups::Cgroups;
use model::ports::cluster::PodWrites;
use model::ports::files::{FileError, HostFiles, Removed};
use model::ports::runtime::{Code, ImageService, Runtime};
use model::verdict::{Detail, Input, Owner, Subject};
use prometheus::Registry;
use testkit::cgroups::MemoryCgroups;
use testkit::clock::VirtualClock;
use testkit::cluster::{ApiCall, CallFault, MemoryCluster, pod};
use testkit::files::MemoryFiles;
use testkit::runtime::{Fault, MemoryRuntime, Method, RemoteImage, Rule};
use testkit::segments::MemorySegments;
use testkit::wanted::{self, removal};
use tokio::task::JoinSet;

use super::*;
use crate::disk::SMALLEST;
use crate::entry::EntryOutcome;
use crate::in_progress::InProgress;
use crate::journal_thread::DiskJournal;
use crate::query::Query;

struct Harness {
    runtime: Arc<MemoryRuntime>,
    recorded: Runtime,
    recording: Arc<Recording>,
    files: Arc<MemoryFiles>,
    recorded_files: Intercepted<dyn HostFiles, Recording>,
    journal: Arc<DiskJournal>,
    segments: Arc<MemorySegments>,
    registry: Registry,
}

impl Harness {
    fn new() -> Self {
        let clock = Arc::new(VirtualClock::new());
        let runtime = Arc::new(MemoryRuntime::new(Arc::clone(&clock) as _));
        runtime.add_image(&RemoteImage::new("image"));
        let files = Arc::new(MemoryFiles::new());
        let segments = Arc::new(MemorySegments::default());
        let journal =
            Arc::new(DiskJournal::new(Arc::clone(&segments) as _, clock, "0.1.0", SMALLEST));
        let registry = Registry::new();
        let ledger = Arc::new(Ledger::new(Arc::clone(&journal) as _, &registry).unwrap());
        let recording = Arc::new(Recording::new(ledger, ImageClaims::default()));
        let recorded = Runtime::new(Arc::clone(&runtime)).intercepted(&recording);
        let recorded_files = Intercepted::new(Arc::clone(&files) as _, &recording);
        Self { runtime, recorded, recording, files, recorded_files, journal, segments, registry }
    }

    /// The outcomes of the removals of an object, the newest first.
    fn outcomes(&self, what: &str) -> Vec<EntryOutcome> {
        let found = self.journal.find(&Query::new(what), 100).unwrap();
        found.entries.iter().map(|entry| entry.outcome).collect()
    }

    fn count(&self, kind: &str, outcome: &str) -> u64 {
        let families = self.registry.gather();
        let metrics = families.iter().flat_map(prometheus::proto::MetricFamily::get_metric);
        let has = |metric: &&prometheus::proto::Metric, name: &str, value: &str| {
            metric.get_label().iter().any(|label| label.name() == name && label.value() == value)
        };
        let mut counts = metrics
            .filter(|metric| has(metric, "kind", kind) && has(metric, "outcome", outcome))
            .map(|metric| metric.get_counter().get_value());
        counts.next().map_or(0, |count| format!("{count:.0}").parse().unwrap())
    }
}

#[tokio::test(start_paused = true)]
async fn image_that_was_claimed_before_its_removal_stays() {
    let harness = Harness::new();
    let verdict = removal(Subject::Image("image".to_owned()));
    let claim = harness.recording.claims.claim("image");
    let error = harness.recorded.images.remove_image(&verdict).await.unwrap_err();
    assert_eq!(error.code, Code::FailedPrecondition);
    assert!(harness.runtime.image_status("image").await.unwrap().is_some());
    assert_eq!(harness.outcomes("image"), []);
    drop(claim);
    harness.recorded.images.remove_image(&verdict).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn every_runtime_removal_is_recorded_with_its_outcome() {
    let harness = Harness::new();
    let pod = wanted::sandbox(&PodName::new("default", "web"), &PodUid::from("u1"));
    let sandbox = harness.recorded.sandboxes.run_pod_sandbox(&pod).await.unwrap();
    harness.recorded.sandboxes.stop_pod_sandbox(&sandbox).await.unwrap();
    let verdict = removal(Subject::Sandbox(sandbox.clone()));
    let fault = Fault::error(Code::Internal);
    harness.runtime.inject(Rule::on(Method::RemovePodSandbox, fault).once());
    harness.recorded.sandboxes.remove_pod_sandbox(&verdict).await.unwrap_err();
    harness.recorded.sandboxes.remove_pod_sandbox(&verdict).await.unwrap();
    let fault = Fault::error(Code::NotFound);
    harness.runtime.inject(Rule::on(Method::RemovePodSandbox, fault).once());
    harness.recorded.sandboxes.remove_pod_sandbox(&verdict).await.unwrap_err();
    assert_eq!(
        harness.outcomes(sandbox.as_str()),
        [EntryOutcome::Gone, EntryOutcome::Removed, EntryOutcome::Failed],
        "the newest first"
    );
    for outcome in ["gone", "removed", "failed"] {
        assert_eq!(harness.count("sandbox", outcome), 1, "{outcome}");
    }
    harness
        .recorded
        .images
        .remove_image(&removal(Subject::Image("image".to_owned())))
        .await
        .unwrap();
    assert_eq!(harness.outcomes("image"), [EntryOutcome::Removed]);
    let unknown = removal(Subject::Container("c1".into()));
    drop(harness.recorded.containers.remove_container(&unknown).await);
    assert_eq!(harness.outcomes("c1").len(), 1);
}

#[tokio::test(start_paused = true)]
async fn cancelled_removal_is_recorded() {
    let harness = Harness::new();
    let verdict = removal(Subject::Container("c1".into()));
    harness.runtime.inject(Rule::on(Method::RemoveContainer, Fault::hang()));
    assert!(harness.recorded.containers.remove_container(&verdict).now_or_never().is_none());
    assert_eq!(harness.outcomes("c1"), [EntryOutcome::Failed]);
}

#[tokio::test(start_paused = true)]
async fn every_file_removal_is_recorded_and_sent_to_watchers() {
    let harness = Harness::new();
    harness.files.write("/logs/ns_web_u1/main/0.log", "text");
    let verdict = removal(Subject::PodLogs("/logs/ns_web_u1".into()));
    let mut watch = harness.recording.ledger.watch();
    let removed = harness.recorded_files.remove(Path::new("/logs"), &verdict).await.unwrap();
    assert_eq!(removed, Removed::Now);
    let removed = harness.recorded_files.remove(Path::new("/logs"), &verdict).await.unwrap();
    assert_eq!(removed, Removed::Before);
    harness.recorded_files.remove(Path::new("/elsewhere"), &verdict).await.unwrap_err();
    let expected = [EntryOutcome::Failed, EntryOutcome::Gone, EntryOutcome::Removed];
    assert_eq!(harness.outcomes("/logs/ns_web_u1"), expected);
    for outcome in expected.iter().rev() {
        assert_eq!(watch.recv().await.unwrap().outcome, *outcome);
    }
}

#[tokio::test]
async fn cgroup_removal_is_recorded_if_the_cgroup_existed() {
    let harness = Harness::new();
    let ledger =
        Arc::new(Ledger::new(Arc::clone(&harness.journal) as _, &Registry::new()).unwrap());
    let inner = Arc::new(MemoryCgroups::default());
    let recording = Arc::new(Recording::new(ledger, ImageClaims::default()));
    let cgroups = Intercepted::new(Arc::clone(&inner) as Arc<dyn Cgroups>, &recording);
    let name = CgroupName::parse("/kubepods/pod1").unwrap();
    let verdict = removal(Subject::Cgroup(name.clone()));
    assert_eq!(cgroups.remove(&verdict).await.unwrap(), Removed::Before);
    assert_eq!(harness.outcomes("/kubepods/pod1"), []);
    inner.enter(&name);
    inner.set_broken(&name, true);
    cgroups.remove(&verdict).await.unwrap_err();
    inner.set_broken(&name, false);
    assert_eq!(cgroups.remove(&verdict).await.unwrap(), Removed::Now);
    assert_eq!(harness.outcomes("/kubepods/pod1"), [EntryOutcome::Removed, EntryOutcome::Failed]);
}

/// The pods of a cluster, with their removals recorded.
fn recorded_pods(
    harness: &Harness,
    cluster: &MemoryCluster,
) -> Intercepted<dyn PodWrites, Recording> {
    Intercepted::new(Arc::new(cluster.clone()), &harness.recording)
}

/// A pod of a cluster.
fn target(cluster: &MemoryCluster, name: &str) -> PodTarget {
    let pod = cluster.pod(name).unwrap();
    PodTarget {
        namespace: pod.namespace.into(),
        name: pod.name.into(),
        uid: pod.uid,
        version: pod.version,
    }
}

#[tokio::test(start_paused = true)]
async fn every_pod_deletion_is_recorded_unless_throttled() {
    let harness = Harness::new();
    let cluster = MemoryCluster::default();
    let pods = recorded_pods(&harness, &cluster);
    cluster.create_pod(pod("a"));
    let version = pods.fail_pod(&target(&cluster, "a"), &FailedStatus::default()).await.unwrap();
    let seen = PodTarget { version, ..target(&cluster, "a") };
    let verdict = removal(Subject::Pod("u1".into()));
    cluster.inject_fault(ApiCall::RemovePod, CallFault::Throttled(None), 1);
    pods.remove_pod(&seen, &verdict).await.unwrap_err();
    assert_eq!(harness.outcomes("u1"), [], "it is retried");
    cluster.inject_fault(ApiCall::RemovePod, CallFault::Refused(500), 1);
    pods.remove_pod(&seen, &verdict).await.unwrap_err();
    pods.remove_pod(&seen, &verdict).await.unwrap();
    pods.remove_pod(&seen, &verdict).await.unwrap_err();
    let expected = [EntryOutcome::Gone, EntryOutcome::Removed, EntryOutcome::Failed];
    assert_eq!(harness.outcomes("u1"), expected, "the newest first");
    for outcome in ["gone", "removed", "failed"] {
        assert_eq!(harness.count("pod", outcome), 1, "{outcome}");
    }
}

// behaviour: PGC-57
#[tokio::test(start_paused = true)]
async fn pod_held_by_finalizers_is_not_recorded_as_removed() {
    let harness = Harness::new();
    let cluster = MemoryCluster::default();
    let pods = recorded_pods(&harness, &cluster);
    cluster.create_pod(pod("a"));
    cluster.hold_pod("a", true);
    let verdict = removal(Subject::Pod("u1".into()));
    pods.remove_pod(&target(&cluster, "a"), &verdict).await.unwrap();
    assert_eq!(harness.outcomes("u1"), [EntryOutcome::Held]);
    assert_eq!((harness.count("pod", "held"), harness.count("pod", "removed")), (1, 0));
}

#[tokio::test(start_paused = true)]
async fn cancelled_pod_deletion_is_recorded() {
    let harness = Harness::new();
    let cluster = MemoryCluster::default();
    let pods = recorded_pods(&harness, &cluster);
    cluster.create_pod(pod("a"));
    let verdict = removal(Subject::Pod("u1".into()));
    cluster.inject_fault(ApiCall::RemovePod, CallFault::Late(Duration::from_mins(1)), 1);
    assert!(pods.remove_pod(&target(&cluster, "a"), &verdict).now_or_never().is_none());
    assert_eq!(harness.outcomes("u1"), [EntryOutcome::Failed]);
}

impl Harness {
    /// Removes a rotated file of a log, a minute after the last one.
    async fn remove_rotated(&self, minute: u32) -> Result<Removed, FileError> {
        let path = format!("/logs/ns_pod_uid/main/0.log.20260101-00{minute:02}00");
        self.files.write(&path, "text");
        let verdict = Verdict {
            owner: Owner::of(&"uid".into(), &PodName::new("ns", "pod")),
            detail: Detail::default().with("bytes", Input::Number(4)),
            ..removal(Subject::RotatedLog(path.into()))
        };
        tokio::time::sleep(Duration::from_mins(1)).await;
        self.recorded_files.remove(Path::new("/logs"), &verdict).await
    }

    /// How many removals are in progress.
    fn in_progress(&self) -> usize {
        InProgress::new(&*self.segments).all().unwrap().len()
    }

    /// The entries about rotated files, the newest first: how many files each is about, and how large they were.
    fn rotated(&self) -> Vec<(Option<i64>, Option<i64>)> {
        let found = self.journal.find(&Query::new("pod"), 100).unwrap();
        let number = |entry: &crate::Entry, name: &str| entry.detail.get(name)?.as_i64();
        let entries = found.entries.iter();
        entries.map(|entry| (number(entry, "files"), number(entry, "bytes"))).collect()
    }
}

// behaviour: ROT-18
#[tokio::test(start_paused = true)]
async fn rotated_files_of_a_log_share_an_entry_an_hour_after_the_first() {
    let harness = Harness::new();
    let stop = CancellationToken::new();
    let keeper = JoinSet::from_iter([Arc::clone(&harness.recording).keep(stop.clone())]);
    for minute in 0..30 {
        assert_eq!(harness.remove_rotated(minute).await.unwrap(), Removed::Now);
    }
    assert_eq!(harness.rotated(), [(None, Some(4))]);
    assert_eq!(harness.count("log", "removed"), 30);
    // The next ones are noted on disk: an agent that is killed now does not lose them.
    assert_eq!(harness.in_progress(), 1);
    tokio::time::sleep(Duration::from_hours(1)).await;
    assert_eq!(harness.rotated(), [(Some(29), Some(29 * 4)), (None, Some(4))]);
    assert_eq!(harness.in_progress(), 0);
    for minute in 0..3 {
        harness.remove_rotated(minute).await.unwrap();
    }
    stop.cancel();
    keeper.join_all().await;
    let expected = [(Some(2), Some(8)), (None, Some(4)), (Some(29), Some(29 * 4)), (None, Some(4))];
    assert_eq!(harness.rotated(), expected);
}

// behaviour: ROT-18
#[tokio::test(start_paused = true)]
async fn rotated_file_that_cannot_be_removed_has_an_entry() {
    let harness = Harness::new();
    harness.remove_rotated(0).await.unwrap();
    harness.files.fail("/logs/ns_pod_uid/main/0.log.20260101-000100", std::io::ErrorKind::Other);
    assert!(harness.remove_rotated(1).await.is_err());
    assert_eq!(harness.count("log", "failed"), 1);
    assert_eq!(harness.rotated().len(), 2);
}
