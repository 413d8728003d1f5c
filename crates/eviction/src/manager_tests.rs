//! Rounds with usage that the tests set, on paused time.

use async_trait::async_trait;
use k8s_openapi::api::core::v1::Pod;
use model::pod_failure::PodFailure;
use model::ports::events::EventType;
use model::stats::{FsStats, MemoryStats, PodStats, RuntimeFsStats, Summary};
use podspec::view;
use prometheus::Registry;
use testkit::clock::VirtualClock;
use testkit::events::{KeptEvents, KeptNodeEvents};
use testkit::incidents::KeptIncidents;
use testkit::pods::{PodBuilder, pod};
use testkit::usage_source::SetUsage;
use tokio::task::JoinHandle;
use tokio::time::sleep;

use super::*;
use crate::decide::layout::Devices;
use crate::decide::test_pods::{container, memory, no_stats};
use crate::decide::threshold::{Level, Threshold};
use crate::metrics::EvictionMetrics;
use crate::parts::{EvictError, EvictionPods, FileSystems, NodeReclaimer};

#[path = "manager_limit_tests.rs"]
mod limits;

const MIB: u64 = 1 << 20;

fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

/// An eviction: when, of which pod, with which grace period and failure.
type Evicted = (u64, String, u64, PodFailure);

/// Pods that end when they are evicted.
#[derive(Debug)]
struct Pods {
    begun: Instant,
    running: Mutex<Vec<Arc<Pod>>>,
    evicted: Mutex<Vec<Evicted>>,
    /// Whether pods stay after their eviction.
    stay: bool,
    /// Whether evicted pods are cleaned up.
    cleaned: bool,
}

#[async_trait]
impl EvictionPods for Pods {
    fn candidates(&self) -> Vec<Arc<Pod>> {
        self.running.lock().unwrap().clone()
    }

    async fn evict(
        &self,
        pod: &Arc<Pod>,
        grace: Duration,
        failure: PodFailure,
    ) -> Result<(), EvictError> {
        let name = view::pod_name(pod).name.to_string();
        let at = self.begun.elapsed().as_secs();
        self.evicted.lock().unwrap().push((at, name, grace.as_secs(), failure));
        sleep(seconds(2)).await;
        if self.stay {
            return Err(EvictError("it takes too long".to_owned()));
        }
        self.running.lock().unwrap().retain(|one| one.metadata.uid != pod.metadata.uid);
        Ok(())
    }

    fn is_cleaned_up(&self, _: &PodUid) -> bool {
        self.cleaned
    }
}

/// Releases space some time after it was asked to.
#[derive(Debug)]
struct Reclaimer {
    usage: Arc<SetUsage>,
    /// How many objects each removal removes.
    removes: u64,
    /// What is available some time after the removal of images.
    frees: Option<(Duration, u64)>,
    pods: Arc<Pods>,
    /// The pod that terminates during the removal of images.
    terminates: Option<&'static str>,
    calls: Mutex<Vec<&'static str>>,
}

#[async_trait]
impl NodeReclaimer for Reclaimer {
    async fn delete_unused_containers(&self) -> u64 {
        self.calls.lock().unwrap().push("containers");
        self.removes
    }

    async fn delete_unused_images(&self) -> u64 {
        self.calls.lock().unwrap().push("images");
        if let Some(name) = self.terminates {
            let mut running = self.pods.running.lock().unwrap();
            running.retain(|pod| &*view::pod_name(pod).name != name);
        }
        if let Some((after, available)) = self.frees {
            let usage = Arc::clone(&self.usage);
            // In the background, as a runtime does.
            drop(release_later(usage, after, available));
        }
        self.removes
    }
}

#[expect(clippy::disallowed_methods, reason = "a part of the test that outlives the call")]
fn release_later(usage: Arc<SetUsage>, after: Duration, available: u64) -> JoinHandle<()> {
    tokio::spawn(async move {
        sleep(after).await;
        usage.set(|summary| set_disk(summary, available));
    })
}

