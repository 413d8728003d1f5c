#[path = "task_tests/hints.rs"]
mod hints;
#[path = "task_tests/node.rs"]
mod node;
#[path = "task_tests/panics.rs"]
mod panics;
#[path = "task_tests/single_pod.rs"]
mod single_pod;
#[path = "task_tests/slow.rs"]
mod slow;

use model::lifecycle::LifecycleEvent::{Died, PodSync, Removed, Started};
use model::observed::{ContainerState, RuntimePodStatus, SandboxState};
use model::ports::runtime::{Code, ContainerService, SandboxService};
use model::verdict::Subject;
use testkit::runtime::{Fault, Method, Rule};
use testkit::wanted;

use self::node::{
    FOREVER, Node, Watched, container, eventually, millis, pod, run, runtime, sandbox, seconds,
    uid, web,
};
use super::*;
use crate::health::Unhealthy;

// behaviour: PLEG-20
#[tokio::test(start_paused = true)]
async fn first_relist_reports_running_and_dead_containers_and_later_ones_nothing() {
    let runtime = runtime();
    let (web, main) = run(&runtime, "web", FOREVER).await;
    let (job, done) = run(&runtime, "job", &["exit", "0"]).await;
    let config = wanted::container(&pod("web"), "extra", node::IMAGE, FOREVER);
    runtime.create_container(&web, &config, &pod("web")).await.unwrap();
    let mut node = Node::watching(&runtime);
    assert_eq!(node.next_events("web").await, [Started(container(&main)), Started(sandbox(&web))]);
    assert_eq!(node.next_events("job").await, [Died(container(&done)), Started(sandbox(&job))]);
    assert_eq!(node.elapsed(), Duration::ZERO);
    assert_eq!(node.cache.get(&uid("web")).unwrap().containers.len(), 2);
    runtime.forget_calls();
    node.expect_no_events_for(Duration::from_millis(5500)).await;
    // An idle node costs two calls a second, however many pods it has.
    assert_eq!(runtime.count(Method::ListContainers), 5);
    assert_eq!(runtime.calls().len(), 10);
}

#[tokio::test(start_paused = true)]
async fn container_death_and_removal_are_reported() {
    let Watched { runtime, mut node, web, main } = web().await;
    runtime.kill_container(&main, 7);
    assert_eq!(node.next_events("web").await, [Died(container(&main))]);
    let status = node.cache.get(&uid("web")).unwrap();
    let ended = &status.containers[0];
    assert_eq!((ended.state, ended.exit_code), (ContainerState::Exited, 7));
    let removal = wanted::removal(Subject::Container(main.clone()));
    runtime.remove_container(&removal).await.unwrap();
    assert_eq!(node.next_events("web").await, [Removed(container(&main))]);
    assert!(node.cache.get(&uid("web")).unwrap().containers.is_empty());
    runtime.stop_pod_sandbox(&web).await.unwrap();
    assert_eq!(node.next_events("web").await, [Died(sandbox(&web))]);
}

// behaviour: PLEG-21
#[tokio::test(start_paused = true)]
async fn vanished_pod_yields_died_and_removed_and_leaves_no_entry() {
    let Watched { runtime, mut node, web, main } = web().await;
    let action = node.seq.next();
    runtime.remove_pod_sandbox(&wanted::removal(Subject::Sandbox(web.clone()))).await.unwrap();
    let (main, web) = (container(&main), sandbox(&web));
    let events = [Died(main.clone()), Removed(main), Died(web.clone()), Removed(web)];
    assert_eq!(node.next_events("web").await, events);
    let gone = Ok(Arc::new(RuntimePodStatus::empty(uid("web"))));
    assert_eq!(node.cache.get(&uid("web")), gone);
    assert_eq!(node.newer_than("web", action).await, gone);
    node.expect_no_events_for(seconds(3)).await;
}

