//! Single-pod relists, and their interaction with full relists.

use futures_util::StreamExt as _;
use model::ids::{ContainerId, PodUid};
use model::lifecycle::LifecycleEvent::{Died, Removed, Started};
use model::observed::{ContainerState, RuntimePodStatus};
use model::ports::runtime::{Code, ContainerService, SandboxService};
use model::seq::Seq;
use model::verdict::Subject;
use model::wanted::LinuxResources;
use testkit::runtime::{Call, Fault, MemoryRuntime, Method, Rule};
use testkit::wanted;
use tokio_test::{assert_pending, task};

use super::node::{
    FOREVER, IMAGE, Node, Watched, container, eventually, millis, pod, relist_of, run, runtime,
    sandbox, seconds, start, uid, web,
};
use crate::Settings;
use crate::cache::Observation;
use crate::task::Relist;

/// A full list that is answered late with the state at its request.
fn late_relist(millis_late: u64) -> Rule {
    Rule::on(Method::ListContainers, Fault::late_answer(millis(millis_late))).object("").once()
}

/// Like `late_relist`, for a single-pod relist.
fn late_pod_relist(pod: &str, millis_late: u64) -> Rule {
    let fault = Fault::late_answer(millis(millis_late));
    Rule::on(Method::ListContainers, fault).object(uid(pod).as_str()).once()
}

fn calls(runtime: &MemoryRuntime) -> Vec<(Method, String)> {
    let call = |Call { method, object, .. }| (method, object);
    runtime.calls().into_iter().map(call).collect()
}

/// The state of a pod's only container.
fn state(observation: &Observation) -> ContainerState {
    let status = observation.as_ref().unwrap();
    assert_eq!(status.containers.len(), 1);
    status.containers[0].state
}

#[tokio::test(start_paused = true)]
async fn single_pod_relist_reports_a_change_before_the_next_full_relist() {
    let runtime = runtime();
    let (_, main) = run(&runtime, "web", FOREVER).await;
    for number in 0..20 {
        run(&runtime, &format!("other-{number}"), FOREVER).await;
    }
    let mut node = Node::watching(&runtime);
    node.next_events("web").await;
    node.at(millis(300)).await;
    runtime.kill_container(&main, 1);
    runtime.forget_calls();
    node.relist_pod("web");
    assert_eq!(node.next_events("web").await, [Died(container(&main))]);
    assert_eq!(node.elapsed(), millis(300));
    assert_eq!(state(&node.cache.get(&uid("web"))), ContainerState::Exited);
    let filtered = uid("web").to_string();
    let expected = [
        (Method::ListPodSandbox, filtered.clone()),
        (Method::ListContainers, filtered),
        (Method::ContainerStatus, main.to_string()),
    ];
    assert_eq!(calls(&runtime), expected);
}

#[tokio::test(start_paused = true)]
async fn unchanged_single_pod_relist_wakes_the_waiter_with_two_calls() {
    let Watched { runtime, node, .. } = web().await;
    node.at(millis(300)).await;
    runtime.forget_calls();
    let action = node.seq.next();
    node.relist_pod("web");
    node.relist_pod("web");
    assert_eq!(state(&node.newer_than("web", action).await), ContainerState::Running);
    assert_eq!(node.elapsed(), millis(300));
    assert_eq!(runtime.calls().len(), 2);
    node.relist_pod("absent");
    let absent = node.newer_than("absent", node.seq.next()).await;
    assert_eq!(*absent.unwrap(), RuntimePodStatus::empty(uid("absent")));
}

// behaviour: PLEG-33
#[tokio::test(start_paused = true)]
async fn absent_pod_is_known_after_a_single_pod_relist() {
    let runtime = runtime();
    let minutely = Settings { relist_period: seconds(60), hints: false, ..Settings::default() };
    let node = Node::with(&runtime, minutely);
    node.newer_than("web", Seq::START).await.unwrap();
    // As after a failed sandbox creation.
    let action = node.seq.next();
    node.relist_pod("web");
    node.at(seconds(12)).await;
    let status = node.newer_than("web", action).await;
    assert_eq!(*status.unwrap(), RuntimePodStatus::empty(uid("web")));
    assert_eq!(node.elapsed(), seconds(12));
}

