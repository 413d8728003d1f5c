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

/// What was heard of the API server, as a source has it.
#[derive(Debug, Default)]
struct Copies {
    pods: Mutex<BTreeMap<PodUid, (Arc<Pod>, u64)>>,
    running: Mutex<BTreeSet<PodUid>>,
    changes: watch::Sender<u64>,
    listings: AtomicU64,
    /// Whether nothing is heard, as while a watch is late.
    is_deaf: AtomicBool,
}

impl Sink<Arc<Pod>, PodUid> for Copies {
    fn hear(&self, change: Change<Arc<Pod>, PodUid>) {
        if self.is_deaf.load(Ordering::SeqCst) {
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

struct World {
    server: MemoryPods,
    store: StatusStore,
    copies: Arc<Copies>,
    registry: prometheus::Registry,
    _tasks: JoinSet<()>,
}

fn world() -> World {
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
    let heard = Arc::clone(&copies);
    tasks.spawn(async move { api.follow_pods_of("node", &*heard).await });
    World { server, store, copies, registry, _tasks: tasks }
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

impl World {
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

    /// From now on nothing is heard of the server, or all that is there.
    fn deaf(&self, is_deaf: bool) {
        self.copies.is_deaf.store(is_deaf, Ordering::SeqCst);
        if !is_deaf {
            // Who did not hear begins anew.
            self.server.restore(self.server.backup());
        }
    }

    /// How many changes were timed until they were written, and how long that took together.
    fn timed(&self) -> (u64, Duration) {
        let name = "kubelet_pod_status_sync_duration_seconds";
        let family = self.registry.gather().into_iter().find(|family| family.name() == name);
        let family = family.unwrap();
        let histogram = family.get_metric()[0].get_histogram();
        let sum = Duration::from_secs_f64(histogram.get_sample_sum());
        (histogram.get_sample_count(), sum)
    }

    /// A pod that has ended and is being deleted, of which something is left.
    async fn make_ended(&self, name: &str) -> PodUid {
        let uid = self.make(name);
        self.set(&uid, status("Running", "True"));
        self.until("it runs", |world| world.phase(name) == "Running").await;
        self.server.delete(&named(name), Duration::from_secs(30));
        self.set(&uid, status("Failed", "False"));
        self.stopped(&uid);
        self.until("it is over", |world| world.phase(name) == "Failed").await;
        uid
    }
}

// behaviour: STW-11, STW-16
#[tokio::test(start_paused = true)]
async fn a_status_is_written_once_for_many_changes_and_nothing_is_asked_before() {
    let world = world();
    let uid = world.make("web");
    sleep(Duration::from_secs(1)).await;
    for (phase, ready) in [("Pending", "False"), ("Running", "False"), ("Running", "True")] {
        world.set(&uid, status(phase, ready));
    }
    world.until("it is written", |world| world.phase("web") == "Running").await;
    sleep(Duration::from_mins(1)).await;
    assert_eq!(world.server.calls(), ["PATCH default/web"]);
}

// behaviour: STW-44
#[tokio::test(start_paused = true)]
async fn that_a_pod_is_about_to_start_is_told_with_its_start_or_a_little_later() {
    let world = world();
    for (name, starts_after, calls) in [("quick", 200, 1), ("slow", 2000, 2)] {
        let uid = world.make(name);
        world.set(&uid, status("Pending", "False"));
        sleep(Duration::from_millis(starts_after.min(700))).await;
        assert_eq!(world.calls("PATCH"), calls - 1, "{name}");
        sleep(Duration::from_millis(starts_after.saturating_sub(700))).await;
        let starts = Instant::now();
        world.set(&uid, status("Running", "True"));
        world.until("it is written", |world| world.phase(name) == "Running").await;
        assert!(starts.elapsed() < Duration::from_millis(100), "{:?}", starts.elapsed());
        assert_eq!(world.calls("PATCH"), calls, "{name}");
        world.server.forget_calls();
    }
}

// behaviour: STW-1, STW-17
#[tokio::test(start_paused = true)]
async fn what_others_wrote_stays_and_what_they_took_is_written_again() {
    let world = world();
    let uid = world.make("web");
    world.set(&uid, status("Running", "True"));
    world.until("it is written", |world| world.phase("web") == "Running").await;
    world.server.update(&named("web"), |pod| {
        let status = pod.status.get_or_insert_default();
        status.phase = Some("Unknown".to_owned());
        let theirs = PodCondition {
            type_: "Gate".to_owned(),
            status: "True".to_owned(),
            ..PodCondition::default()
        };
        status.conditions.get_or_insert_default().push(theirs);
    });
    world.until("it is written again", |world| world.phase("web") == "Running").await;
    let pod = world.server.pod(&named("web")).unwrap();
    let conditions = pod.status.as_ref().unwrap().conditions.as_ref().unwrap();
    assert!(conditions.iter().any(|one| one.type_ == "Gate"), "{conditions:?}");
}

// behaviour: STW-47
#[tokio::test(start_paused = true)]
async fn resync_repairs_a_copy_whose_change_was_not_reported() {
    let world = world();
    let uid = world.make("web");
    world.set(&uid, status("Running", "True"));
    world.until("it is written", |world| world.ready("web") == "True").await;
    sleep(Duration::from_secs(30)).await;
    assert_eq!(world.calls("PATCH"), 1, "equal statuses are not written again");
    // The copy is replaced without a change that the writer could see.
    world.copies.is_deaf.store(true, Ordering::SeqCst);
    world.server.update(&named("web"), |pod| pod.status = Some(status("Running", "False")));
    let pod = world.server.pod(&named("web")).unwrap();
    world.copies.pods.lock().unwrap().insert(uid, (pod, 0));
    sleep(2 * RESYNC).await;
    assert_eq!((world.ready("web").as_str(), world.calls("PATCH")), ("True", 2));
}

// behaviour: STW-49
#[tokio::test(start_paused = true)]
async fn changed_readiness_is_written_first() {
    let world = world();
    let uids: Vec<PodUid> = (0..20).map(|number| world.make(&format!("pod-{number}"))).collect();
    for uid in &uids {
        world.set(uid, status("Running", "True"));
    }
    world.until("all are written", |world| world.calls("PATCH") == 20).await;
    sleep(Duration::from_secs(1)).await;
    world.server.forget_calls();
    // The oldest change is the only one of readiness.
    world.set(&uids[0], status("Running", "False"));
    for uid in &uids[1..] {
        world.set(uid, PodStatus { message: Some("new".to_owned()), ..status("Running", "True") });
    }
    world.until("all are written", |world| world.calls("PATCH") == 20).await;
    assert_eq!(world.server.calls()[0], "PATCH default/pod-0");
}

/// A pod whose kill has ended, as the server shows it: phase and reason.
fn phase_and_reason(pod: &Pod) -> (String, String) {
    let status = pod.status.clone().unwrap_or_default();
    (status.phase.unwrap_or_default(), status.reason.unwrap_or_default())
}

// behaviour: STW-2
#[tokio::test(start_paused = true)]
async fn final_phase_and_reason_of_a_kill_are_written_in_one_patch() {
    let world = world();
    let uid = world.make("web");
    world.set(&uid, status("Running", "True"));
    world.until("it runs", |world| world.phase("web") == "Running").await;
    // The eviction is decided, its containers end one after the other, and the API server sees each step.
    let evicted = PodStatus { reason: Some("Evicted".to_owned()), ..status("Failed", "True") };
    world.set(&uid, evicted.clone());
    sleep(Duration::from_secs(5)).await;
    world.set(&uid, PodStatus { reason: Some("Evicted".to_owned()), ..status("Failed", "False") });
    sleep(Duration::from_secs(5)).await;
    let seen = phase_and_reason(&world.server.pod(&named("web")).unwrap());
    assert_eq!(seen, ("Running".to_owned(), String::new()), "withheld while it may run");
    world.server.forget_calls();
    world.stopped(&uid);
    world.until("it has failed", |world| world.phase("web") == "Failed").await;
    let seen = phase_and_reason(&world.server.pod(&named("web")).unwrap());
    assert_eq!(seen, ("Failed".to_owned(), "Evicted".to_owned()));
    sleep(Duration::from_mins(1)).await;
    assert_eq!(world.server.calls(), ["PATCH default/web"]);
}

// behaviour: STW-2, STW-12, STW-13
#[tokio::test(start_paused = true)]
async fn a_deleted_pod_is_over_when_nothing_runs_and_gone_when_nothing_is_left() {
    let world = world();
    let uid = world.make("web");
    world.set(&uid, status("Running", "True"));
    world.until("it runs", |world| world.phase("web") == "Running").await;
    world.server.delete(&named("web"), Duration::from_secs(30));
    world.set(&uid, status("Failed", "False"));
    sleep(Duration::from_secs(10)).await;
    assert_eq!(world.phase("web"), "Running", "it may run");
    world.stopped(&uid);
    world.until("it is over", |world| world.phase("web") == "Failed").await;
    sleep(Duration::from_secs(10)).await;
    assert!(world.server.pod(&named("web")).is_some(), "something is left");
    world.store.lock().finish(&uid, status("Failed", "False"));
    world.until("it is gone", |world| world.server.pod(&named("web")).is_none()).await;
    assert_eq!(world.calls("DELETE"), 1);
}

/// Another pod takes the name of one, which nobody hears of.
fn replace_unheard(world: &World, name: &str) -> Arc<Pod> {
    world.deaf(true);
    world.server.delete(&named(name), Duration::ZERO);
    world.server.make(pod(name).on_node("node").build());
    world.server.forget_calls();
    world.server.pod(&named(name)).unwrap()
}

// behaviour: STW-18
#[tokio::test(start_paused = true)]
async fn a_pod_of_the_same_name_gets_nothing_of_the_former() {
    let world = world();
    let former = world.make("web");
    world.set(&former, status("Running", "True"));
    world.until("it runs", |world| world.phase("web") == "Running").await;
    let other = replace_unheard(&world, "web");
    world.set(&former, status("Running", "False"));
    world.until("it is tried", |world| world.calls("PATCH") > 0).await;
    sleep(Duration::from_mins(1)).await;
    assert_eq!(world.server.pod(&named("web")), Some(Arc::clone(&other)));
    // And once that is heard, nothing more is tried.
    world.deaf(false);
    world.copies.hear(Change::Gone(former));
    sleep(Duration::from_mins(5)).await;
    world.server.forget_calls();
    sleep(Duration::from_mins(5)).await;
    assert_eq!((world.server.calls(), world.server.pod(&named("web"))), (vec![], Some(other)));
}

// behaviour: STW-13, STW-18
#[tokio::test(start_paused = true)]
async fn a_pod_of_the_same_name_is_not_deleted_for_the_former() {
    let world = world();
    let former = world.make_ended("web").await;
    let other = replace_unheard(&world, "web");
    world.store.lock().finish(&former, status("Failed", "False"));
    world.until("it is tried", |world| world.calls("DELETE") > 0).await;
    sleep(Duration::from_mins(5)).await;
    assert_eq!(world.server.calls(), ["DELETE default/web"], "the former is gone: once is enough");
    assert_eq!(world.server.pod(&named("web")), Some(other));
}

// behaviour: STW-36
#[tokio::test(start_paused = true)]
async fn a_server_that_was_put_back_to_an_older_state_is_told_again() {
    let world = world();
    let uids = ["heard", "unheard"].map(|name| world.make(name));
    for uid in &uids {
        world.set(uid, status("Running", "False"));
    }
    let is = |world: &World, ready: &str| {
        ["heard", "unheard"].iter().all(|name| world.ready(name) == ready)
    };
    world.until("they are written", |world| is(world, "False")).await;
    // Longer than it takes to hear of it.
    sleep(Duration::from_secs(1)).await;
    let backup = world.server.backup();
    world.set(&uids[0], status("Running", "True"));
    world.until("one is written and heard", |world| world.ready("heard") == "True").await;
    sleep(Duration::from_secs(1)).await;
    world.copies.is_deaf.store(true, Ordering::SeqCst);
    world.set(&uids[1], status("Running", "True"));
    world.until("one is written", |world| is(world, "True")).await;
    world.copies.is_deaf.store(false, Ordering::SeqCst);
    world.server.restore(backup);
    assert!(is(&world, "False"));
    world.until("they are written again", |world| is(world, "True")).await;
    world.server.forget_calls();
    sleep(Duration::from_mins(5)).await;
    assert_eq!(world.server.calls(), Vec::<String>::new(), "once is enough");
}

// behaviour: STW-36
#[tokio::test(start_paused = true)]
async fn a_pod_that_a_backup_brought_back_is_deleted_again() {
    let world = world();
    let uid = world.make_ended("web").await;
    let backup = world.server.backup();
    world.store.lock().finish(&uid, status("Failed", "False"));
    world.until("it is gone", |world| world.server.pod(&named("web")).is_none()).await;
    world.server.restore(backup);
    world.until("it is gone again", |world| world.server.pod(&named("web")).is_none()).await;
}

// behaviour: STW-37
#[tokio::test(start_paused = true)]
async fn it_is_timed_how_long_a_change_takes_to_reach_the_api_server() {
    let world = world();
    let uid = world.make("web");
    sleep(Duration::from_secs(1)).await;
    world.server.away(true);
    world.set(&uid, status("Running", "False"));
    sleep(Duration::from_secs(100)).await;
    world.set(&uid, status("Running", "True"));
    sleep(Duration::from_secs(100)).await;
    assert_eq!(world.timed().0, 0);
    world.server.away(false);
    world.until("it is written", |world| world.phase("web") == "Running").await;
    world.until("it is timed", |world| world.timed().0 == 1).await;
    let (_, first) = world.timed();
    let (least, most) = (Duration::from_secs(200), Duration::from_secs(215));
    assert!((least..most).contains(&first), "from the first change on: {first:?}");
    world.set(&uid, status("Running", "False"));
    world.until("it is timed", |world| world.timed().0 == 2).await;
    let second = world.timed().1.saturating_sub(first);
    assert!(second < Duration::from_secs(1), "{second:?}");
}

// behaviour: STW-35
#[tokio::test(start_paused = true)]
async fn after_an_absence_of_the_api_server_each_pod_is_written_once() {
    let world = world();
    let uids: Vec<PodUid> = (0..30).map(|number| world.make(&format!("pod-{number}"))).collect();
    sleep(Duration::from_secs(1)).await;
    world.server.away(true);
    for round in 0..3 {
        for uid in &uids {
            world.set(uid, status("Running", if round == 2 { "True" } else { "False" }));
        }
        sleep(Duration::from_secs(200)).await;
    }
    world.server.forget_calls();
    world.server.away(false);
    world
        .until("all are written", |world| {
            (0..30).all(|number| world.phase(&format!("pod-{number}")) == "Running")
        })
        .await;
    sleep(Duration::from_mins(1)).await;
    assert_eq!(world.calls("PATCH"), 30);
}

// behaviour: WRK-38
#[tokio::test(start_paused = true)]
async fn panic_in_writing_one_status_keeps_no_other_from_being_written() {
    let world = world();
    world.server.panic_on(["PATCH default/broken"]);
    let (broken, web) = (world.make("broken"), world.make("web"));
    for uid in [&broken, &web] {
        world.set(uid, status("Running", "False"));
    }
    world.until("the other is written", |world| world.phase("web") == "Running").await;
    sleep(Duration::from_mins(1)).await;
    let tries = world.calls("PATCH default/broken");
    assert!((5..=12).contains(&tries), "{tries} tries in a minute");
    world.set(&web, status("Running", "True"));
    world.until("a change of the other is written", |world| world.ready("web") == "True").await;
    assert_eq!(world.phase("broken"), "Pending");
    world.server.panic_on([]);
    world.until("it is written too", |world| world.phase("broken") == "Running").await;
}
