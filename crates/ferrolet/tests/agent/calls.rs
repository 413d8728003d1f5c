//! The runtime calls of an idle node with many pods, for the whole agent.

use std::collections::BTreeMap;
use std::time::Duration;

use testkit::runtime::{Call, Method};

use crate::harness::Harness;

const PODS: usize = 1000;

/// Calls that restart a container, which do not count as detection of its death.
const RESTART: [Method; 4] =
    [Method::ImageStatus, Method::CreateContainer, Method::StartContainer, Method::PullImage];

fn by_method(calls: &[Call]) -> BTreeMap<&'static str, usize> {
    let mut counts = BTreeMap::new();
    for call in calls {
        *counts.entry(call.method.name()).or_default() += 1;
    }
    counts
}

fn busy_node() -> Harness {
    let harness = Harness::new();
    for pod in 0..PODS {
        harness.write_manifest(&format!("pod-{pod}"), "Always", "[sleep, forever]");
    }
    harness
}

// behaviour: PLEG-46
#[tokio::test(start_paused = true)]
async fn idle_minute_with_1000_pods_costs_five_calls_and_a_container_death_four() {
    let harness = busy_node();
    let _agent = harness.start();
    // Longer waits would take much time with a thousand pods.
    tokio::time::sleep(Duration::from_mins(5)).await;
    assert_eq!(harness.live_sandboxes(), PODS);
    harness.runtime.forget_calls();
    let mut passes = 0;
    for _ in 0..5 {
        tokio::time::sleep(Duration::from_mins(1)).await;
        let calls = harness.runtime.calls();
        // Images are listed once in five minutes, with five calls at most.
        let images = calls.iter().filter(|call| call.method == Method::ListImages).count();
        assert!(calls.len() <= 5 + 5 * images, "{:?}", by_method(&calls));
        passes += images;
        harness.runtime.forget_calls();
    }
    assert_eq!(passes, 1);
    // Between two relists, which are not caused by the death.
    tokio::time::sleep(Duration::from_secs(10)).await;
    let victim = harness.one_runs("pod-500").await;
    harness.runtime.forget_calls();
    harness.runtime.kill_container(&victim.id, 1);
    harness
        .until("another runs", |harness| {
            harness.running("pod-500").into_iter().find(|container| container.id != victim.id)
        })
        .await;
    tokio::time::sleep(Duration::from_secs(2)).await;
    let calls = harness.runtime.calls();
    let seen: Vec<Call> =
        calls.iter().take_while(|call| !RESTART.contains(&call.method)).cloned().collect();
    assert!((1..=4).contains(&seen.len()), "{:?}", by_method(&seen));
    let lists = [Method::ListPodSandbox, Method::ListContainers];
    let mut lists = calls.iter().filter(|call| lists.contains(&call.method));
    assert!(lists.all(|call| call.object == victim.pod_uid.as_str()), "{calls:?}");
    // With the restart and a status after it.
    assert!(calls.len() <= 16, "{:?}", by_method(&calls));
}