// behaviour: PLEG-26
#[tokio::test(start_paused = true)]
async fn relist_that_began_before_an_action_is_not_newer() {
    let Watched { runtime, node, main, .. } = web().await;
    runtime.inject(late_relist(500));
    node.at(millis(1200)).await;
    runtime.kill_container(&main, 1);
    let action = node.seq.next();
    assert_eq!(state(&node.newer_than("web", action).await), ContainerState::Exited);
    // From the end of the late one, which began at 1 s and ended at 1.5 s.
    assert_eq!(node.elapsed(), millis(2500));
}

// behaviour: PLEG-24
#[tokio::test(start_paused = true)]
async fn outdated_relist_does_not_revert_the_pod() {
    let Watched { runtime, mut node, main, .. } = web().await;
    runtime.inject(late_relist(500));
    node.at(millis(1200)).await;
    runtime.kill_container(&main, 1);
    node.relist_pod("web");
    assert_eq!(node.next_events("web").await, [Died(container(&main))]);
    assert_eq!(node.elapsed(), millis(1200));
    node.expect_no_events_for(seconds(5)).await;
    assert_eq!(state(&node.cache.get(&uid("web"))), ContainerState::Exited);
}

#[tokio::test(start_paused = true)]
async fn outdated_relist_does_not_restore_a_removed_pod() {
    let Watched { runtime, mut node, web, main } = web().await;
    runtime.inject(late_relist(500));
    node.at(millis(1200)).await;
    runtime.remove_pod_sandbox(&wanted::removal(Subject::Sandbox(web.clone()))).await.unwrap();
    node.relist_pod("web");
    let (main, web) = (container(&main), sandbox(&web));
    let events = [Died(main.clone()), Removed(main), Died(web.clone()), Removed(web)];
    assert_eq!(node.next_events("web").await, events);
    node.expect_no_events_for(seconds(5)).await;
    // A later pod with the same UID is reported.
    let (web, main) = run(&runtime, "web", FOREVER).await;
    assert_eq!(node.next_events("web").await, [Started(container(&main)), Started(sandbox(&web))]);
}

#[tokio::test(start_paused = true)]
async fn relist_that_skips_a_pod_does_not_refresh_it() {
    let Watched { runtime, node, main, .. } = web().await;
    node.at(millis(500)).await;
    // The single-pod relist lists the running container, and is not answered when the relist at 1 s begins.
    runtime.inject(late_pod_relist("web", 1000));
    node.relist_pod("web");
    node.at(millis(600)).await;
    runtime.kill_container(&main, 1);
    let action = node.seq.next();
    assert_eq!(state(&node.newer_than("web", action).await), ContainerState::Exited);
    // The relist caused another single-pod relist after the first one.
    assert_eq!(node.elapsed(), millis(1500));
}

#[tokio::test(start_paused = true)]
async fn inspection_has_the_time_of_its_list() {
    let Watched { runtime, node, web, main } = web().await;
    node.at(millis(500)).await;
    let extra = start(&runtime, &web, "web", "extra", &["exit", "0"]).await;
    let fault = Fault::late_answer(millis(1000));
    runtime.inject(Rule::on(Method::ContainerStatus, fault).object(extra.as_str()).once());
    node.relist_pod("web");
    node.at(millis(600)).await;
    runtime.kill_container(&main, 1);
    let status = node.newer_than("web", node.seq.next()).await.unwrap();
    assert_eq!(status.latest("main").unwrap().state, ContainerState::Exited);
    assert_eq!(node.elapsed(), millis(1500));
}

#[tokio::test(start_paused = true)]
async fn request_for_a_busy_pod_leads_to_a_second_inspection() {
    let Watched { runtime, mut node, web, main } = web().await;
    node.at(millis(100)).await;
    runtime.kill_container(&main, 1);
    runtime.inject(Rule::on(Method::ContainerStatus, Fault::late_answer(millis(300))).once());
    node.relist_pod("web");
    node.at(millis(200)).await;
    let second = start(&runtime, &web, "web", "second", FOREVER).await;
    node.relist_pod("web");
    let events = [Died(container(&main)), Started(container(&second))];
    assert_eq!(node.next_events("web").await, events);
    assert_eq!(node.elapsed(), millis(400));
}

#[tokio::test(start_paused = true)]
async fn failed_single_pod_relist_leaves_the_pod_to_the_next_relist() {
    let Watched { runtime, mut node, main, .. } = web().await;
    node.at(millis(300)).await;
    let fault = Fault::error(Code::Unavailable);
    runtime.inject(Rule::on(Method::ListContainers, fault).once());
    runtime.kill_container(&main, 1);
    node.relist_pod("web");
    assert_eq!(state(&node.newer_than("web", node.seq.next()).await), ContainerState::Exited);
    assert_eq!(node.elapsed(), seconds(1));
    assert_eq!(node.next_events("web").await, [Died(container(&main))]);
}

