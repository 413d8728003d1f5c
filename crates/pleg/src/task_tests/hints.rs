//! The event stream of the runtime, and the calls that it saves.

use std::time::Duration;

use model::ids::ObjectId;
use model::lifecycle::LifecycleEvent::{Died, Removed, Started};
use model::ports::runtime::{
    Code, ContainerEvent, ContainerEventKind, ContainerService, SandboxService,
};
use model::verdict::Subject;
use testkit::runtime::{EventFault, EventRule, Fault, Method, Rule};
use testkit::wanted;
use tokio::time::Instant;

use super::node::{
    FOREVER, Node, container, millis, relist_of, run, runtime, sandbox, seconds, uid,
};
use crate::{Relist, Settings};

const LISTS: [Method; 2] = [Method::ListPodSandbox, Method::ListContainers];

// behaviour: PLEG-41
#[tokio::test(start_paused = true)]
async fn container_death_event_is_handled_at_once_with_three_filtered_calls() {
    let runtime = runtime();
    let (_, main) = run(&runtime, "web", FOREVER).await;
    let mut node = Node::with(&runtime, Settings::default());
    node.next_events("web").await;
    node.at(seconds(10)).await;
    runtime.forget_calls();
    runtime.kill_container(&main, 1);
    assert_eq!(node.next_events("web").await, [Died(container(&main))]);
    assert!(node.elapsed() < seconds(10) + millis(50), "{:?}", node.elapsed());
    let calls = runtime.calls();
    assert_eq!(calls.len(), 3, "{calls:?}");
    let unfiltered = calls.iter().filter(|call| LISTS.contains(&call.method));
    for call in unfiltered {
        assert_eq!(call.object, uid("web").to_string());
    }
}

// behaviour: PLEG-52
#[tokio::test(start_paused = true)]
async fn starts_and_removals_of_an_in_flight_pod_are_inspected_once_within_a_second() {
    let runtime = runtime();
    let mut node = Node::with(&runtime, Settings::default());
    let soon = |node: &Node, time: Duration| (time..time + millis(50)).contains(&node.elapsed());
    node.at(seconds(10)).await;
    runtime.forget_calls();
    let act = node.in_flight.begin(&uid("web"));
    let (web, main) = run(&runtime, "web", FOREVER).await;
    assert_eq!(node.next_events("web").await, [Started(container(&main)), Started(sandbox(&web))]);
    assert!(soon(&node, seconds(11)), "{:?}", node.elapsed());
    assert_eq!(runtime.count(Method::ListContainers), 1, "four hints, one list");
    runtime.kill_container(&main, 1);
    assert_eq!(node.next_events("web").await, [Died(container(&main))]);
    assert!(soon(&node, seconds(11)), "{:?}", node.elapsed());
    let removal = wanted::removal(Subject::Container(main.clone()));
    runtime.remove_container(&removal).await.unwrap();
    assert_eq!(node.next_events("web").await, [Removed(container(&main))]);
    assert!(soon(&node, seconds(12)), "{:?}", node.elapsed());
    runtime.stop_pod_sandbox(&web).await.unwrap();
    assert_eq!(node.next_events("web").await, [Died(sandbox(&web))]);
    assert!(soon(&node, seconds(12)), "{:?}", node.elapsed());
    drop(act);
    let removal = wanted::removal(Subject::Sandbox(web.clone()));
    runtime.remove_pod_sandbox(&removal).await.unwrap();
    assert_eq!(node.next_events("web").await, [Removed(sandbox(&web))]);
    assert!(soon(&node, seconds(12)), "{:?}", node.elapsed());
}

// behaviour: PLEG-52
#[tokio::test(start_paused = true)]
async fn event_causes_no_call_after_the_actor_inspected_the_pod() {
    let runtime = runtime();
    let node = Node::with(&runtime, Settings::default());
    node.at(seconds(10)).await;
    runtime.forget_calls();
    let act = node.in_flight.begin(&uid("web"));
    run(&runtime, "web", FOREVER).await;
    // The hints arrive.
    node.at(seconds(10) + millis(1)).await;
    drop(act);
    let action = node.seq.next();
    node.relist_pod("web");
    assert_eq!(node.newer_than("web", action).await.unwrap().containers.len(), 1);
    assert!(node.elapsed() < seconds(10) + millis(50), "{:?}", node.elapsed());
    node.at(seconds(20)).await;
    assert_eq!(runtime.count(Method::ListContainers), 1);
}

