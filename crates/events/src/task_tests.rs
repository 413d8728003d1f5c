use std::sync::Arc;
use std::time::Duration;

use model::cluster::ClusterEvent;
use model::ids::PodName;
use model::ports::events::{EventType, Events, NodeEvent, NodeEvents, PodEvent};
use prometheus::Registry;
use prometheus::proto::{Metric, MetricFamily};
use testkit::clock::VirtualClock;
use testkit::cluster::{Ask, MemoryCluster, Trouble};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, timeout};
use tokio_util::sync::CancellationToken;

use crate::handle::MOST_WAITING;
use crate::{ApiEvents, Metrics, channel};

struct World {
    cluster: MemoryCluster,
    events: ApiEvents,
    registry: Registry,
    stop: CancellationToken,
    tasks: JoinSet<()>,
}

fn world() -> World {
    let cluster = MemoryCluster::new(VirtualClock::new());
    let registry = Registry::new();
    let metrics = Metrics::new(&registry).unwrap();
    let (events, writer) = channel("node-1", Arc::new(cluster.clock()), metrics);
    let mut tasks = JoinSet::new();
    let stop = CancellationToken::new();
    tasks.spawn(writer.run(Arc::new(cluster.clone()), stop.clone()));
    World { cluster, events, registry, stop, tasks }
}

fn about(pod: &str, message: &str) -> PodEvent {
    PodEvent {
        pod_uid: format!("uid-of-{pod}").into(),
        pod: PodName::new("ns", pod),
        field_path: "spec.containers{main}".into(),
        kind: EventType::Warning,
        reason: "Failed".into(),
        message: message.to_owned(),
    }
}

impl World {
    fn tell(&self, pod: &str, message: &str) {
        Events::record(&self.events, about(pod, message));
    }

    /// Waits for what the server has, for ten minutes.
    async fn wait(&self, what: &str, is_there: impl Fn(&[ClusterEvent]) -> bool) {
        let wait = async {
            while !is_there(&self.cluster.events()) {
                sleep(Duration::from_millis(10)).await;
            }
        };
        let waited = timeout(Duration::from_mins(10), wait).await;
        assert!(waited.is_ok(), "{what}: {:#?}", self.cluster.events());
    }

    fn count(&self, name: &str, why: Option<&str>) -> u64 {
        let families = self.registry.gather();
        let family = families.iter().find(|family| family.name() == name);
        let metrics = family.map(MetricFamily::get_metric).unwrap_or_default();
        let is_it = |metric: &&Metric| {
            why.is_none_or(|why| metric.get_label().iter().any(|label| label.value() == why))
        };
        let counts = metrics.iter().filter(is_it).map(|metric| metric.get_counter().get_value());
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "a small count"
        )]
        let sum = counts.sum::<f64>() as u64;
        sum
    }

    fn dropped(&self, why: &str) -> u64 {
        self.count("ferrolet_events_dropped_total", Some(why))
    }
}

// behaviour: EVT-1, EVT-9
#[tokio::test(start_paused = true)]
async fn an_event_is_written_once_and_then_counted() {
    let world = world();
    for _ in 0..3 {
        world.tell("a", "x");
        sleep(Duration::from_secs(1)).await;
    }
    world.wait("counted", |events| events.len() == 1 && events[0].count == 3).await;
    let event = &world.cluster.events()[0];
    assert_eq!((event.about.kind, &*event.about.namespace, &*event.about.name), ("Pod", "ns", "a"));
    assert_eq!(event.about.uid.to_string(), "uid-of-a");
    assert_eq!(event.about.field_path, "spec.containers{main}");
    assert_eq!(event.at.duration_since(event.first).as_secs(), 2);
    assert_eq!(world.cluster.asked(Ask::Event).len(), 1);
    assert_eq!(world.cluster.asked(Ask::CountEvent).len(), 2);
    assert_eq!(world.count("ferrolet_events_written_total", None), 3);
}

// behaviour: EVT-14
#[tokio::test(start_paused = true)]
async fn an_event_is_written_after_half_a_second_or_when_the_agent_stops() {
    let mut world = world();
    world.tell("a", "x");
    sleep(Duration::from_millis(490)).await;
    assert_eq!(world.cluster.events().len(), 0);
    sleep(Duration::from_millis(20)).await;
    assert_eq!(world.cluster.events().len(), 1);
    for pod in ["b", "c"] {
        world.tell(pod, "x");
    }
    // The first of them is waited for by now.
    sleep(Duration::from_millis(100)).await;
    let begun = Instant::now();
    world.stop.cancel();
    world.tasks.join_next().await;
    assert_eq!((world.cluster.events().len(), begun.elapsed()), (3, Duration::ZERO));
}