#[derive(Debug)]
struct Disks(Mutex<Result<Devices, String>>);

#[async_trait]
impl FileSystems for Disks {
    async fn devices(&self) -> Result<Devices, String> {
        self.0.lock().unwrap().clone()
    }
}

/// Sets what is available on the only disk, of 1,000 MiB.
fn set_disk(summary: &mut Summary, mebibytes: u64) {
    let fs = FsStats {
        available_bytes: Some(mebibytes * MIB),
        capacity_bytes: Some(1000 * MIB),
        ..FsStats::default()
    };
    summary.node.fs = Some(fs);
    summary.node.runtime = Some(RuntimeFsStats { image_fs: Some(fs), container_fs: Some(fs) });
}

/// Sets what is available of 1,000 MiB of memory.
pub(crate) fn set_memory(summary: &mut Summary, mebibytes: u64) {
    summary.node.memory = Some(MemoryStats {
        available_bytes: Some(mebibytes * MIB),
        working_set_bytes: Some((1000 - mebibytes) * MIB),
        usage_bytes: Some((1000 - mebibytes) * MIB),
        ..MemoryStats::default()
    });
}

/// A running eviction manager and its surroundings.
pub(crate) struct Bench {
    usage: Arc<SetUsage>,
    pods: Arc<Pods>,
    reclaimer: Arc<Reclaimer>,
    disks: Arc<Disks>,
    events: Arc<KeptEvents>,
    node_events: Arc<KeptNodeEvents>,
    incidents: Arc<KeptIncidents>,
    registry: Registry,
    handle: EvictionHandle,
    stop: CancellationToken,
}

impl Drop for Bench {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}

/// What differs between tests.
#[derive(Default)]
pub(crate) struct Setup {
    pub(crate) thresholds: Vec<Threshold>,
    pub(crate) pods: Vec<Pod>,
    pub(crate) removes: u64,
    pub(crate) frees: Option<(Duration, u64)>,
    pub(crate) terminates: Option<&'static str>,
    pub(crate) stay: bool,
    pub(crate) never_cleaned: bool,
    pub(crate) no_devices: bool,
}

impl Setup {
    #[expect(clippy::disallowed_methods, reason = "the task under test")]
    pub(crate) fn start(self) -> Bench {
        let usage = Arc::new(SetUsage::default());
        usage.set(|summary| {
            set_disk(summary, 500);
            set_memory(summary, 500);
        });
        let pods = Arc::new(Pods {
            begun: Instant::now(),
            running: Mutex::new(self.pods.into_iter().map(Arc::new).collect()),
            evicted: Mutex::default(),
            stay: self.stay,
            cleaned: !self.never_cleaned,
        });
        let reclaimer = Arc::new(Reclaimer {
            usage: Arc::clone(&usage),
            removes: self.removes,
            frees: self.frees,
            pods: Arc::clone(&pods),
            terminates: self.terminates,
            calls: Mutex::default(),
        });
        let devices = Ok(Devices { root: 1, images: 1, containers: 1 });
        let devices = if self.no_devices { Err("unknown".to_owned()) } else { devices };
        let disks = Arc::new(Disks(Mutex::new(devices)));
        let (events, node_events) =
            (Arc::<KeptEvents>::default(), Arc::<KeptNodeEvents>::default());
        let (incidents, registry) = (Arc::<KeptIncidents>::default(), Registry::new());
        let parts = EvictionParts {
            usage: Arc::clone(&usage) as _,
            pods: Arc::clone(&pods) as _,
            reclaimer: Arc::clone(&reclaimer) as _,
            file_systems: Arc::clone(&disks) as _,
            events: Arc::clone(&events) as _,
            node_events: Arc::clone(&node_events) as _,
            incidents: Arc::clone(&incidents) as _,
            clock: Arc::new(VirtualClock::new()),
            metrics: EvictionMetrics::new(&registry).unwrap(),
        };
        let settings = EvictionSettings {
            thresholds: self.thresholds,
            transition: Duration::from_mins(5),
            most_grace: seconds(20),
            local_limits: true,
            memcg_notification: false,
        };
        let (task, handle) = eviction(parts, settings);
        let stop = CancellationToken::new();
        tokio::spawn(task.run(stop.clone()));
        Bench {
            usage,
            pods,
            reclaimer,
            disks,
            events,
            node_events,
            incidents,
            registry,
            handle,
            stop,
        }
    }
}