#[tokio::test(start_paused = true)]
async fn failed_single_pod_relist_after_a_skipping_relist_refreshes_nothing() {
    let Watched { runtime, node, main, .. } = web().await;
    node.at(millis(900)).await;
    let fault = Fault::error(Code::Unavailable).after(millis(300));
    runtime.inject(Rule::on(Method::ListContainers, fault).once());
    runtime.kill_container(&main, 1);
    node.relist_pod("web");
    assert_eq!(state(&node.newer_than("web", node.seq.next()).await), ContainerState::Exited);
    assert_eq!(node.elapsed(), millis(1200));
}

#[tokio::test(start_paused = true)]
async fn each_waiter_gets_a_status_that_is_new_enough() {
    let Watched { runtime, node, main, .. } = web().await;
    let id = uid("web");
    let early = node.seq.next();
    runtime.inject(late_relist(500));
    node.at(millis(1200)).await;
    let late = node.seq.next();
    runtime.kill_container(&main, 1);
    {
        let mut gave_up = task::spawn(node.cache.newer_than(&id, late));
        assert_pending!(gave_up.poll());
    }
    let mut waits = task::spawn(node.cache.newer_than(&id, late));
    assert_pending!(waits.poll());
    let seen: ContainerId = node.newer_than("web", early).await.unwrap().containers[0].id.clone();
    assert_eq!((seen, node.elapsed()), (main, millis(1500)));
    assert_pending!(waits.poll());
    assert_eq!(state(&waits.await), ContainerState::Exited);
    assert_eq!(node.elapsed(), millis(2500));
}

// behaviour: PLEG-49
#[tokio::test(start_paused = true)]
async fn only_the_newest_of_many_dead_instances_are_inspected() {
    let Watched { runtime, mut node, web, main } = web().await;
    let mut dead = Vec::new();
    for attempt in 1..=20 {
        let mut config = wanted::container(&pod("web"), "main", IMAGE, FOREVER);
        config.attempt = attempt;
        let id = runtime.create_container(&web, &config, &pod("web")).await.unwrap();
        runtime.start_container(&id).await.unwrap();
        runtime.kill_container(&id, 1);
        dead.insert(0, id);
    }
    runtime.forget_calls();
    assert_eq!(node.next_events("web").await.len(), 20);
    assert_eq!(runtime.count(Method::ContainerStatus), 2);
    let known = |node: &Node| {
        let status = node.cache.get(&uid("web")).unwrap();
        let close: Vec<_> = status.containers.iter().map(|one| one.id.clone()).collect();
        let older: Vec<_> = status.older.iter().map(|one| one.id.clone()).collect();
        (close, older)
    };
    let close = vec![dead[0].clone(), dead[1].clone(), main.clone()];
    assert_eq!(known(&node), (close, dead[2..].to_vec()));

    let removal = wanted::removal(Subject::Container(dead[0].clone()));
    runtime.remove_container(&removal).await.unwrap();
    assert_eq!(node.next_events("web").await, [Removed(container(&dead[0]))]);
    assert_eq!(runtime.count(Method::ContainerStatus), 3);
    let close = vec![dead[1].clone(), dead[2].clone(), main.clone()];
    assert_eq!(known(&node), (close, dead[3..].to_vec()));

    // A container that is not found twice is replaced by the next one as well.
    let gone = Fault::error(Code::NotFound);
    runtime.inject(Rule::on(Method::ContainerStatus, gone).object(dead[3].as_str()).times(2));
    let removal = wanted::removal(Subject::Container(dead[1].clone()));
    runtime.remove_container(&removal).await.unwrap();
    assert_eq!(node.next_events("web").await, [Removed(container(&dead[1]))]);
    let close = vec![dead[2].clone(), dead[4].clone(), main];
    assert_eq!(known(&node), (close, dead[5..].to_vec()));
}

