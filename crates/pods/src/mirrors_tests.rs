use podspec::annotations;
use testkit::clock::VirtualClock;
use testkit::cluster::MemoryPods;
use testkit::pods::pod;
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

use super::*;
use crate::source::api::api_source;

struct Harness {
    server: MemoryPods,
    pods: watch::Sender<StaticPods>,
    _tasks: JoinSet<()>,
}

fn harness() -> Harness {
    let clock = VirtualClock::new();
    let server = MemoryPods::new(clock.clone());
    let api: Arc<MemoryPods> = Arc::new(server.clone());
    let (source, _, copies) = api_source("node".to_owned(), Arc::clone(&api) as _);
    let (pods, pods_receiver) = watch::channel(StaticPods::default());
    let mirrors = Mirrors::new(MirrorParts {
        api: Arc::clone(&api) as _,
        writes: api,
        copies,
        pods: pods_receiver,
        node: "node".to_owned(),
        clock: Arc::new(clock),
        panics: PanicGuard::default(),
    });
    let mut tasks = JoinSet::new();
    tasks.spawn(source.run(CancellationToken::new()));
    tasks.spawn(mirrors.run(CancellationToken::new()));
    Harness { server, pods, _tasks: tasks }
}

fn fixed(uid: &str) -> Arc<Pod> {
    static_pod("web", uid)
}

fn static_pod(name: &str, uid: &str) -> Arc<Pod> {
    let pod = pod(name).uid(uid).on_node("node").annotation(annotations::CONFIG_HASH, uid);
    Arc::new(pod.annotation(annotations::CONFIG_SOURCE, annotations::SOURCE_FILE).build())
}

fn name() -> PodName {
    PodName::new("default", "web")
}

fn wanted(pod: &Arc<Pod>) -> StaticPods {
    let present = [(view::uid(pod), name())].into();
    StaticPods { wanted: vec![Arc::clone(pod)], present, all_sources_ready: true }
}

impl Harness {
    /// Waits for another mirror of this uid; returns the mirror's own uid.
    async fn mirror(&self, of: &str, other_than: Option<&PodUid>) -> PodUid {
        let look = async {
            loop {
                let there = self.server.pod(&name()).filter(|pod| {
                    view::mirrored(pod) == Some(of) && Some(&view::uid(pod)) != other_than
                });
                match there {
                    Some(pod) => return view::uid(&pod),
                    None => sleep(Duration::from_millis(100)).await,
                }
            }
        };
        let found = timeout(Duration::from_mins(2), look).await;
        found.unwrap_or_else(|_| panic!("{:?}", self.server.pods()))
    }

    async fn none(&self) {
        let look = async {
            while self.server.pod(&name()).is_some() {
                sleep(Duration::from_millis(100)).await;
            }
        };
        timeout(Duration::from_mins(2), look).await.expect("the mirror is deleted");
    }
}

// behaviour: API-20, API-21
#[tokio::test(start_paused = true)]
async fn mirror_is_created_and_recreated_when_deleted() {
    let harness = harness();
    harness.server.register_node("node");
    harness.pods.send_replace(wanted(&fixed("u1")));
    let first = harness.mirror("u1", None).await;
    let mirror = harness.server.pod(&name()).unwrap();
    let owners = mirror.metadata.owner_references.as_ref().unwrap();
    assert_eq!((owners[0].name.as_str(), owners[0].uid.as_str()), ("node", "node-1"));
    harness.server.delete(&name(), Duration::from_secs(30));
    let second = harness.mirror("u1", Some(&first)).await;
    harness.server.delete(&name(), Duration::ZERO);
    harness.mirror("u1", Some(&second)).await;
    let made = harness.server.calls().into_iter().filter(|call| call.starts_with("POST")).count();
    assert_eq!(made, 3, "and no more often: {:?}", harness.server.calls());
}

// behaviour: API-22, API-23
#[tokio::test(start_paused = true)]
async fn mirror_is_replaced_for_a_new_version_and_deleted_with_its_pod() {
    let harness = harness();
    harness.server.register_node("node");
    harness.pods.send_replace(wanted(&fixed("u1")));
    let first = harness.mirror("u1", None).await;
    let mut edited = wanted(&fixed("u2"));
    edited.present.insert("u1".into(), name());
    harness.pods.send_replace(edited);
    sleep(Duration::from_mins(1)).await;
    assert_eq!(harness.mirror("u1", None).await, first, "while it terminates");
    harness.pods.send_replace(wanted(&fixed("u2")));
    harness.mirror("u2", None).await;
    let gone = StaticPods { all_sources_ready: true, ..StaticPods::default() };
    harness.pods.send_replace(gone);
    harness.none().await;
}

// behaviour: API-27
#[tokio::test(start_paused = true)]
async fn failing_mirror_backs_off_and_does_not_block_others() {
    let harness = harness();
    harness.server.register_node("node");
    // Another client's pod has its name.
    harness.server.make(pod("another").on_node("node").build());
    let both = [static_pod("another", "u0"), fixed("u1")];
    let present = both.iter().map(|pod| (view::uid(pod), view::pod_name(pod))).collect();
    harness.pods.send_replace(StaticPods {
        wanted: both.to_vec(),
        present,
        all_sources_ready: true,
    });
    harness.mirror("u1", None).await;
    for change in 0..100 {
        let change = |pod: &mut Pod| {
            pod.metadata.labels = Some([("n".to_owned(), change.to_string())].into());
        };
        harness.server.update(&PodName::new("default", "another"), change);
        sleep(Duration::from_secs(1)).await;
    }
    let requested =
        harness.server.calls().into_iter().filter(|call| call.contains("another")).count();
    assert!((5..12).contains(&requested), "{requested} attempts in 100 s in spite of many changes");
}

// behaviour: API-25
#[tokio::test(start_paused = true)]
async fn mirror_waits_for_its_node_and_for_the_server() {
    let harness = harness();
    harness.pods.send_replace(wanted(&fixed("u1")));
    sleep(Duration::from_mins(2)).await;
    assert_eq!(harness.server.pod(&name()), None);
    let requested = harness.server.calls().len();
    assert!(requested < 20, "{requested} calls in two minutes");
    harness.server.away(true);
    harness.server.register_node("node");
    sleep(Duration::from_mins(1)).await;
    harness.server.away(false);
    harness.mirror("u1", None).await;
}

// behaviour: WRK-38
#[tokio::test(start_paused = true)]
async fn panic_for_one_mirror_does_not_block_others() {
    let harness = harness();
    harness.server.register_node("node");
    harness.server.panic_on(["POST default/broken"]);
    let (broken, web) = (static_pod("broken", "u1"), fixed("u2"));
    let present = [&broken, &web].map(|pod| (view::uid(pod), view::pod_name(pod))).into();
    harness.pods.send_replace(StaticPods {
        wanted: vec![broken, web],
        present,
        all_sources_ready: true,
    });
    let first = harness.mirror("u2", None).await;
    sleep(Duration::from_mins(1)).await;
    let tries =
        || harness.server.calls().iter().filter(|call| *call == "POST default/broken").count();
    assert!((4..=8).contains(&tries()), "{:?}", harness.server.calls());
    harness.server.delete(&name(), Duration::ZERO);
    harness.mirror("u2", Some(&first)).await;
    harness.server.panic_on([]);
    sleep(Duration::from_secs(31)).await;
    assert!(harness.server.pod(&PodName::new("default", "broken")).is_some());
}