impl Bench {
    pub(crate) fn handle(&self) -> EvictionHandle {
        self.handle.clone()
    }

    pub(crate) fn stop(&self) -> CancellationToken {
        self.stop.clone()
    }

    pub(crate) fn set(&self, change: impl FnOnce(&mut Summary)) {
        self.usage.set(change);
    }

    /// How often the node was measured.
    pub(crate) fn rounds(&self) -> usize {
        self.usage.nodes()
    }

    /// The names of evicted pods, each with the second.
    fn evicted(&self) -> Vec<(u64, String)> {
        let evicted = self.pods.evicted.lock().unwrap();
        evicted.iter().map(|(at, name, ..)| (*at, name.clone())).collect()
    }

    fn calls(&self) -> Vec<&'static str> {
        self.reclaimer.calls.lock().unwrap().clone()
    }

    /// Sets the memory of pods, in MiB.
    fn set_pods(&self, used: &[(&str, u64)]) {
        let stats = used.iter().map(|(name, mebibytes)| {
            let pod = pod(name).build();
            PodStats {
                memory: memory(mebibytes * MIB),
                containers: vec![container("main", mebibytes * MIB, 0)],
                ..no_stats(&pod)
            }
        });
        let stats = stats.collect();
        self.usage.set(|summary| summary.pods = stats);
    }

    /// The value of a metric: the count of evictions, or of observed ages.
    fn metric(&self, name: &str, signal: &str) -> u64 {
        let families = self.registry.gather();
        let family = families.iter().find(|family| family.name() == name);
        let metrics = family.into_iter().flat_map(prometheus::proto::MetricFamily::get_metric);
        let of_signal = |metric: &&prometheus::proto::Metric| {
            metric.get_label().iter().any(|label| label.value() == signal)
        };
        metrics.filter(of_signal).fold(0, |sum, metric| {
            #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a count")]
            let counted = metric.get_counter().get_value() as u64;
            sum + counted + metric.get_histogram().get_sample_count()
        })
    }
}

pub(crate) fn threshold(signal: Signal, mebibytes: u64, grace: u64) -> Threshold {
    let level = Level::Amount(format!("{mebibytes}Mi").parse().unwrap());
    Threshold { signal, level, grace: seconds(grace), minimum_reclaim: None }
}

fn disk() -> Vec<Threshold> {
    vec![threshold(Signal::NodeFsAvailable, 100, 0)]
}

fn plain(name: &str) -> PodBuilder {
    pod(name).container("main", "image", [])
}

fn three() -> Vec<Pod> {
    let critical = plain("critical").spec(|spec| spec.priority = Some(2_000_000_000));
    vec![critical.build(), plain("large").build(), plain("small").build()]
}

const USED: [(&str, u64); 3] = [("critical", 300), ("large", 200), ("small", 100)];

