//! A panic in the work for one pod.

use model::lifecycle::LifecycleEvent::Died;
use testkit::runtime::{Fault, MemoryRuntime, Method, Rule};

use super::node::{FOREVER, Node, container, run, runtime, seconds, uid};
use crate::Settings;

fn reads(runtime: &MemoryRuntime, id: &str) -> usize {
    let calls = runtime.calls().into_iter();
    calls.filter(|call| call.method == Method::ContainerStatus && call.object == id).count()
}

// behaviour: WRK-38
#[tokio::test(start_paused = true)]
async fn panic_in_one_status_read_does_not_stop_other_pods() {
    for hints in [false, true] {
        let runtime = runtime();
        let (_, web) = run(&runtime, "web", FOREVER).await;
        let (_, other) = run(&runtime, "other", FOREVER).await;
        let mut node = Node::with(&runtime, Settings { hints, ..Settings::default() });
        for pod in ["web", "other"] {
            node.next_events(pod).await;
        }
        let before = node.seq.next();
        let rule = Rule::on(Method::ContainerStatus, Fault::panic()).object(web.as_str());
        runtime.inject(rule);
        runtime.forget_calls();
        runtime.kill_container(&web, 1);
        let error = node.newer_than("web", before).await.unwrap_err();
        assert_eq!(error.message, "panic in relist: injected by a test");
        runtime.kill_container(&other, 1);
        assert_eq!(node.next_events("other").await, [Died(container(&other))]);
        tokio::time::sleep(seconds(60)).await;
        let tries = reads(&runtime, web.as_str());
        assert!((5..=12).contains(&tries), "{tries} in a minute, hints {hints}");
        runtime.clear_faults();
        assert_eq!(node.next_events("web").await, [Died(container(&web))]);
        assert!(!node.tasks.is_empty());
    }
}

// behaviour: WRK-38
#[tokio::test(start_paused = true)]
async fn panic_in_a_single_pod_relist_is_a_failed_status_read() {
    let runtime = runtime();
    let (_, web) = run(&runtime, "web", FOREVER).await;
    let mut node = Node::watching(&runtime);
    node.next_events("web").await;
    let before = node.seq.next();
    let rule = Rule::on(Method::ListContainers, Fault::panic()).object(uid("web").as_str());
    runtime.inject(rule.once());
    node.relist_pod("web");
    node.newer_than("web", before).await.unwrap_err();
    let after = node.seq.next();
    runtime.kill_container(&web, 1);
    assert_eq!(node.next_events("web").await, [Died(container(&web))]);
    node.newer_than("web", after).await.unwrap();
}