// behaviour: PLEG-22
#[tokio::test(start_paused = true)]
async fn failed_status_read_is_an_error_without_events_until_it_succeeds() {
    let runtime = runtime();
    let (web, main) = run(&runtime, "web", FOREVER).await;
    let fault = Fault::error(Code::Unavailable);
    runtime.inject(Rule::on(Method::ContainerStatus, fault).once());
    let mut node = Node::watching(&runtime);
    let error = node.newer_than("web", Seq::START).await.unwrap_err();
    assert_eq!((error.code, error.object.as_str()), (Code::Unavailable, main.as_str()));
    assert_eq!(node.cache.get(&uid("web")), Err(error));
    node.expect_no_events_for(Duration::from_millis(900)).await;
    assert_eq!(node.next_events("web").await, [Started(container(&main)), Started(sandbox(&web))]);
    assert_eq!(node.elapsed(), seconds(1));
    assert_eq!(node.cache.get(&uid("web")).unwrap().containers.len(), 1);
}

#[tokio::test(start_paused = true)]
async fn change_is_reported_after_repeated_status_failures() {
    let Watched { runtime, mut node, main, .. } = web().await;
    runtime.inject(Rule::on(Method::ContainerStatus, Fault::error(Code::Internal)).times(4));
    runtime.kill_container(&main, 1);
    node.expect_no_events_for(seconds(14)).await;
    assert_eq!(node.cache.get(&uid("web")).unwrap_err().code, Code::Internal);
    assert_eq!(node.health.check(Instant::now()), Ok(()));
    assert_eq!(node.next_events("web").await, [Died(container(&main))]);
    assert!(node.elapsed() <= seconds(20), "{:?}", node.elapsed());
}

// behaviour: PLEG-23
#[tokio::test(start_paused = true)]
async fn recovered_status_without_a_change_yields_one_pod_sync() {
    let Watched { runtime, mut node, web, .. } = web().await;
    let config = wanted::container(&pod("web"), "extra", node::IMAGE, FOREVER);
    let extra = runtime.create_container(&web, &config, &pod("web")).await.unwrap();
    runtime.inject(Rule::on(Method::ContainerStatus, Fault::error(Code::Internal)).times(2));
    eventually("the error is known", || node.cache.get(&uid("web")).is_err()).await;
    runtime.clear_faults();
    runtime.remove_container(&wanted::removal(Subject::Container(extra))).await.unwrap();
    assert_eq!(node.next_events("web").await, [PodSync]);
    assert_eq!(node.cache.get(&uid("web")).unwrap().containers.len(), 1);
    node.expect_no_events_for(seconds(3)).await;
}

#[tokio::test(start_paused = true)]
async fn cached_error_is_removed_with_its_pod() {
    let runtime = runtime();
    let (web, _) = run(&runtime, "web", FOREVER).await;
    runtime.inject(Rule::on(Method::PodSandboxStatus, Fault::error(Code::Internal)));
    let mut node = Node::watching(&runtime);
    node.newer_than("web", Seq::START).await.unwrap_err();
    runtime.remove_pod_sandbox(&wanted::removal(Subject::Sandbox(web))).await.unwrap();
    let status = node.newer_than("web", node.seq.next()).await;
    assert_eq!(status, Ok(Arc::new(RuntimePodStatus::empty(uid("web")))));
    // A consumer that got the error need not wait for the next resync.
    assert_eq!(node.next_events("web").await, [PodSync]);
}

#[tokio::test(start_paused = true)]
async fn container_removed_between_list_and_inspection_is_left_out() {
    let runtime = runtime();
    let (web, main) = run(&runtime, "web", FOREVER).await;
    runtime.inject(Rule::on(Method::ContainerStatus, Fault::delay(millis(500))).once());
    let mut node = Node::watching(&runtime);
    node.at(millis(200)).await;
    let removal = wanted::removal(Subject::Container(main.clone()));
    runtime.remove_container(&removal).await.unwrap();
    assert_eq!(node.next_events("web").await, [Started(container(&main)), Started(sandbox(&web))]);
    assert_eq!(node.elapsed(), millis(500));
    let status = node.cache.get(&uid("web")).unwrap();
    assert_eq!((status.sandboxes.len(), status.containers.len()), (1, 0));
}

