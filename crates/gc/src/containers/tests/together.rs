//! A pass and the deletor with the same containers.

use model::observed::RuntimePodStatus;
use model::ports::runtime::{Code, ContainerService};
use testkit::runtime::{Fault, Rule};

use super::*;
use crate::decide::deletor::ObservedPod;

/// A pod that is gone with three dead containers, and a deletor that has their exits in its queue.
async fn with_queued_exits() -> (Bench, DeletorTask) {
    let bench = Bench::new(Pods::ready(), ContainerPolicy::default());
    let (_, ids) = bench.dead_pod("web", 3).await;
    let mut status = RuntimePodStatus::empty("uid-web".into());
    for id in &ids {
        status.containers.push(bench.runtime.container_status(id).await.unwrap());
    }
    let (task, deletor) = Deletor::new(bench.parts.clone());
    let (died, pod) = (ids.iter().map(ToString::to_string), PodName::new("default", "web"));
    let pod = ObservedPod { status: &status, name: &pod };
    deletor.died(died, pod, Some("pod-is-gone"), bench.clock.now());
    (bench, task)
}

/// Waits until the deletor has started its first removal.
async fn first_is_under_way(bench: &Bench) {
    bench.until("the first", |bench| bench.runtime.count(Method::RemoveContainer) == 1).await;
}

// behaviour: GC-65
#[tokio::test(start_paused = true)]
async fn container_selected_by_pass_and_deletor_is_removed_once() {
    let (mut bench, task) = with_queued_exits().await;
    let slow = Fault::delay(Duration::from_secs(1));
    bench.runtime.inject(Rule::on(Method::RemoveContainer, slow));
    bench.tasks.spawn(task.run(CancellationToken::new()));
    first_is_under_way(&bench).await;
    let report = bench.pass(false).await;
    // Three containers, a sandbox, a log directory.
    assert_eq!((report.removed(), report.failed()), (5, 0), "{report:?}");
    assert_eq!((bench.containers().len(), bench.sandboxes()), (0, 0));
    tokio::time::sleep(Duration::from_mins(1)).await;
    assert_eq!(bench.runtime.count(Method::RemoveContainer), 3, "{:?}", bench.runtime.calls());
}

// behaviour: GC-65
#[tokio::test(start_paused = true)]
async fn container_removed_after_the_list_is_not_removed_again() {
    let (mut bench, task) = with_queued_exits().await;
    let late = Fault::late_answer(Duration::from_secs(10));
    bench.runtime.inject(Rule::on(Method::ListContainers, late).once());
    bench.tasks.spawn(async {
        tokio::time::sleep(Duration::from_secs(1)).await;
        task.run(CancellationToken::new()).await;
    });
    let report = bench.pass(false).await;
    assert_eq!((report.failed(), report.problems.len()), (0, 0), "{report:?}");
    assert_eq!((bench.containers().len(), bench.sandboxes()), (0, 0));
    assert_eq!(bench.runtime.count(Method::RemoveContainer), 3, "{:?}", bench.runtime.calls());
}

// behaviour: GC-65
#[tokio::test(start_paused = true)]
async fn pass_removes_a_container_after_the_deletor_failed() {
    let (mut bench, task) = with_queued_exits().await;
    let fails = Fault::error(Code::Internal).after(Duration::from_secs(1));
    bench.runtime.inject(Rule::on(Method::RemoveContainer, fails).once());
    bench.tasks.spawn(task.run(CancellationToken::new()));
    first_is_under_way(&bench).await;
    let report = bench.pass(false).await;
    assert_eq!((report.failed(), report.problems.len()), (0, 0), "{report:?}");
    assert_eq!((bench.containers().len(), bench.sandboxes()), (0, 0));
    assert_eq!(bench.runtime.count(Method::RemoveContainer), 4, "one of them twice");
}
