//! Pods whose runtime calls hang do not delay others.

use std::time::Duration;

use model::lifecycle::LifecycleEvent::{Died, Started};
use model::ports::runtime::Code;
use model::seq::Seq;
use testkit::runtime::{Fault, MemoryRuntime, Method, Rule};
use tokio::time::Instant;

use super::node::{
    FOREVER, Node, Watched, container, millis, run, runtime, sandbox, seconds, uid, web,
};
use crate::Settings;

fn relists(runtime: &MemoryRuntime) -> usize {
    let is_relist = |call: &&_| matches!(call, testkit::runtime::Call { method: Method::ListContainers, object, .. } if object.is_empty());
    runtime.calls().iter().filter(is_relist).count()
}

// behaviour: PLEG-27
#[tokio::test(start_paused = true)]
async fn hung_pod_does_not_delay_others() {
    let runtime = runtime();
    let (web, main) = run(&runtime, "web", FOREVER).await;
    let (stuck, lost) = run(&runtime, "stuck", FOREVER).await;
    runtime.inject(Rule::on(Method::ContainerStatus, Fault::hang()).object(lost.as_str()));
    let mut node = Node::watching(&runtime);
    assert_eq!(node.next_events("web").await, [Started(container(&main)), Started(sandbox(&web))]);
    assert_eq!(node.elapsed(), Duration::ZERO);
    node.at(millis(3500)).await;
    runtime.kill_container(&main, 1);
    assert_eq!(node.next_events("web").await, [Died(container(&main))]);
    assert_eq!(node.elapsed(), seconds(4));
    node.newer_than("web", node.seq.next()).await.unwrap();
    assert_eq!(node.elapsed(), seconds(5));
    let error = node.newer_than("stuck", Seq::START).await.unwrap_err();
    assert_eq!(error.code, Code::DeadlineExceeded);
    assert_eq!(node.elapsed(), seconds(10));
    assert_eq!(node.cache.get(&uid("stuck")), Err(error));
    node.expect_no_events_for(millis(4500)).await;
    assert_eq!(relists(&runtime), 15);
    assert_eq!(node.health.check(Instant::now()), Ok(()));
    runtime.clear_faults();
    assert_eq!(
        node.next_events("stuck").await,
        [Started(container(&lost)), Started(sandbox(&stuck))]
    );
    // After the deadline of the hung inspection and the wait after it.
    assert!(node.elapsed() <= seconds(25), "{:?}", node.elapsed());
    assert_eq!(node.cache.get(&uid("stuck")).unwrap().containers.len(), 1);
}

// behaviour: PLEG-27
#[tokio::test(start_paused = true)]
async fn late_waiter_for_a_hung_pod_gets_an_error() {
    let runtime = runtime();
    let (_, lost) = run(&runtime, "stuck", FOREVER).await;
    runtime.inject(Rule::on(Method::ContainerStatus, Fault::hang()).object(lost.as_str()));
    let node = Node::watching(&runtime);
    node.at(seconds(4)).await;
    let error = node.newer_than("stuck", node.seq.next()).await.unwrap_err();
    assert_eq!(error.code, Code::DeadlineExceeded);
    assert!(node.elapsed() <= seconds(20), "{:?}", node.elapsed());
}

#[tokio::test(start_paused = true)]
async fn hung_single_pod_relist_times_out() {
    let Watched { runtime, mut node, main, .. } = web().await;
    node.at(millis(300)).await;
    let fault = Rule::on(Method::ListPodSandbox, Fault::hang());
    runtime.inject(fault.object(uid("web").as_str()).once());
    runtime.kill_container(&main, 1);
    node.relist_pod("web");
    assert_eq!(node.next_events("web").await, [Died(container(&main))]);
    assert_eq!(node.elapsed(), millis(10_300));
    assert_eq!(relists(&runtime), 11);
}

#[tokio::test(start_paused = true)]
async fn parallel_inspections_are_limited() {
    let runtime = runtime();
    for name in ["a", "b", "c"] {
        run(&runtime, name, FOREVER).await;
    }
    let delay = Fault::delay(millis(300));
    runtime.inject(Rule::on(Method::ContainerStatus, delay));
    let settings = Settings { parallel_inspections: 2, hints: false, ..Settings::default() };
    let mut node = Node::with(&runtime, settings);
    node.next_events("a").await;
    node.next_events("b").await;
    assert_eq!(node.elapsed(), millis(300));
    node.next_events("c").await;
    assert_eq!(node.elapsed(), millis(600));
}

#[tokio::test(start_paused = true)]
async fn more_hung_pods_than_inspection_slots_delay_others_by_one_deadline() {
    let runtime = runtime();
    for pod in 0..20 {
        let (_, lost) = run(&runtime, &format!("stuck-{pod}"), FOREVER).await;
        runtime.inject(Rule::on(Method::ContainerStatus, Fault::hang()).object(lost.as_str()));
    }
    let settings = Settings { parallel_inspections: 4, hints: false, ..Settings::default() };
    let mut node = Node::with(&runtime, settings);
    node.at(seconds(120)).await;
    // All have failed and wait for their retry: a new pod soon gets a permit.
    run(&runtime, "web", FOREVER).await;
    node.next_events("web").await;
    assert!(node.elapsed() <= seconds(120 + 25), "{:?}", node.elapsed());
}

// behaviour: PLEG-30
#[tokio::test(start_paused = true)]
async fn live_pods_include_those_with_unreadable_status() {
    let runtime = runtime();
    let (_, main) = run(&runtime, "web", FOREVER).await;
    let (stuck, lost) = run(&runtime, "stuck", FOREVER).await;
    runtime.inject(Rule::on(Method::ContainerStatus, Fault::hang()).object(lost.as_str()));
    let mut node = Node::watching(&runtime);
    node.next_events("web").await;
    let live = |pod: &str| node.cache.live(&uid(pod)).map(|name| name.name.to_string());
    assert_eq!((live("web"), live("stuck")), (Some("web".to_owned()), Some("stuck".to_owned())));
    assert_eq!(node.cache.all_live().len(), 2);
    runtime.kill_container(&main, 1);
    runtime.kill_container(&lost, 1);
    node.at(seconds(30)).await;
    assert!(live("web").is_some(), "its sandbox lives");
    runtime.kill_sandbox(&stuck);
    node.at(seconds(60)).await;
    assert_eq!((live("web").is_some(), live("stuck")), (true, None));
}

// behaviour: PLEG-30
#[tokio::test(start_paused = true)]
async fn live_pods_are_known_from_the_first_list_while_one_inspection_hangs() {
    let runtime = runtime();
    run(&runtime, "web", FOREVER).await;
    run(&runtime, "stuck", FOREVER).await;
    let refused = Rule::on(Method::ListContainers, Fault::error(Code::Unavailable));
    runtime.inject(refused.object("").once());
    let hangs = Rule::on(Method::ListPodSandbox, Fault::hang());
    runtime.inject(hangs.object(uid("stuck").as_str()));
    let mut node = Node::watching(&runtime);
    node.relist_pod("stuck");
    node.next_events("web").await;
    assert_eq!(node.cache.all_live().len(), 2);
}
