use std::collections::BTreeSet;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use k8s_openapi::api::core::v1::{PodCondition, PodStatus};
use model::ids::PodName;
use model::ports::cluster::{Change, Sink};
use testkit::clock::VirtualClock;
use testkit::cluster::MemoryPods;
use testkit::pods::pod;
use tokio::time::{sleep, timeout};

use super::*;
use crate::store::StatusStore;

/// The received copies of the API server, like those of a source.
#[derive(Debug, Default)]
struct Copies {
    pods: Mutex<BTreeMap<PodUid, (Arc<Pod>, u64)>>,
    running: Mutex<BTreeSet<PodUid>>,
    changes: watch::Sender<u64>,
    listings: AtomicU64,
    /// Whether nothing is received, as while a watch is late.
    is_stopped: AtomicBool,
}

impl Sink<Arc<Pod>, PodUid> for Copies {
    fn receive(&self, change: Change<Arc<Pod>, PodUid>) {
        if self.is_stopped.load(Ordering::SeqCst) {
            return;
        }
        let number = *self.changes.borrow() + 1;
        let mut pods = self.pods.lock().unwrap();
        match change {
            Change::Applied(pod) => {
                let uid = view::uid(&pod);
                let known = pods.get(&uid).map(|(known, _)| view::version(known));
                if known != Some(view::version(&pod)) {
                    pods.insert(uid, (pod, number));
                }
            }
            Change::Gone(uid) => drop(pods.remove(&uid)),
            Change::Restarted | Change::Unread(_) => {}
            Change::Complete => {
                self.listings.fetch_add(1, Ordering::SeqCst);
            }
        }
        drop(pods);
        self.changes.send_replace(number);
    }
}

impl ApiView for Copies {
    fn copy(&self, uid: &PodUid) -> Option<Arc<Pod>> {
        self.pods.lock().unwrap().get(uid).map(|(pod, _)| Arc::clone(pod))
    }

    fn changed_since(&self, change: u64) -> (Vec<PodUid>, u64) {
        let pods = self.pods.lock().unwrap();
        let newer = pods.iter().filter(|(_, (_, number))| *number > change);
        (newer.map(|(uid, _)| uid.clone()).collect(), *self.changes.borrow())
    }

    fn changes(&self) -> watch::Receiver<u64> {
        self.changes.subscribe()
    }

    fn listings(&self) -> u64 {
        self.listings.load(Ordering::SeqCst)
    }

    fn may_run(&self, uid: &PodUid) -> bool {
        self.running.lock().unwrap().contains(uid)
    }
}

struct Harness {
    server: MemoryPods,
    store: StatusStore,
    copies: Arc<Copies>,
    registry: prometheus::Registry,
    _tasks: JoinSet<()>,
}

fn harness() -> Harness {
    let clock = VirtualClock::new();
    let server = MemoryPods::new(clock.clone());
    let api = Arc::new(server.clone());
    let (store, copies) = (StatusStore::new(), Arc::new(Copies::default()));
    let registry = prometheus::Registry::new();
    let metrics = Metrics::new(&registry).unwrap();
    let writer = Writer::new(WriterParts {
        api: Arc::clone(&api) as _,
        writes: Arc::clone(&api) as _,
        copies: Arc::clone(&copies) as _,
        statuses: store.reader(),
        clock: Arc::new(clock.clone()),
        starts: StartTimes::new(Arc::new(clock), metrics.clone()),
        panics: PanicGuard::default(),
        metrics,
    });
    let mut tasks = JoinSet::new();
    tasks.spawn(writer.run(CancellationToken::new()));
    let sink = Arc::clone(&copies);
    tasks.spawn(async move { api.follow_pods_of("node", &*sink).await });
    Harness { server, store, copies, registry, _tasks: tasks }
}

fn named(name: &str) -> PodName {
    PodName::new("default", name)
}

fn status(phase: &str, ready: &str) -> PodStatus {
    let ready = PodCondition {
        type_: "Ready".to_owned(),
        status: ready.to_owned(),
        ..PodCondition::default()
    };
    PodStatus {
        phase: Some(phase.to_owned()),
        conditions: Some(vec![ready]),
        ..PodStatus::default()
    }
}

