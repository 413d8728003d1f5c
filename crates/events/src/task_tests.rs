use std::sync::Arc;
use std::time::Duration;

use model::cluster::ClusterEvent;
use model::ids::PodName;
use model::ports::events::{EventType, Events, NodeEvent, NodeEvents, PodEvent};
use prometheus::Registry;
use prometheus::proto::{Metric, MetricFamily};
use testkit::clock::VirtualClock;
use testkit::cluster::{ApiCall, CallFault, MemoryCluster};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, timeout};
use tokio_util::sync::CancellationToken;

use crate::handle::MOST_WAITING;
use crate::{ApiEvents, Metrics, channel};

struct Harness {
    cluster: MemoryCluster,
    events: ApiEvents,
    registry: Registry,
    stop: CancellationToken,
    tasks: JoinSet<()>,
}

fn harness() -> Harness {
    let cluster = MemoryCluster::new(VirtualClock::new());
    let registry = Registry::new();
    let metrics = Metrics::new(&registry).unwrap();
    let (events, writer) = channel("node-1", Arc::new(cluster.clock()), metrics);
    let mut tasks = JoinSet::new();
    let stop = CancellationToken::new();
    tasks.spawn(writer.run(Arc::new(cluster.clone()), stop.clone()));
    Harness { cluster, events, registry, stop, tasks }
}

fn about(pod: &str, message: &str) -> PodEvent {
    PodEvent {
        pod_uid: format!("uid-of-{pod}").into(),
        pod: PodName::new("ns", pod),
        field_path: "spec.containers{main}".into(),
        kind: EventType::Warning,
        reason: "Failed".into(),
        message: message.to_owned(),
        annotations: Vec::new(),
    }
}

impl Harness {
    fn record(&self, pod: &str, message: &str) {
        Events::record(&self.events, about(pod, message));
    }