// behaviour: PLEG-52
#[tokio::test(start_paused = true)]
async fn event_during_an_inspection_does_not_count_as_observed() {
    let lists: [fn(&mut Relist); 2] = [|task| task.relist_pod(uid("web")), Relist::start_relist];
    for list in lists {
        let runtime = runtime();
        let (seq, registry) = Default::default();
        let mut task = relist_of(&runtime, Settings::default(), &seq, &registry).task;
        let _act = task.in_flight.begin(&uid("web"));
        let gone = || ContainerEvent {
            pod_uid: uid("web"),
            object: ObjectId::Container("gone".into()),
            kind: ContainerEventKind::Deleted,
        };
        task.on_event(gone());
        assert!(task.pending_events.is_empty(), "the container is not in the record");
        // The list may still contain the container.
        list(&mut task);
        task.on_event(gone());
        assert_eq!(task.pending_events.keys().collect::<Vec<_>>(), [&uid("web")]);
    }
}

// behaviour: PLEG-40, PLEG-44
#[tokio::test(start_paused = true)]
async fn thousand_idle_pods_cost_two_calls_a_minute() {
    let runtime = runtime();
    for pod in 0..1000 {
        run(&runtime, &format!("pod-{pod}"), FOREVER).await;
    }
    let mut node = Node::with(&runtime, Settings::default());
    node.next_events("pod-999").await;
    runtime.forget_calls();
    node.at(seconds(59)).await;
    assert_eq!(runtime.calls().len(), 0, "just listed");
    node.at(seconds(15 * 60)).await;
    let lists = runtime.count(Method::ListContainers);
    assert!((14..=15).contains(&lists), "{lists} lists in 15 minutes");
    assert_eq!(runtime.calls().len(), 2 * lists);
    assert_eq!(node.health.check(Instant::now()), Ok(()));
}

// behaviour: PLEG-43
#[tokio::test(start_paused = true)]
async fn hint_lost_after_fifteen_quiet_minutes_is_acted_on_within_62_seconds() {
    let runtime = runtime();
    let (_, main) = run(&runtime, "web", FOREVER).await;
    let mut node = Node::with(&runtime, Settings::default());
    node.next_events("web").await;
    let quiet = seconds(15 * 60 + 5);
    node.at(quiet).await;
    runtime.inject_on_events(EventRule::all(EventFault::Lose).once());
    runtime.kill_container(&main, 1);
    node.at(quiet + seconds(1)).await;
    let died = tokio::time::timeout(seconds(61), node.next_events("web")).await.unwrap();
    assert_eq!(died, [Died(container(&main))]);
}

// behaviour: PLEG-54
#[tokio::test(start_paused = true)]
async fn hung_stream_is_detected_and_the_runtime_relisted_every_second() {
    let runtime = runtime();
    let (_, first) = run(&runtime, "first", FOREVER).await;
    let (_, second) = run(&runtime, "second", FOREVER).await;
    let (_, third) = run(&runtime, "third", FOREVER).await;
    let mut node = Node::with(&runtime, Settings::default());
    for pod in ["first", "second", "third"] {
        node.next_events(pod).await;
    }
    node.at(seconds(70)).await;
    // The stream stays open, and nothing arrives on it.
    runtime.inject_on_events(EventRule::all(EventFault::Lose));
    runtime.kill_container(&first, 1);
    assert_eq!(node.next_events("first").await, [Died(container(&first))]);
    node.at(seconds(140)).await;
    let opened = runtime.count(Method::GetContainerEvents);
    assert!(opened >= 2, "opened {opened} times");
    runtime.kill_container(&second, 1);
    let died = tokio::time::timeout(seconds(2), node.next_events("second")).await.unwrap();
    assert_eq!(died, [Died(container(&second))]);
    // An event proves that the stream works again.
    runtime.clear_faults();
    runtime.kill_container(&third, 1);
    node.next_events("third").await;
    node.at(seconds(160)).await;
    runtime.forget_calls();
    node.at(seconds(210)).await;
    assert!(runtime.count(Method::ListContainers) <= 1);
}

