//! Event streams: the times of events, and injected faults.

use std::time::Duration;

use futures_util::{FutureExt, StreamExt};
use model::ids::{ContainerId, ObjectId, SandboxId};
use model::ports::runtime::{
    Code, ContainerEvent, ContainerEventKind, ContainerEvents, ContainerService, RuntimeInfo,
    SandboxService,
};
use model::verdict::Subject;
use model::wanted::NamespaceMode;
use testkit::runtime::{EventFault, EventRule, Fault, MemoryRuntime, Method, Rule};
use testkit::wanted::{self, removal};
use tokio::task::JoinSet;
use tokio::time::{Instant, timeout};

use crate::setup::{IMAGE, pod, runtime, start, start_web};

use ContainerEventKind::{Created, Deleted, Started, Stopped};

const SECOND: Duration = Duration::from_secs(1);

async fn next(events: &mut ContainerEvents) -> ContainerEvent {
    timeout(60 * SECOND, events.next()).await.unwrap().unwrap().unwrap()
}

/// The items that can be read without waiting.
fn so_far(events: &mut ContainerEvents) -> Vec<(ObjectId, ContainerEventKind)> {
    let ready = std::iter::from_fn(|| events.next().now_or_never().flatten());
    ready.map(|event| event.unwrap()).map(|event| (event.object, event.kind)).collect()
}

fn container(id: &ContainerId) -> ObjectId {
    ObjectId::Container(id.clone())
}

fn sandbox(id: &SandboxId) -> ObjectId {
    ObjectId::Sandbox(id.clone())
}

/// Opens a stream, starts a container of the pod `web` and reads its events.
async fn listen_to_web(
    runtime: &MemoryRuntime,
    args: &[&str],
) -> (ContainerEvents, SandboxId, ContainerId) {
    let mut events = runtime.container_events().await.unwrap();
    let (box_id, id) = start_web(runtime, args).await;
    let expected = [
        (sandbox(&box_id), Created),
        (sandbox(&box_id), Started),
        (container(&id), Created),
        (container(&id), Started),
    ];
    assert_eq!(so_far(&mut events), expected);
    (events, box_id, id)
}

#[tokio::test(start_paused = true)]
async fn exit_event_is_sent_on_time_without_any_call() {
    let runtime = runtime();
    let (mut events, _, id) = listen_to_web(&runtime, &["sleep", "20s"]).await;
    let begun = Instant::now();
    let event = next(&mut events).await;
    assert_eq!(begun.elapsed(), 20 * SECOND);
    let expected =
        ContainerEvent { pod_uid: "uid-of-web".into(), object: container(&id), kind: Stopped };
    assert_eq!(event, expected);
}

/// Reads a stream in its own task, which only the stream wakes, until an exit event.
fn await_end(mut events: ContainerEvents) -> JoinSet<(ObjectId, Instant)> {
    let mut listening = JoinSet::new();
    listening.spawn(async move {
        loop {
            let event = events.next().await.unwrap().unwrap();
            if event.kind == Stopped {
                return (event.object, Instant::now());
            }
        }
    });
    listening
}

async fn ended(mut listening: JoinSet<(ObjectId, Instant)>) -> (ObjectId, Instant) {
    timeout(60 * SECOND, listening.join_next()).await.unwrap().unwrap().unwrap()
}

#[tokio::test(start_paused = true)]
async fn exit_event_of_an_abandoned_stop_is_sent_on_time() {
    let runtime = runtime();
    let args = ["trap", "TERM", "--delay", "9s"];
    let (events, _, id) = listen_to_web(&runtime, &args).await;
    let listening = await_end(events);
    tokio::time::sleep(SECOND).await;
    let requested = Instant::now();
    let stop = runtime.stop_container(&id, 30 * SECOND);
    timeout(SECOND, stop).await.unwrap_err();
    assert_eq!(ended(listening).await, (container(&id), requested + 9 * SECOND));
}

#[tokio::test(start_paused = true)]
async fn exit_event_is_sent_on_time_to_a_stream_opened_after_the_start() {
    let runtime = runtime();
    let (events, _, _) = listen_to_web(&runtime, &["sleep", "50s"]).await;
    let listening = await_end(events);
    tokio::time::sleep(SECOND).await;
    runtime.inject_on_events(EventRule::all(EventFault::Lose).kind(Started));
    let pod = pod("short");
    let config = wanted::container(&pod, "main", IMAGE, &["sleep", "2s"]);
    let (_, short) = start(&runtime, &pod, &config).await;
    let started = Instant::now();
    assert_eq!(ended(listening).await, (container(&short), started + 2 * SECOND));
}