    /// Waits up to ten minutes for the events on the server.
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
async fn event_is_written_once_and_then_counted() {
    let harness = harness();
    for _ in 0..3 {
        harness.record("a", "x");
        sleep(Duration::from_secs(1)).await;
    }
    harness.wait("counted", |events| events.len() == 1 && events[0].count == 3).await;
    let event = &harness.cluster.events()[0];
    assert_eq!((event.about.kind, &*event.about.namespace, &*event.about.name), ("Pod", "ns", "a"));
    assert_eq!(event.about.uid.to_string(), "uid-of-a");
    assert_eq!(event.about.field_path, "spec.containers{main}");
    assert_eq!(event.at.duration_since(event.first).as_secs(), 2);
    assert_eq!(harness.cluster.calls_of(ApiCall::Event).len(), 1);
    assert_eq!(harness.cluster.calls_of(ApiCall::CountEvent).len(), 2);
    assert_eq!(harness.count("ferrolet_events_written_total", None), 3);
}

// behaviour: EVT-14
#[tokio::test(start_paused = true)]
async fn event_is_written_after_half_a_second_or_when_the_agent_stops() {
    let mut harness = harness();
    harness.record("a", "x");
    sleep(Duration::from_millis(490)).await;
    assert_eq!(harness.cluster.events().len(), 0);
    sleep(Duration::from_millis(20)).await;
    assert_eq!(harness.cluster.events().len(), 1);
    for pod in ["b", "c"] {
        harness.record(pod, "x");
    }
    // The writer already waits for the first of them.
    sleep(Duration::from_millis(100)).await;
    let begun = Instant::now();
    harness.stop.cancel();
    harness.tasks.join_next().await;
    assert_eq!((harness.cluster.events().len(), begun.elapsed()), (3, Duration::ZERO));
}

// behaviour: EVT-14
#[tokio::test(start_paused = true)]
async fn stopping_agent_does_not_wait_for_the_server() {
    let mut harness = harness();
    harness.cluster.inject_fault(ApiCall::Event, CallFault::Unreachable, 100);
    harness.record("a", "x");
    let begun = Instant::now();
    harness.stop.cancel();
    harness.tasks.join_next().await;
    assert_eq!(begun.elapsed(), Duration::from_secs(1));
}

// behaviour: EVT-10
#[tokio::test(start_paused = true)]
async fn node_events_refer_to_the_node_by_name() {
    let harness = harness();
    let event = NodeEvent {
        kind: EventType::Normal,
        reason: "Starting",
        message: "Starting kubelet.".to_owned(),
    };
    NodeEvents::record(&harness.events, event);
    harness.wait("written", |events| events.len() == 1).await;
    let event = &harness.cluster.events()[0];
    assert_eq!((event.about.kind, &*event.about.name), ("Node", "node-1"));
    assert_eq!(event.about.namespace, "");
    assert!(!event.is_warning);
}

// behaviour: EVT-6, EVT-11
#[tokio::test(start_paused = true)]
async fn unreachable_server_is_retried_without_blocking_recorders() {
    let harness = harness();
    for call in [ApiCall::Event, ApiCall::CountEvent] {
        harness.cluster.inject_fault(call, CallFault::Unreachable, 11);
    }
    let begun = Instant::now();
    harness.record("a", "x");
    harness.record("a", "x");
    harness.record("b", "x");
    assert_eq!(begun.elapsed(), Duration::ZERO);
    harness.wait("all written", |events| events.len() == 2 && events[0].count == 2).await;
    // One spread pause and ten full ones for each of the two failed events.
    let took = begun.elapsed().as_secs();
    assert!((200..=220).contains(&took), "{took}");
    assert_eq!(harness.count("ferrolet_events_dropped_total", None), 0);
}

// behaviour: EVT-6
#[tokio::test(start_paused = true)]
async fn event_is_dropped_after_twelve_attempts_and_the_next_is_written() {
    let harness = harness();
    harness.cluster.inject_fault(ApiCall::Event, CallFault::Unreachable, 12);
    harness.record("a", "x");
    harness.record("b", "x");
    harness.wait("the second is written", |events| events.len() == 1).await;
    assert_eq!(harness.cluster.events()[0].about.name, "b");
    assert_eq!(harness.dropped("given-up"), 1);
}

// behaviour: EVT-7
#[tokio::test(start_paused = true)]
async fn rejected_event_is_not_retried() {
    let harness = harness();
    // As in a terminating namespace.
    harness.cluster.inject_fault(ApiCall::Event, CallFault::Refused(403), 1);
    harness.record("a", "x");
    harness.record("b", "x");
    harness.wait("the second is written", |events| events.len() == 1).await;
    assert_eq!(harness.cluster.calls_of(ApiCall::Event), ["a", "b"]);
    assert_eq!(harness.dropped("refused"), 1);
}

// behaviour: EVT-8
#[tokio::test(start_paused = true)]
async fn expired_event_is_created_again() {
    let harness = harness();
    harness.record("a", "x");
    harness.wait("written", |events| events.len() == 1).await;
    harness.cluster.forget_events();
    harness.record("a", "x");
    harness.wait("created again", |events| events.len() == 1).await;
    assert_eq!(harness.cluster.events()[0].count, 2);
    harness.cluster.inject_fault(ApiCall::Event, CallFault::AnswerLost, 1);
    harness.record("b", "x");
    harness.record("c", "x");
    harness.wait("the next is written", |events| events.len() == 3).await;
    assert_eq!(harness.cluster.calls_of(ApiCall::Event), ["a", "a", "b", "b", "c"]);
}

// behaviour: EVT-11
#[tokio::test(start_paused = true)]
async fn newest_events_are_dropped_and_counted_when_the_queue_is_full() {
    let harness = harness();
    harness.cluster.inject_fault(ApiCall::Event, CallFault::Unreachable, 1);
    let begun = Instant::now();
    // No event can be written before this test awaits.
    for number in 0..MOST_WAITING + 7 {
        harness.record(&format!("pod-{number}"), "x");
    }
    assert_eq!(begun.elapsed(), Duration::ZERO);
    assert_eq!(harness.dropped("queue-full"), 7);
    harness.wait("the others are written", |events| events.len() == MOST_WAITING).await;
    let last = harness.cluster.events().pop().unwrap();
    assert_eq!(last.about.name, format!("pod-{}", MOST_WAITING - 1));
}

// behaviour: EVT-5
#[tokio::test(start_paused = true)]
async fn events_above_the_rate_limit_of_an_object_are_counted_as_dropped() {
    let harness = harness();
    for _ in 0..30 {
        harness.record("a", "x");
    }
    harness.wait("the burst", |events| events.first().is_some_and(|event| event.count == 25)).await;
    harness.record("b", "x");
    harness.wait("the other", |events| events.len() == 2).await;
    assert_eq!(harness.dropped("too-many"), 5);
}