impl Harness {
    fn set(&self, uid: &PodUid, status: PodStatus) {
        let mut pod = Pod::default();
        pod.metadata.uid = Some(uid.to_string());
        self.store.lock().set_status(&Arc::new(pod), status);
    }

    fn make(&self, name: &str) -> PodUid {
        let uid = self.server.make(pod(name).on_node("node").build());
        self.copies.running.lock().unwrap().insert(uid.clone());
        uid
    }

    fn stopped(&self, uid: &PodUid) {
        self.copies.running.lock().unwrap().remove(uid);
        self.store.lock().touch(uid);
    }

    async fn until(&self, what: &str, look: impl Fn(&Self) -> bool) {
        let looking = async {
            while !look(self) {
                sleep(Duration::from_millis(20)).await;
            }
        };
        let found = timeout(Duration::from_mins(2), looking).await;
        assert!(found.is_ok(), "{what}: {:?}", self.server.pods());
    }

    fn phase(&self, name: &str) -> String {
        let pod = self.server.pod(&named(name));
        pod.and_then(|pod| pod.status.clone()?.phase).unwrap_or_default()
    }

    fn ready(&self, name: &str) -> String {
        let pod = self.server.pod(&named(name)).unwrap();
        let conditions = pod.status.as_ref().and_then(|status| status.conditions.as_ref());
        let ready = conditions.into_iter().flatten().find(|one| one.type_ == "Ready");
        ready.map(|one| one.status.clone()).unwrap_or_default()
    }

    fn calls(&self, method: &str) -> usize {
        self.server.calls().iter().filter(|call| call.starts_with(method)).count()
    }

    /// Stops the watch, or starts it again with a list.
    fn stop_watch(&self, is_stopped: bool) {
        self.copies.is_stopped.store(is_stopped, Ordering::SeqCst);
        if !is_stopped {
            // A stopped watch begins with a list.
            self.server.restore(self.server.backup());
        }
    }

    /// The number of measured writes, and their total duration.
    fn timed(&self) -> (u64, Duration) {
        let name = "kubelet_pod_status_sync_duration_seconds";
        let family = self.registry.gather().into_iter().find(|family| family.name() == name);
        let family = family.unwrap();
        let histogram = family.get_metric()[0].get_histogram();
        let sum = Duration::from_secs_f64(histogram.get_sample_sum());
        (histogram.get_sample_count(), sum)
    }

    /// A terminated pod that is being deleted and still has remains.
    async fn make_ended(&self, name: &str) -> PodUid {
        let uid = self.make(name);
        self.set(&uid, status("Running", "True"));
        self.until("it runs", |harness| harness.phase(name) == "Running").await;
        self.server.delete(&named(name), Duration::from_secs(30));
        self.set(&uid, status("Failed", "False"));
        self.stopped(&uid);
        self.until("it is over", |harness| harness.phase(name) == "Failed").await;
        uid
    }
}

// behaviour: STW-11, STW-16
#[tokio::test(start_paused = true)]
async fn changes_are_written_once_without_reading_the_pod() {
    let harness = harness();
    let uid = harness.make("web");
    sleep(Duration::from_secs(1)).await;
    for (phase, ready) in [("Pending", "False"), ("Running", "False"), ("Running", "True")] {
        harness.set(&uid, status(phase, ready));
    }
    harness.until("it is written", |harness| harness.phase("web") == "Running").await;
    sleep(Duration::from_mins(1)).await;
    assert_eq!(harness.server.calls(), ["PATCH default/web"]);
}

// behaviour: STW-44
#[tokio::test(start_paused = true)]
async fn pending_status_is_written_with_the_start_or_after_a_delay() {
    let harness = harness();
    for (name, starts_after, calls) in [("quick", 200, 1), ("slow", 2000, 2)] {
        let uid = harness.make(name);
        harness.set(&uid, status("Pending", "False"));
        sleep(Duration::from_millis(starts_after.min(700))).await;
        assert_eq!(harness.calls("PATCH"), calls - 1, "{name}");
        sleep(Duration::from_millis(starts_after.saturating_sub(700))).await;
        let starts = Instant::now();
        harness.set(&uid, status("Running", "True"));
        harness.until("it is written", |harness| harness.phase(name) == "Running").await;
        assert!(starts.elapsed() < Duration::from_millis(100), "{:?}", starts.elapsed());
        assert_eq!(harness.calls("PATCH"), calls, "{name}");
        harness.server.forget_calls();
    }
}