#[tokio::test(start_paused = true)]
async fn exit_events_keep_their_order_when_polled_late() {
    let runtime = runtime();
    let (mut events, _, second) = listen_to_web(&runtime, &["sleep", "4s"]).await;
    let other = pod("other");
    let config = wanted::container(&other, "main", IMAGE, &["sleep", "2s"]);
    let (_, first) = start(&runtime, &other, &config).await;
    so_far(&mut events);
    tokio::time::sleep(10 * SECOND).await;
    let expected = [(container(&first), Stopped), (container(&second), Stopped)];
    assert_eq!(so_far(&mut events), expected);
}

#[tokio::test(start_paused = true)]
async fn test_actions_send_one_event() {
    let runtime = runtime();
    let (mut events, box_id, id) = listen_to_web(&runtime, &["sleep", "30s"]).await;
    assert!(runtime.kill_container(&id, 9));
    assert!(!runtime.oom_kill(&id));
    assert!(runtime.kill_sandbox(&box_id));
    let expected = [(container(&id), Stopped), (sandbox(&box_id), Stopped)];
    assert_eq!(so_far(&mut events), expected);
    tokio::time::sleep(60 * SECOND).await;
    runtime.stop_pod_sandbox(&box_id).await.unwrap();
    assert_eq!(so_far(&mut events), [], "all had ended");
}

#[tokio::test(start_paused = true)]
async fn sandbox_death_ends_containers_that_share_its_pid_namespace() {
    let runtime = runtime();
    let mut events = runtime.container_events().await.unwrap();
    let mut pod = pod("web");
    pod.pid = NamespaceMode::Pod;
    let mut config = wanted::container(&pod, "main", IMAGE, &["sleep", "forever"]);
    config.pid = NamespaceMode::Pod;
    let (box_id, id) = start(&runtime, &pod, &config).await;
    so_far(&mut events);
    assert!(runtime.kill_sandbox(&box_id));
    let expected = [(sandbox(&box_id), Stopped), (container(&id), Stopped)];
    assert_eq!(so_far(&mut events), expected);
}

#[tokio::test(start_paused = true)]
async fn failed_or_lost_container_sends_no_event_until_stopped() {
    let runtime = runtime();
    let (mut events, box_id, id) = listen_to_web(&runtime, &["sleep", "forever"]).await;
    let pod = pod("web");
    let mut missing = wanted::container(&pod, "missing", IMAGE, &[]);
    missing.command = vec!["/nothing".into()];
    let missing = runtime.create_container(&box_id, &missing, &pod).await.unwrap();
    runtime.start_container(&missing).await.unwrap_err();
    assert!(runtime.lose_container(&id));
    assert_eq!(so_far(&mut events), [(container(&missing), Created)]);
    runtime.stop_container(&id, SECOND).await.unwrap();
    assert_eq!(so_far(&mut events), [(container(&id), Stopped)]);
}

#[tokio::test(start_paused = true)]
async fn removal_sends_the_exit_event_before_the_removal_event() {
    let runtime = runtime();
    let (mut events, box_id, id) = listen_to_web(&runtime, &["sleep", "forever"]).await;
    let pod = pod("web");
    let config = wanted::container(&pod, "other", IMAGE, &["sleep", "forever"]);
    let other = runtime.create_container(&box_id, &config, &pod).await.unwrap();
    runtime.remove_container(&removal(Subject::Container(id.clone()))).await.unwrap();
    runtime.remove_pod_sandbox(&removal(Subject::Sandbox(box_id.clone()))).await.unwrap();
    let expected = [
        (container(&other), Created),
        (container(&id), Stopped),
        (container(&id), Deleted),
        (sandbox(&box_id), Stopped),
        (container(&other), Deleted),
        (sandbox(&box_id), Deleted),
    ];
    assert_eq!(so_far(&mut events), expected);
}