// behaviour: EVI-33, EVI-37, EVI-41, EVI-50, EVI-51, EVI-61
#[tokio::test(start_paused = true)]
async fn one_pod_is_evicted_in_a_round_for_a_full_disk() {
    let bench = Setup { thresholds: disk(), pods: three(), ..Setup::default() }.start();
    bench.set_pods(&USED);
    sleep(seconds(15)).await;
    assert!(bench.evicted().is_empty() && bench.calls().is_empty());
    bench.usage.set(|summary| set_disk(summary, 99));
    sleep(Duration::from_millis(7500)).await;
    assert_eq!(bench.evicted(), [(20, "large".to_owned())]);
    assert_eq!(bench.calls(), ["containers", "images"]);
    let (_, _, grace, failure) = bench.pods.evicted.lock().unwrap()[0].clone();
    let message = "The node was low on resource: ephemeral-storage. \
                   Threshold quantity: 100Mi, available: 99Mi. \
                   Container main was using 200Mi, request is 0, has larger consumption of \
                   ephemeral-storage. ";
    let expected = PodFailure {
        reason: "Evicted",
        message: message.to_owned(),
        disruption: Some(message.into()),
    };
    assert_eq!((grace, failure), (1, expected));
    let node_event = bench.node_events.all().remove(0);
    assert_eq!(
        (node_event.kind, node_event.reason, node_event.message.as_str()),
        (EventType::Warning, "EvictionThresholdMet", "Attempting to reclaim ephemeral-storage")
    );
    let event = bench.events.all().remove(0);
    assert_eq!((&*event.reason, event.message.as_str()), ("Evicted", message));
    let annotations = [
        ("offending_containers", "main".to_owned()),
        ("offending_containers_usage", "200Mi".to_owned()),
        ("starved_resource", "ephemeral-storage".to_owned()),
    ];
    assert_eq!(event.annotations, annotations);
    assert_eq!(bench.metric("kubelet_evictions", "nodefs.available"), 1);
    assert_eq!(bench.metric("kubelet_eviction_stats_age_seconds", "nodefs.available"), 1);
    assert_eq!(bench.incidents.all()[0].rule, "nodefs.available");
    // It took 2 s to end, and 1 s to be cleaned up: the next round follows at once.
    sleep(seconds(30)).await;
    assert_eq!(bench.evicted(), [(20, "large".to_owned()), (23, "small".to_owned())]);
}

// behaviour: EVI-28
#[tokio::test(start_paused = true)]
async fn pods_are_not_measured_while_nothing_is_short() {
    let bench = Setup { thresholds: disk(), pods: three(), ..Setup::default() }.start();
    sleep(seconds(65)).await;
    assert_eq!((bench.usage.nodes(), bench.usage.summaries()), (7, 0));
}

// behaviour: EVI-28
#[tokio::test(start_paused = true)]
async fn nothing_is_measured_without_thresholds_and_limits() {
    let bench = Setup { pods: three(), ..Setup::default() }.start();
    sleep(seconds(65)).await;
    assert_eq!((bench.usage.nodes(), bench.usage.summaries()), (0, 0));
}

// behaviour: EVI-15, EVI-34
#[tokio::test(start_paused = true)]
async fn condition_is_published_when_a_threshold_is_met_and_kept_for_the_transition_period() {
    let thresholds = vec![threshold(Signal::MemoryAvailable, 100, 60)];
    let bench = Setup { thresholds, ..Setup::default() }.start();
    let mut pressure = bench.handle.pressure();
    bench.usage.set(|summary| set_memory(summary, 50));
    pressure.changed().await.unwrap();
    assert_eq!(pressure.borrow_and_update().conditions(), ["MemoryPressure"]);
    bench.usage.set(|summary| set_memory(summary, 500));
    let before = Instant::now();
    pressure.changed().await.unwrap();
    assert_eq!(pressure.borrow().conditions(), Vec::<&str>::new());
    assert_eq!(before.elapsed(), Duration::from_mins(5));
}