// behaviour: STW-1, STW-17
#[tokio::test(start_paused = true)]
async fn foreign_conditions_are_kept_and_removed_agent_conditions_are_restored() {
    let harness = harness();
    let uid = harness.make("web");
    harness.set(&uid, status("Running", "True"));
    harness.until("it is written", |harness| harness.phase("web") == "Running").await;
    harness.server.update(&named("web"), |pod| {
        let status = pod.status.get_or_insert_default();
        status.phase = Some("Unknown".to_owned());
        let theirs = PodCondition {
            type_: "Gate".to_owned(),
            status: "True".to_owned(),
            ..PodCondition::default()
        };
        status.conditions.get_or_insert_default().push(theirs);
    });
    harness.until("it is written again", |harness| harness.phase("web") == "Running").await;
    let pod = harness.server.pod(&named("web")).unwrap();
    let conditions = pod.status.as_ref().unwrap().conditions.as_ref().unwrap();
    assert!(conditions.iter().any(|one| one.type_ == "Gate"), "{conditions:?}");
}

// behaviour: STW-47
#[tokio::test(start_paused = true)]
async fn resync_repairs_a_copy_whose_change_was_not_reported() {
    let harness = harness();
    let uid = harness.make("web");
    harness.set(&uid, status("Running", "True"));
    harness.until("it is written", |harness| harness.ready("web") == "True").await;
    sleep(Duration::from_secs(30)).await;
    assert_eq!(harness.calls("PATCH"), 1, "equal statuses are not written again");
    // The copy is replaced without a change that the writer could see.
    harness.copies.is_stopped.store(true, Ordering::SeqCst);
    harness.server.update(&named("web"), |pod| pod.status = Some(status("Running", "False")));
    let pod = harness.server.pod(&named("web")).unwrap();
    harness.copies.pods.lock().unwrap().insert(uid, (pod, 0));
    sleep(2 * RESYNC).await;
    assert_eq!((harness.ready("web").as_str(), harness.calls("PATCH")), ("True", 2));
}

// behaviour: STW-49
#[tokio::test(start_paused = true)]
async fn changed_readiness_is_written_first() {
    let harness = harness();
    let uids: Vec<PodUid> = (0..20).map(|number| harness.make(&format!("pod-{number}"))).collect();
    for uid in &uids {
        harness.set(uid, status("Running", "True"));
    }
    harness.until("all are written", |harness| harness.calls("PATCH") == 20).await;
    sleep(Duration::from_secs(1)).await;
    harness.server.forget_calls();
    // The oldest change is the only one of readiness.
    harness.set(&uids[0], status("Running", "False"));
    for uid in &uids[1..] {
        harness
            .set(uid, PodStatus { message: Some("new".to_owned()), ..status("Running", "True") });
    }
    harness.until("all are written", |harness| harness.calls("PATCH") == 20).await;
    assert_eq!(harness.server.calls()[0], "PATCH default/pod-0");
}

/// A pod whose kill has ended, as the server shows it: phase and reason.
fn phase_and_reason(pod: &Pod) -> (String, String) {
    let status = pod.status.clone().unwrap_or_default();
    (status.phase.unwrap_or_default(), status.reason.unwrap_or_default())
}

// behaviour: STW-2
#[tokio::test(start_paused = true)]
async fn final_phase_and_reason_of_a_kill_are_written_in_one_patch() {
    let harness = harness();
    let uid = harness.make("web");
    harness.set(&uid, status("Running", "True"));
    harness.until("it runs", |harness| harness.phase("web") == "Running").await;
    // The eviction is decided, its containers terminate one by one, and the API server gets each step.
    let evicted = PodStatus { reason: Some("Evicted".to_owned()), ..status("Failed", "True") };
    harness.set(&uid, evicted.clone());
    sleep(Duration::from_secs(5)).await;
    harness
        .set(&uid, PodStatus { reason: Some("Evicted".to_owned()), ..status("Failed", "False") });
    sleep(Duration::from_secs(5)).await;
    let seen = phase_and_reason(&harness.server.pod(&named("web")).unwrap());
    assert_eq!(seen, ("Running".to_owned(), String::new()), "withheld while it may run");
    harness.server.forget_calls();
    harness.stopped(&uid);
    harness.until("it has failed", |harness| harness.phase("web") == "Failed").await;
    let seen = phase_and_reason(&harness.server.pod(&named("web")).unwrap());
    assert_eq!(seen, ("Failed".to_owned(), "Evicted".to_owned()));
    sleep(Duration::from_mins(1)).await;
    assert_eq!(harness.server.calls(), ["PATCH default/web"]);
}