// behaviour: PLEG-55
#[tokio::test(start_paused = true)]
async fn event_without_a_pod_wakes_the_relist() {
    let runtime = runtime();
    let (seq, registry) = Default::default();
    let mut task = relist_of(&runtime, Settings::default(), &seq, &registry).task;
    task.next = Some(Instant::now() + seconds(60));
    let object = ObjectId::Container("c1".into());
    let kind = ContainerEventKind::Stopped;
    task.on_event(ContainerEvent { pod_uid: "".into(), object, kind });
    assert_eq!(task.next, Some(Instant::now() + seconds(1)));
    assert!(task.pending_events.is_empty());
    // A list in progress may not show the change: the next one follows as soon.
    task.next = None;
    let object = ObjectId::Container("c1".into());
    task.on_event(ContainerEvent { pod_uid: "".into(), object, kind });
    assert!(task.list_again);
}

// behaviour: PLEG-54
#[tokio::test(start_paused = true)]
async fn pod_whose_status_cannot_be_read_does_not_make_the_stream_silent() {
    let runtime = runtime();
    let (_, main) = run(&runtime, "web", FOREVER).await;
    let mut node = Node::with(&runtime, Settings::default());
    node.next_events("web").await;
    node.at(seconds(70)).await;
    runtime.inject(Rule::on(Method::ContainerStatus, Fault::error(Code::Internal)));
    runtime.kill_container(&main, 1);
    node.at(seconds(250)).await;
    assert_eq!(runtime.count(Method::GetContainerEvents), 1, "the stream was reopened");
}

// behaviour: PLEG-28, PLEG-50
#[tokio::test(start_paused = true)]
async fn hung_runtime_with_an_open_stream_is_unhealthy_after_three_minutes() {
    let runtime = runtime();
    run(&runtime, "web", FOREVER).await;
    let mut node = Node::with(&runtime, Settings::default());
    node.next_events("web").await;
    node.at(seconds(15 * 60 + 5)).await;
    for method in LISTS {
        runtime.inject(Rule::on(method, Fault::hang()));
    }
    node.at(seconds(15 * 60 + 175)).await;
    assert_eq!(node.health.check(Instant::now()), Ok(()), "listed less than 3 minutes ago");
    node.at(seconds(15 * 60 + 182)).await;
    let error = node.health.check(Instant::now()).unwrap_err().to_string();
    assert!(error.starts_with("pleg was last seen active 3m"), "{error}");
    assert!(error.ends_with("ago; threshold is 3m0s"), "{error}");
}

// behaviour: PLEG-28, PLEG-50
#[tokio::test(start_paused = true)]
async fn failing_runtime_on_an_idle_node_is_unhealthy_after_three_minutes() {
    let runtime = runtime();
    run(&runtime, "web", FOREVER).await;
    let mut node = Node::with(&runtime, Settings::default());
    node.next_events("web").await;
    node.at(seconds(15 * 60 + 5)).await;
    assert_eq!(node.health.check(Instant::now()), Ok(()));
    for method in LISTS.into_iter().chain([Method::GetContainerEvents]) {
        runtime.inject(Rule::on(method, Fault::error(Code::Unavailable)));
    }
    runtime.end_event_streams(None);
    node.at(seconds(15 * 60 + 175)).await;
    assert_eq!(node.health.check(Instant::now()), Ok(()));
    node.at(seconds(15 * 60 + 190)).await;
    assert!(node.health.check(Instant::now()).is_err());
}

// behaviour: PLEG-42
#[tokio::test(start_paused = true)]
async fn relist_runs_every_second_when_the_stream_ends() {
    let runtime = runtime();
    let (_, main) = run(&runtime, "web", FOREVER).await;
    let mut node = Node::with(&runtime, Settings::default());
    node.next_events("web").await;
    node.at(seconds(30)).await;
    let fault = Fault::error(Code::Unavailable);
    runtime.inject(Rule::on(Method::GetContainerEvents, fault));
    runtime.end_event_streams(None);
    runtime.kill_container(&main, 1);
    assert_eq!(node.next_events("web").await, [Died(container(&main))]);
    assert!(node.elapsed() <= seconds(31) + millis(50), "{:?}", node.elapsed());
    runtime.forget_calls();
    node.at(seconds(61)).await;
    let lists = runtime.count(Method::ListContainers);
    assert!((28..=31).contains(&lists), "{lists}");
    runtime.clear_faults();
    node.at(seconds(120)).await;
    runtime.forget_calls();
    node.at(seconds(180)).await;
    assert!(runtime.count(Method::ListContainers) <= 1);
}