// behaviour: EVI-13, EVI-39
#[tokio::test(start_paused = true)]
async fn soft_eviction_leaves_the_pod_its_grace_period_up_to_the_limit() {
    for (own, expected) in [(Some(5), 5), (Some(60), 20), (None, 20)] {
        let pod = plain("web").spec(|spec| spec.termination_grace_period_seconds = own).build();
        let thresholds = vec![threshold(Signal::MemoryAvailable, 100, 30)];
        let bench = Setup { thresholds, pods: vec![pod], ..Setup::default() }.start();
        bench.usage.set(|summary| set_memory(summary, 50));
        sleep(seconds(29)).await;
        assert!(bench.evicted().is_empty());
        sleep(seconds(6)).await;
        let evicted = bench.pods.evicted.lock().unwrap().clone();
        assert_eq!((evicted.len(), evicted[0].2), (1, expected), "{own:?}");
    }
}

// behaviour: EVI-35, EVI-36
#[tokio::test(start_paused = true)]
async fn no_pod_is_evicted_when_removals_free_enough_space() {
    let frees = Some((seconds(2), 200));
    let setup = Setup { thresholds: disk(), pods: three(), removes: 3, frees, ..Setup::default() };
    let bench = setup.start();
    bench.set_pods(&USED);
    bench.usage.set(|summary| set_disk(summary, 99));
    sleep(seconds(60)).await;
    assert_eq!((bench.evicted(), bench.calls()), (vec![], vec!["containers", "images"]));
    assert_eq!(bench.usage.summaries(), 1);
}

// behaviour: EVI-35, EVI-36
#[tokio::test(start_paused = true)]
async fn pod_is_evicted_once_removals_have_freed_too_little() {
    let frees = Some((Duration::from_millis(1200), 99));
    for (removes, frees, at) in [(0, None, 0), (3, None, 5), (3, frees, 5)] {
        let setup = Setup { thresholds: disk(), pods: three(), removes, frees, ..Setup::default() };
        let bench = setup.start();
        bench.set_pods(&USED);
        bench.usage.set(|summary| set_disk(summary, 98));
        sleep(seconds(7)).await;
        let expected = if frees.is_some() { 2 } else { at };
        assert_eq!(bench.evicted()[0], (expected, "large".to_owned()), "{removes} {frees:?}");
    }
}

// behaviour: EVI-36
#[tokio::test(start_paused = true)]
async fn pod_that_terminates_during_reclaim_is_not_evicted() {
    // Pods are measured again after removals.
    for (removes, wait, summaries) in [(0, 1, 1), (3, 6, 2)] {
        let terminates = Some("large");
        let setup =
            Setup { thresholds: disk(), pods: three(), removes, terminates, ..Setup::default() };
        let bench = setup.start();
        bench.set_pods(&USED);
        bench.usage.set(|summary| set_disk(summary, 98));
        sleep(seconds(wait)).await;
        let evicted: Vec<String> = bench.evicted().into_iter().map(|(_, name)| name).collect();
        assert_eq!((evicted, bench.usage.summaries()), (vec!["small".to_owned()], summaries));
    }
}

// behaviour: EVI-14
#[tokio::test(start_paused = true)]
async fn old_statistics_evict_no_second_pod() {
    let bench = Setup { thresholds: disk(), pods: three(), ..Setup::default() }.start();
    bench.set_pods(&USED);
    bench.usage.set(|summary| set_disk(summary, 98));
    bench.usage.freeze(true);
    sleep(seconds(60)).await;
    assert_eq!(bench.evicted(), [(0, "large".to_owned())]);
    bench.usage.freeze(false);
    sleep(seconds(11)).await;
    assert_eq!(bench.evicted().len(), 2);
}

// behaviour: EVI-23
#[tokio::test(start_paused = true)]
async fn critical_pod_is_never_evicted() {
    let critical = plain("critical").spec(|spec| spec.priority = Some(2_000_000_000)).build();
    let pods = vec![critical];
    let bench = Setup { thresholds: disk(), pods, ..Setup::default() }.start();
    bench.set_pods(&USED);
    bench.usage.set(|summary| set_disk(summary, 1));
    sleep(seconds(60)).await;
    assert_eq!((bench.evicted(), bench.events.reasons().len()), (vec![], 0));
}