// behaviour: STW-2, STW-12, STW-13
#[tokio::test(start_paused = true)]
async fn deleted_pod_is_terminal_when_stopped_and_removed_when_cleaned_up() {
    let harness = harness();
    let uid = harness.make("web");
    harness.set(&uid, status("Running", "True"));
    harness.until("it runs", |harness| harness.phase("web") == "Running").await;
    harness.server.delete(&named("web"), Duration::from_secs(30));
    harness.set(&uid, status("Failed", "False"));
    sleep(Duration::from_secs(10)).await;
    assert_eq!(harness.phase("web"), "Running", "it may run");
    harness.stopped(&uid);
    harness.until("it is over", |harness| harness.phase("web") == "Failed").await;
    sleep(Duration::from_secs(10)).await;
    assert!(harness.server.pod(&named("web")).is_some(), "something is left");
    harness.store.lock().finish(&uid, status("Failed", "False"));
    harness.until("it is gone", |harness| harness.server.pod(&named("web")).is_none()).await;
    assert_eq!(harness.calls("DELETE"), 1);
}

/// Another pod takes the name of one, without an event of the watch.
fn replace_unnoticed(harness: &Harness, name: &str) -> Arc<Pod> {
    harness.stop_watch(true);
    harness.server.delete(&named(name), Duration::ZERO);
    harness.server.make(pod(name).on_node("node").build());
    harness.server.forget_calls();
    harness.server.pod(&named(name)).unwrap()
}

// behaviour: STW-18
#[tokio::test(start_paused = true)]
async fn replacement_pod_does_not_get_the_status_of_the_former() {
    let harness = harness();
    let former = harness.make("web");
    harness.set(&former, status("Running", "True"));
    harness.until("it runs", |harness| harness.phase("web") == "Running").await;
    let other = replace_unnoticed(&harness, "web");
    harness.set(&former, status("Running", "False"));
    harness.until("it is tried", |harness| harness.calls("PATCH") > 0).await;
    sleep(Duration::from_mins(1)).await;
    assert_eq!(harness.server.pod(&named("web")), Some(Arc::clone(&other)));
    // Once the watch delivers that, no more attempts follow.
    harness.stop_watch(false);
    harness.copies.receive(Change::Gone(former));
    sleep(Duration::from_mins(5)).await;
    harness.server.forget_calls();
    sleep(Duration::from_mins(5)).await;
    assert_eq!((harness.server.calls(), harness.server.pod(&named("web"))), (vec![], Some(other)));
}

// behaviour: STW-13, STW-18
#[tokio::test(start_paused = true)]
async fn replacement_pod_is_not_deleted_for_the_former() {
    let harness = harness();
    let former = harness.make_ended("web").await;
    let other = replace_unnoticed(&harness, "web");
    harness.store.lock().finish(&former, status("Failed", "False"));
    harness.until("it is tried", |harness| harness.calls("DELETE") > 0).await;
    sleep(Duration::from_mins(5)).await;
    assert_eq!(
        harness.server.calls(),
        ["DELETE default/web"],
        "the former is gone: one attempt is enough"
    );
    assert_eq!(harness.server.pod(&named("web")), Some(other));
}

