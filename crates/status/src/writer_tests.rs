use std::sync::Mutex;
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
}

impl Sink<Arc<Pod>, PodUid> for Copies {
    fn hear(&self, change: Change<Arc<Pod>, PodUid>) {
        let number = *self.changes.borrow() + 1;
        match change {
            Change::Applied(pod) => {
                self.pods.lock().unwrap().insert(view::uid(&pod), (pod, number));
            }
            Change::Gone(uid) => drop(self.pods.lock().unwrap().remove(&uid)),
            Change::Restarted | Change::Unread(_) | Change::Complete => {}
        }
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

    fn may_run(&self, uid: &PodUid) -> bool {
        self.running.lock().unwrap().contains(uid)
    }
}

struct World {
    server: MemoryPods,
    store: StatusStore,
    copies: Arc<Copies>,
    _tasks: JoinSet<()>,
}

fn world() -> World {
    let clock = VirtualClock::new();
    let server = MemoryPods::new(clock.clone());
    let api = Arc::new(server.clone());
    let (store, copies) = (StatusStore::new(), Arc::new(Copies::default()));
    let writer = Writer::new(WriterParts {
        api: Arc::clone(&api) as _,
        writes: Arc::clone(&api) as _,
        copies: Arc::clone(&copies) as _,
        statuses: store.reader(),
        clock: Arc::new(clock),
    });
    let mut tasks = JoinSet::new();
    tasks.spawn(writer.run(CancellationToken::new()));
    let heard = Arc::clone(&copies);
    tasks.spawn(async move { api.follow_pods_of("node", &*heard).await });
    World { server, store, copies, _tasks: tasks }
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
    fn make(&self, name: &str) -> PodUid {
        let uid = self.server.make(pod(name).on_node("node").build());
        self.copies.running.lock().unwrap().insert(uid.clone());
        uid
    }

    fn stopped(&self, uid: &PodUid) {
        self.copies.running.lock().unwrap().remove(uid);
        self.store.touch(uid);
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

    fn patches(&self) -> usize {
        self.server.calls().iter().filter(|call| call.starts_with("PATCH")).count()
    }
}

// behaviour: STW-11, STW-16
#[tokio::test(start_paused = true)]
async fn a_status_is_written_once_for_many_changes_and_nothing_is_asked_before() {
    let world = world();
    let uid = world.make("web");
    sleep(Duration::from_secs(1)).await;
    for (phase, ready) in [("Pending", "False"), ("Running", "False"), ("Running", "True")] {
        world.store.set(&uid, status(phase, ready));
    }
    world.until("it is written", |world| world.phase("web") == "Running").await;
    sleep(Duration::from_mins(1)).await;
    assert_eq!(world.server.calls(), ["PATCH default/web"]);
}

// behaviour: STW-1, STW-17
#[tokio::test(start_paused = true)]
async fn what_others_wrote_stays_and_what_they_took_is_written_again() {
    let world = world();
    let uid = world.make("web");
    world.store.set(&uid, status("Running", "True"));
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

// behaviour: STW-2, STW-12, STW-13
#[tokio::test(start_paused = true)]
async fn a_deleted_pod_is_over_when_nothing_runs_and_gone_when_nothing_is_left() {
    let world = world();
    let uid = world.make("web");
    world.store.set(&uid, status("Running", "True"));
    world.until("it runs", |world| world.phase("web") == "Running").await;
    world.server.delete(&named("web"), Duration::from_secs(30));
    world.store.set(&uid, status("Failed", "False"));
    sleep(Duration::from_secs(10)).await;
    assert_eq!(world.phase("web"), "Running", "it may run");
    world.stopped(&uid);
    world.until("it is over", |world| world.phase("web") == "Failed").await;
    sleep(Duration::from_secs(10)).await;
    assert!(world.server.pod(&named("web")).is_some(), "something is left");
    world.store.finish(&uid, status("Failed", "False"));
    world.until("it is gone", |world| world.server.pod(&named("web")).is_none()).await;
    let deletions = world.server.calls().iter().filter(|call| call.starts_with("DELETE")).count();
    assert_eq!(deletions, 1);
}

// behaviour: STW-18
#[tokio::test(start_paused = true)]
async fn a_pod_of_the_same_name_gets_nothing_of_the_former() {
    let world = world();
    let former = world.make("web");
    world.store.set(&former, status("Running", "True"));
    world.until("it runs", |world| world.phase("web") == "Running").await;
    world.server.delete(&named("web"), Duration::ZERO);
    world.server.make(pod("web").on_node("node").build());
    world.store.set(&former, status("Failed", "False"));
    world.stopped(&former);
    world.store.finish(&former, status("Failed", "False"));
    sleep(Duration::from_mins(1)).await;
    assert_eq!(world.phase("web"), "Pending");
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
            world.store.set(uid, status("Running", if round == 2 { "True" } else { "False" }));
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
    assert_eq!(world.patches(), 30);
}