// behaviour: EVI-37, EVI-42
#[tokio::test(start_paused = true)]
async fn clean_up_of_a_pod_is_awaited_for_half_a_minute() {
    let setup = Setup {
        thresholds: disk(),
        pods: three(),
        stay: true,
        never_cleaned: true,
        ..Setup::default()
    };
    let bench = setup.start();
    bench.set_pods(&USED);
    bench.usage.set(|summary| set_disk(summary, 1));
    sleep(seconds(60)).await;
    let large = |at| (at, "large".to_owned());
    assert_eq!(bench.evicted(), [large(0), large(32)], "a pod that does not end is killed again");
    assert_eq!(bench.metric("kubelet_evictions", "nodefs.available"), 1 + 1);
}

// behaviour: EVI-43
#[tokio::test(start_paused = true)]
async fn failed_measurement_ends_the_round() {
    let setup = Setup { thresholds: disk(), pods: three(), no_devices: true, ..Setup::default() };
    let bench = setup.start();
    bench.set_pods(&USED);
    bench.usage.set(|summary| set_disk(summary, 1));
    sleep(seconds(25)).await;
    assert_eq!((bench.usage.nodes(), bench.evicted()), (0, vec![]));
    *bench.disks.0.lock().unwrap() = Ok(Devices { root: 1, images: 2, containers: 2 });
    bench.usage.set_broken(true);
    sleep(seconds(20)).await;
    assert_eq!((bench.usage.nodes(), bench.evicted()), (2, vec![]));
    bench.usage.set_broken(false);
    sleep(seconds(6)).await;
    assert_eq!(bench.evicted().len(), 1);
    assert!(bench.calls().is_empty(), "nothing on the disk of the node can be removed");
}

// behaviour: EVI-44
#[tokio::test(start_paused = true)]
async fn requested_round_begins_at_once() {
    let thresholds = vec![threshold(Signal::MemoryAvailable, 100, 0)];
    let bench = Setup { thresholds, pods: three(), ..Setup::default() }.start();
    sleep(seconds(5)).await;
    bench.usage.set(|summary| set_memory(summary, 50));
    bench.handle.begin_round();
    sleep(Duration::from_millis(1)).await;
    assert_eq!(bench.evicted().len(), 1);
}

// behaviour: EVI-60
#[tokio::test(start_paused = true)]
async fn plan_shows_signals_and_rankings_and_changes_nothing() {
    let thresholds =
        vec![threshold(Signal::MemoryAvailable, 100, 60), threshold(Signal::NodeFsAvailable, 1, 0)];
    let setup = Setup { thresholds, pods: three(), no_devices: true, ..Setup::default() };
    let bench = setup.start();
    sleep(seconds(1)).await;
    let early = bench.handle.plan().await;
    assert_eq!(early.problems, ["the eviction manager has not completed a round yet"]);
    *bench.disks.0.lock().unwrap() = Ok(Devices { root: 1, images: 1, containers: 1 });
    bench.set_pods(&USED);
    bench.usage.set(|summary| set_memory(summary, 50));
    sleep(seconds(24)).await;
    let plan = bench.handle.plan().await;
    let states: Vec<_> = plan.signals.iter().map(|one| (one.is_met(), one.met_for)).collect();
    assert_eq!(states, [(false, None), (false, None), (true, Some(seconds(15)))]);
    assert_eq!((plan.pressure.memory, plan.rankings.len()), (true, 2));
    let first: Vec<_> = plan.rankings.iter().map(|one| &*one.pods[0].name.name).collect();
    assert_eq!(first, ["large", "large"]);
    assert!(bench.evicted().is_empty() && bench.events.all().is_empty());
    bench.usage.set_broken(true);
    assert_eq!(bench.handle.plan().await.problems, ["list containers: broken by a test"]);
}