#[tokio::test(start_paused = true)]
async fn unread_events_are_kept_five_minutes_for_the_next_stream() {
    let runtime = runtime();
    let (box_id, id) = start_web(&runtime, &["sleep", "250s"]).await;
    tokio::time::sleep(301 * SECOND).await;
    let mut events = runtime.container_events().await.unwrap();
    assert_eq!(so_far(&mut events), [(container(&id), Stopped)]);
    drop(events);
    runtime.stop_pod_sandbox(&box_id).await.unwrap();
    let mut first = runtime.container_events().await.unwrap();
    let mut second = runtime.container_events().await.unwrap();
    assert_eq!(so_far(&mut first), [(sandbox(&box_id), Stopped)]);
    assert_eq!(so_far(&mut second), [], "the first stream received it");
    drop((first, second));
    runtime.remove_pod_sandbox(&removal(Subject::Sandbox(box_id))).await.unwrap();
    runtime.forget_events();
    assert_eq!(so_far(&mut runtime.container_events().await.unwrap()), []);
}

#[tokio::test(start_paused = true)]
async fn event_faults_lose_duplicate_and_delay_events_on_all_streams() {
    let runtime = runtime();
    let (mut one, _, id) = listen_to_web(&runtime, &["sleep", "forever"]).await;
    let mut two = runtime.container_events().await.unwrap();
    runtime.inject_on_events(EventRule::all(EventFault::Lose).pod("uid-of-lost"));
    runtime.inject_on_events(EventRule::all(EventFault::Duplicate).kind(Stopped).once());
    runtime.inject_on_events(EventRule::all(EventFault::Delay(7 * SECOND)).kind(Created));
    start(&runtime, &pod("lost"), &wanted::container(&pod("lost"), "main", IMAGE, &["exit", "0"]))
        .await;
    runtime.kill_container(&id, 1);
    let box_id = runtime.run_pod_sandbox(&pod("late")).await.unwrap();
    let begun = Instant::now();
    for events in [&mut one, &mut two] {
        let expected =
            [(container(&id), Stopped), (container(&id), Stopped), (sandbox(&box_id), Started)];
        assert_eq!(so_far(events), expected);
    }
    let late = next(&mut one).await;
    assert_eq!((late.object, late.kind), (sandbox(&box_id), Created));
    assert_eq!(begun.elapsed(), 7 * SECOND);
    assert_eq!(so_far(&mut two), [(sandbox(&box_id), Created)]);
    runtime.clear_faults();
    let again = runtime.run_pod_sandbox(&pod("lost again")).await.unwrap();
    let expected = [(sandbox(&again), Created), (sandbox(&again), Started)];
    assert_eq!(so_far(&mut one), expected);
}

#[tokio::test(start_paused = true)]
async fn test_can_end_a_stream_with_or_without_an_error() {
    let runtime = runtime();
    for code in [None, Some(Code::Unavailable)] {
        let mut events = runtime.container_events().await.unwrap();
        let box_id = runtime.run_pod_sandbox(&pod(&format!("{code:?}"))).await.unwrap();
        let (items, ()) = tokio::join!(events.by_ref().collect::<Vec<_>>(), async {
            tokio::time::sleep(SECOND).await;
            runtime.end_event_streams(code);
        });
        let (before, rest) = items.split_at(2);
        assert!(
            before.iter().flatten().all(|event| event.object == sandbox(&box_id)),
            "{before:?}"
        );
        let codes: Vec<_> = rest.iter().map(|end| end.as_ref().unwrap_err().code).collect();
        assert_eq!(codes, Vec::from_iter(code));
        assert!(events.next().await.is_none(), "the stream stays ended");
    }
    assert_eq!(runtime.count(Method::GetContainerEvents), 2);
}

#[tokio::test(start_paused = true)]
async fn stream_open_can_be_refused_and_shutdown_ends_all_streams() {
    let runtime = runtime();
    let fault = Fault::error(Code::Unimplemented);
    runtime.inject(Rule::on(Method::GetContainerEvents, fault).once());
    let error = runtime.container_events().await.err().unwrap();
    assert_eq!((error.method, error.code), ("GetContainerEvents", Code::Unimplemented));
    let mut events = runtime.container_events().await.unwrap();
    let mut listening = JoinSet::new();
    listening.spawn(async move { events.next().await });
    tokio::time::sleep(SECOND).await;
    drop(runtime);
    let end = timeout(60 * SECOND, listening.join_next()).await.unwrap();
    assert!(end.unwrap().unwrap().is_none());
}