// behaviour: PLEG-47
#[tokio::test(start_paused = true)]
async fn failed_list_is_retried_within_a_second_with_the_stream_open() {
    let runtime = runtime();
    run(&runtime, "web", FOREVER).await;
    let fault = Fault::error(Code::DeadlineExceeded).after(seconds(2));
    runtime.inject(Rule::on(Method::ListPodSandbox, fault).once());
    let mut node = Node::with(&runtime, Settings::default());
    node.next_events("web").await;
    assert!(node.elapsed() <= seconds(3) + millis(50), "{:?}", node.elapsed());
    node.at(seconds(10)).await;
    runtime.forget_calls();
    node.at(seconds(60)).await;
    assert_eq!(runtime.count(Method::ListContainers), 0, "it has been listed");
}

// behaviour: PLEG-43
#[tokio::test(start_paused = true)]
async fn next_relist_finds_the_change_of_a_lost_event() {
    let runtime = runtime();
    let (_, main) = run(&runtime, "web", FOREVER).await;
    let mut node = Node::with(&runtime, Settings::default());
    node.next_events("web").await;
    node.at(seconds(5)).await;
    runtime.inject_on_events(EventRule::all(EventFault::Lose).once());
    runtime.kill_container(&main, 1);
    assert_eq!(node.next_events("web").await, [Died(container(&main))]);
    assert!(node.elapsed() <= seconds(62), "{:?}", node.elapsed());
}

// behaviour: PLEG-29
#[tokio::test(start_paused = true)]
async fn relist_does_not_wait_for_the_reader_of_events() {
    let runtime = runtime();
    let (_, main) = run(&runtime, "web", FOREVER).await;
    let mut node = Node::with(&runtime, Settings { hints: false, ..Settings::default() });
    node.next_events("web").await;
    runtime.kill_container(&main, 1);
    // No reader for an hour.
    node.at(seconds(3600)).await;
    assert_eq!(node.health.check(Instant::now()), Ok(()));
    assert!(runtime.count(Method::ListContainers) >= 3500);
    assert_eq!(node.next_events("web").await, [Died(container(&main))]);
}

// behaviour: PLEG-45
#[tokio::test(start_paused = true)]
async fn stream_is_not_opened_when_disabled() {
    let runtime = runtime();
    run(&runtime, "web", FOREVER).await;
    let mut node = Node::with(&runtime, Settings { hints: false, ..Settings::default() });
    node.next_events("web").await;
    node.at(seconds(600)).await;
    assert_eq!(runtime.count(Method::GetContainerEvents), 0);
}

// behaviour: PLEG-31
#[tokio::test(start_paused = true)]
async fn metrics_have_upstream_names() {
    let runtime = runtime();
    run(&runtime, "web", FOREVER).await;
    let mut node = Node::with(&runtime, Settings::default());
    node.next_events("web").await;
    node.at(seconds(70)).await;
    node.relist_pod("web");
    node.newer_than("web", node.seq.next()).await.unwrap();
    runtime.end_event_streams(None);
    node.at(seconds(80)).await;
    let text = prometheus::TextEncoder::new().encode_to_string(&node.registry.gather()).unwrap();
    let value = |name: &str| {
        let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
        line.unwrap_or_else(|| panic!("no {name}: {text}")).parse::<f64>().unwrap()
    };
    for counted in [
        "kubelet_pleg_relist_duration_seconds_count",
        "kubelet_pleg_relist_interval_seconds_count",
        "kubelet_pleg_pod_relist_duration_seconds_count",
        "kubelet_pleg_last_seen_seconds",
        "kubelet_running_pods",
        "kubelet_running_containers{container_state=\"running\"}",
        "kubelet_evented_pleg_connection_success_count",
        "kubelet_evented_pleg_connection_error_count",
        "kubelet_evented_pleg_connection_latency_seconds_count",
    ] {
        assert!(value(counted) > 0.0, "{counted}: {text}");
    }
    for state in ["created", "exited", "unknown"] {
        let name = format!("kubelet_running_containers{{container_state=\"{state}\"}}");
        assert!(value(&name).abs() < f64::EPSILON, "{name}: {text}");
    }
    assert!(value("kubelet_pleg_discard_events").abs() < f64::EPSILON, "none is ever dropped");
}