// behaviour: STW-36
#[tokio::test(start_paused = true)]
async fn statuses_are_written_again_after_a_server_restore() {
    let harness = harness();
    let uids = ["received", "unreceived"].map(|name| harness.make(name));
    for uid in &uids {
        harness.set(uid, status("Running", "False"));
    }
    let is = |harness: &Harness, ready: &str| {
        ["received", "unreceived"].iter().all(|name| harness.ready(name) == ready)
    };
    harness.until("they are written", |harness| is(harness, "False")).await;
    // Longer than the watch takes.
    sleep(Duration::from_secs(1)).await;
    let backup = harness.server.backup();
    harness.set(&uids[0], status("Running", "True"));
    harness
        .until("one is written and received", |harness| harness.ready("received") == "True")
        .await;
    sleep(Duration::from_secs(1)).await;
    harness.copies.is_stopped.store(true, Ordering::SeqCst);
    harness.set(&uids[1], status("Running", "True"));
    harness.until("one is written", |harness| is(harness, "True")).await;
    harness.copies.is_stopped.store(false, Ordering::SeqCst);
    harness.server.restore(backup);
    assert!(is(&harness, "False"));
    harness.until("they are written again", |harness| is(harness, "True")).await;
    harness.server.forget_calls();
    sleep(Duration::from_mins(5)).await;
    assert_eq!(harness.server.calls(), Vec::<String>::new(), "no repeated writes");
}

// behaviour: STW-36
#[tokio::test(start_paused = true)]
async fn pod_restored_from_a_backup_is_deleted_again() {
    let harness = harness();
    let uid = harness.make_ended("web").await;
    let backup = harness.server.backup();
    harness.store.lock().finish(&uid, status("Failed", "False"));
    harness.until("it is gone", |harness| harness.server.pod(&named("web")).is_none()).await;
    harness.server.restore(backup);
    harness.until("it is gone again", |harness| harness.server.pod(&named("web")).is_none()).await;
}

// behaviour: STW-37
#[tokio::test(start_paused = true)]
async fn status_write_latency_is_measured() {
    let harness = harness();
    let uid = harness.make("web");
    sleep(Duration::from_secs(1)).await;
    harness.server.away(true);
    harness.set(&uid, status("Running", "False"));
    sleep(Duration::from_secs(100)).await;
    harness.set(&uid, status("Running", "True"));
    sleep(Duration::from_secs(100)).await;
    assert_eq!(harness.timed().0, 0);
    harness.server.away(false);
    harness.until("it is written", |harness| harness.phase("web") == "Running").await;
    harness.until("it is timed", |harness| harness.timed().0 == 1).await;
    let (_, first) = harness.timed();
    let (least, most) = (Duration::from_secs(200), Duration::from_secs(215));
    assert!((least..most).contains(&first), "from the first change on: {first:?}");
    harness.set(&uid, status("Running", "False"));
    harness.until("it is timed", |harness| harness.timed().0 == 2).await;
    let second = harness.timed().1.saturating_sub(first);
    assert!(second < Duration::from_secs(1), "{second:?}");
}

// behaviour: STW-35
#[tokio::test(start_paused = true)]
async fn pods_are_written_once_after_api_server_recovery() {
    let harness = harness();
    let uids: Vec<PodUid> = (0..30).map(|number| harness.make(&format!("pod-{number}"))).collect();
    sleep(Duration::from_secs(1)).await;
    harness.server.away(true);
    for round in 0..3 {
        for uid in &uids {
            harness.set(uid, status("Running", if round == 2 { "True" } else { "False" }));
        }
        sleep(Duration::from_secs(200)).await;
    }
    harness.server.forget_calls();
    harness.server.away(false);
    harness
        .until("all are written", |harness| {
            (0..30).all(|number| harness.phase(&format!("pod-{number}")) == "Running")
        })
        .await;
    sleep(Duration::from_mins(1)).await;
    assert_eq!(harness.calls("PATCH"), 30);
}

// behaviour: WRK-38
#[tokio::test(start_paused = true)]
async fn panic_for_one_status_does_not_block_others() {
    let harness = harness();
    harness.server.panic_on(["PATCH default/broken"]);
    let (broken, web) = (harness.make("broken"), harness.make("web"));
    for uid in [&broken, &web] {
        harness.set(uid, status("Running", "False"));
    }
    harness.until("the other is written", |harness| harness.phase("web") == "Running").await;
    sleep(Duration::from_mins(1)).await;
    let tries = harness.calls("PATCH default/broken");
    assert!((5..=12).contains(&tries), "{tries} tries in a minute");
    harness.set(&web, status("Running", "True"));
    harness
        .until("a change of the other is written", |harness| harness.ready("web") == "True")
        .await;
    assert_eq!(harness.phase("broken"), "Pending");
    harness.server.panic_on([]);
    harness.until("it is written too", |harness| harness.phase("broken") == "Running").await;
}