// behaviour: PLEG-32
#[tokio::test(start_paused = true)]
async fn not_found_for_a_listed_object_is_confirmed_by_a_second_read() {
    for method in [Method::ContainerStatus, Method::PodSandboxStatus] {
        for (times, believed) in [(1, true), (2, false)] {
            let runtime = runtime();
            run(&runtime, "web", FOREVER).await;
            runtime.inject(Rule::on(method, Fault::error(Code::NotFound)).times(times));
            let mut node = Node::watching(&runtime);
            node.newer_than("web", Seq::START).await.unwrap_err();
            node.next_events("web").await;
            assert_eq!(node.elapsed(), seconds(1));
            let status = node.cache.get(&uid("web")).unwrap();
            let parts = status.sandboxes.len() + status.containers.len();
            assert_eq!(parts == 2, believed, "{method:?} {times}");
        }
    }
}

// behaviour: PLEG-25
#[tokio::test(start_paused = true)]
async fn dead_pod_keeps_its_ips_when_its_status_read_failed_first() {
    let runtime = runtime();
    let (web, _) = run(&runtime, "web", FOREVER).await;
    let (shop, _) = run(&runtime, "shop", FOREVER).await;
    let mut node = Node::watching(&runtime);
    node.next_events("web").await;
    node.next_events("shop").await;
    let address = |pod| node.cache.get(&uid(pod)).map(|status| status.ips.clone());
    let (web_ips, shop_ips) = (address("web").unwrap(), address("shop").unwrap());
    assert_eq!((web_ips.len(), shop_ips.len()), (1, 1));
    let fault = Fault::error(Code::Unavailable);
    runtime.inject(Rule::on(Method::PodSandboxStatus, fault).object(shop.as_str()).once());
    runtime.stop_pod_sandbox(&web).await.unwrap();
    runtime.stop_pod_sandbox(&shop).await.unwrap();
    node.next_events("web").await;
    node.next_events("shop").await;
    assert_eq!(node.elapsed(), seconds(2));
    let status = node.cache.get(&uid("web")).unwrap();
    assert_eq!(status.sandboxes[0].state, SandboxState::NotReady);
    assert_eq!((&status.ips, &status.sandboxes[0].ips), (&web_ips, &vec![]));
    assert_eq!(node.cache.get(&uid("shop")).unwrap().ips, shop_ips);
}

// behaviour: PLEG-28
#[tokio::test(start_paused = true)]
async fn health_decays_while_the_runtime_cannot_be_listed_and_recovers() {
    for method in [Method::ListContainers, Method::ListPodSandbox] {
        let runtime = runtime();
        run(&runtime, "web", FOREVER).await;
        let mut node = Node::watching(&runtime);
        let check = |node: &Node| node.health.check(Instant::now());
        assert_eq!(check(&node), Err(Unhealthy::NeverRelisted));
        node.next_events("web").await;
        assert_eq!(check(&node), Ok(()));
        runtime.inject(Rule::on(method, Fault::error(Code::Unavailable)));
        node.expect_no_events_for(seconds(180)).await;
        assert_eq!(check(&node), Ok(()));
        node.expect_no_events_for(Duration::from_millis(1)).await;
        let stale = Unhealthy::Stale {
            since: Duration::from_millis(180_001),
            threshold: Duration::from_mins(3),
        };
        assert_eq!(check(&node), Err(stale));
        runtime.clear_faults();
        eventually("it is healthy again", || check(&node).is_ok()).await;
        assert!(node.elapsed() < seconds(182));
        // An unchanged status yields no events after the recovery.
        node.expect_no_events_for(seconds(2)).await;
    }
}

#[tokio::test(start_paused = true)]
async fn task_stops_when_cancelled_with_work_in_progress() {
    let runtime = runtime();
    run(&runtime, "web", FOREVER).await;
    runtime.inject(Rule::on(Method::ContainerStatus, Fault::hang()));
    let mut node = Node::watching(&runtime);
    node.expect_no_events_for(seconds(3)).await;
    node.stop.cancel();
    let ended = tokio::time::timeout(seconds(1), node.tasks.join_next()).await;
    assert!(ended.unwrap().unwrap().is_ok());
}