// behaviour: EVT-14
#[tokio::test(start_paused = true)]
async fn an_agent_that_stops_waits_for_no_server() {
    let mut world = world();
    world.cluster.trouble(Ask::Event, Trouble::Unreachable, 100);
    world.tell("a", "x");
    let begun = Instant::now();
    world.stop.cancel();
    world.tasks.join_next().await;
    assert_eq!(begun.elapsed(), Duration::from_secs(1));
}

// behaviour: EVT-10
#[tokio::test(start_paused = true)]
async fn events_of_the_node_are_about_its_name() {
    let world = world();
    let event = NodeEvent {
        kind: EventType::Normal,
        reason: "Starting",
        message: "Starting kubelet.".to_owned(),
    };
    NodeEvents::record(&world.events, event);
    world.wait("written", |events| events.len() == 1).await;
    let event = &world.cluster.events()[0];
    assert_eq!((event.about.kind, &*event.about.name), ("Node", "node-1"));
    assert_eq!(event.about.namespace, "");
    assert!(!event.is_warning);
}

// behaviour: EVT-6, EVT-11
#[tokio::test(start_paused = true)]
async fn a_server_that_is_away_is_waited_for_and_nobody_else_waits() {
    let world = world();
    for ask in [Ask::Event, Ask::CountEvent] {
        world.cluster.trouble(ask, Trouble::Unreachable, 11);
    }
    let begun = Instant::now();
    world.tell("a", "x");
    world.tell("a", "x");
    world.tell("b", "x");
    assert_eq!(begun.elapsed(), Duration::ZERO);
    world.wait("all written", |events| events.len() == 2 && events[0].count == 2).await;
    // One spread pause and ten whole ones for each of the two that failed.
    let took = begun.elapsed().as_secs();
    assert!((200..=220).contains(&took), "{took}");
    assert_eq!(world.count("ferrolet_events_dropped_total", None), 0);
}

// behaviour: EVT-6
#[tokio::test(start_paused = true)]
async fn after_twelve_tries_an_event_is_given_up_and_the_next_has_its_turn() {
    let world = world();
    world.cluster.trouble(Ask::Event, Trouble::Unreachable, 12);
    world.tell("a", "x");
    world.tell("b", "x");
    world.wait("the second is written", |events| events.len() == 1).await;
    assert_eq!(world.cluster.events()[0].about.name, "b");
    assert_eq!(world.dropped("given-up"), 1);
}

// behaviour: EVT-7
#[tokio::test(start_paused = true)]
async fn what_the_server_does_not_want_is_not_tried_again() {
    let world = world();
    // As in a namespace that is being deleted.
    world.cluster.trouble(Ask::Event, Trouble::Refused(403), 1);
    world.tell("a", "x");
    world.tell("b", "x");
    world.wait("the second is written", |events| events.len() == 1).await;
    assert_eq!(world.cluster.asked(Ask::Event), ["a", "b"]);
    assert_eq!(world.dropped("refused"), 1);
}

// behaviour: EVT-8
#[tokio::test(start_paused = true)]
async fn what_the_server_forgot_is_written_anew_and_what_it_has_is_not() {
    let world = world();
    world.tell("a", "x");
    world.wait("written", |events| events.len() == 1).await;
    world.cluster.forget_events();
    world.tell("a", "x");
    world.wait("written anew", |events| events.len() == 1).await;
    assert_eq!(world.cluster.events()[0].count, 2);
    world.cluster.trouble(Ask::Event, Trouble::AnswerLost, 1);
    world.tell("b", "x");
    world.tell("c", "x");
    world.wait("the next is written", |events| events.len() == 3).await;
    assert_eq!(world.cluster.asked(Ask::Event), ["a", "a", "b", "b", "c"]);
}

// behaviour: EVT-11
#[tokio::test(start_paused = true)]
async fn when_too_many_wait_the_newest_are_dropped_and_counted() {
    let world = world();
    world.cluster.trouble(Ask::Event, Trouble::Unreachable, 1);
    let begun = Instant::now();
    // None can be written before this test waits.
    for number in 0..MOST_WAITING + 7 {
        world.tell(&format!("pod-{number}"), "x");
    }
    assert_eq!(begun.elapsed(), Duration::ZERO);
    assert_eq!(world.dropped("queue-full"), 7);
    world.wait("the others are written", |events| events.len() == MOST_WAITING).await;
    let last = world.cluster.events().pop().unwrap();
    assert_eq!(last.about.name, format!("pod-{}", MOST_WAITING - 1));
}

// behaviour: EVT-5
#[tokio::test(start_paused = true)]
async fn too_many_about_one_object_are_counted_as_dropped() {
    let world = world();
    for _ in 0..30 {
        world.tell("a", "x");
    }
    world.wait("the burst", |events| events.first().is_some_and(|event| event.count == 25)).await;
    world.tell("b", "x");
    world.wait("the other", |events| events.len() == 2).await;
    assert_eq!(world.dropped("too-many"), 5);
}