// behaviour: GC-29
#[tokio::test(start_paused = true)]
async fn containers_without_a_pod_uid_are_neither_inspected_nor_live() {
    let Watched { runtime, mut node, web, main } = web().await;
    runtime.forget_calls();
    let mut config = wanted::container(&pod("web"), "bare", IMAGE, FOREVER);
    config.labels.clear();
    let bare = runtime.create_container(&web, &config, &pod("web")).await.unwrap();
    runtime.start_container(&bare).await.unwrap();
    let absent = PodUid::from("");
    assert_eq!(node.next_events_of(&absent).await, [Started(container(&bare))]);
    let status = node.cache.get(&absent).unwrap();
    assert_eq!(status.instances().map(|one| one.id).collect::<Vec<_>>(), [&bare]);
    assert_eq!(node.cache.live(&absent), None);
    assert_eq!(node.cache.all_live().keys().cloned().collect::<Vec<_>>(), [uid("web")]);
    // A single-pod relist returns the same status.
    let action = node.seq.next();
    node.requests.mark(&absent, []);
    let again = node.cache.newer_than(&absent, action).await.unwrap();
    assert_eq!(again, status);
    runtime.kill_container(&bare, 1);
    assert_eq!(node.next_events_of(&absent).await, [Died(container(&bare))]);
    assert_eq!(state(&node.cache.get(&uid("web"))), ContainerState::Running);
    runtime.remove_container(&wanted::removal(Subject::Container(bare.clone()))).await.unwrap();
    assert_eq!(node.next_events_of(&absent).await, [Removed(container(&bare))]);
    assert_eq!(node.cache.get(&uid("web")).unwrap().containers[0].id, main);
    assert_eq!(runtime.count(Method::ContainerStatus), 0);
}

// behaviour: PLEG-51
#[tokio::test(start_paused = true)]
async fn stale_request_rereads_a_status_that_the_list_shows_unchanged() {
    let Watched { runtime, node, main, .. } = web().await;
    let limit = |observation: Observation| memory_limit(&observation);
    node.at(millis(300)).await;
    let resources = LinuxResources { memory_limit: 4096, ..LinuxResources::default() };
    runtime.update_container_resources(&main, &resources).await.unwrap();
    let action = node.seq.next();
    node.relist_pod("web");
    assert_eq!(limit(node.newer_than("web", action).await), None, "its state is unchanged");
    let action = node.seq.next();
    node.requests.mark(&uid("web"), [()]);
    assert_eq!(limit(node.newer_than("web", action).await), Some(4096));
    runtime.forget_calls();
    let action = node.seq.next();
    node.relist_pod("web");
    assert_eq!(limit(node.newer_than("web", action).await), Some(4096));
    assert_eq!(runtime.calls().len(), 2, "once is enough");
}

/// The memory limit of a pod's only container in the cache.
fn memory_limit(observation: &Observation) -> Option<i64> {
    let status = observation.as_ref().unwrap();
    status.containers[0].resources.and_then(|resources| resources.memory_limit)
}

// behaviour: PLEG-51
#[tokio::test(start_paused = true)]
async fn stale_pod_is_reread_by_the_next_relist_when_the_read_fails() {
    let Watched { runtime, node, main, .. } = web().await;
    node.at(millis(300)).await;
    let resources = LinuxResources { memory_limit: 4096, ..LinuxResources::default() };
    runtime.update_container_resources(&main, &resources).await.unwrap();
    let fault = Fault::error(Code::Unavailable);
    runtime.inject(Rule::on(Method::ListContainers, fault).object(uid("web").as_str()).once());
    node.requests.mark(&uid("web"), [()]);
    let limit = || memory_limit(&node.cache.get(&uid("web")));
    eventually("it is read", || limit() == Some(4096)).await;
    assert!(node.elapsed() < millis(1100), "{:?}", node.elapsed());
    runtime.forget_calls();
    node.at(millis(5500)).await;
    assert_eq!(runtime.calls().len(), 8, "two for a relist: once is enough");
}

/// Finishes one piece of work of a task that does not run.
async fn finish_one(task: &mut Relist) {
    let done = task.work.next().await.unwrap();
    task.finish(done);
}

#[tokio::test(start_paused = true)]
async fn stale_mark_is_removed_with_its_pod() {
    let runtime = runtime();
    let settings = Settings { hints: false, ..Settings::default() };
    let (seq, registry) = Default::default();
    let mut task = relist_of(&runtime, settings, &seq, &registry).task;
    let fault = Fault::error(Code::Unavailable);
    let broken = Rule::on(Method::ListContainers, fault).object(uid("not-listed").as_str());
    runtime.inject(broken.once());
    for name in ["gone", "not-listed"] {
        task.stale.insert(uid(name));
        task.relist_pod(uid(name));
        finish_one(&mut task).await;
    }
    assert_eq!(task.stale.iter().collect::<Vec<_>>(), [&uid("not-listed")]);
    task.start_relist();
    finish_one(&mut task).await;
    assert!(task.stale.is_empty(), "{:?}", task.stale);
}
