//! Single attempts: errors, time limits, and how many run at a time.

use std::time::Duration;

use model::probe::ProbeVerdict;
use podspec::view;
use testkit::probes::ProbeScript;

use crate::harness::{Harness, IP, pod, seconds, tcp};

// behaviour: PRB-11
#[tokio::test(start_paused = true)]
async fn attempt_with_an_error_is_repeated_twice_then_ignored() {
    let harness = Harness::start().await;
    let pod = pod("web", |main| main.liveness_probe = Some(tcp(80)));
    harness.network.set(format!("{IP}:80"), ProbeScript::error("no network"));
    harness.run(&pod, "a");
    seconds(10.5).await;
    assert_eq!(harness.calls(80), 30);
    assert_eq!(harness.results(&pod, "a").failure, None);
    assert!(!harness.metrics().contains("prober_probe_total"), "it is not counted");
    let events = harness.events.all();
    let message = "Liveness probe errored and resulted in unknown state: no network";
    assert_eq!((events.len(), events[0].message.as_str()), (10, message));
    assert_eq!(&*events[0].field_path, "spec.containers{main}");
    let report = &harness.manager.reports(&view::uid(&pod))[0];
    let last = report.last.as_ref().unwrap();
    assert_eq!((last.verdict, last.output.as_str()), (None, "invalid response"));
}

// behaviour: PRB-12
#[tokio::test(start_paused = true)]
async fn slow_probe_has_one_attempt_at_a_time() {
    let harness = Harness::start().await;
    let pod = pod("web", |main| {
        let timeout_seconds = Some(5);
        main.readiness_probe =
            Some(k8s_openapi::api::core::v1::Probe { timeout_seconds, ..tcp(80) });
    });
    let slow = ProbeScript::verdict(ProbeVerdict::Success, "").after(Duration::from_millis(2_500));
    harness.network.set(format!("{IP}:80"), slow);
    harness.run(&pod, "a");
    seconds(10.2).await;
    // Each attempt follows the previous one immediately, because it was overdue.
    assert_eq!(harness.calls(80), 5);
}

#[tokio::test(start_paused = true)]
async fn failures_count_for_attempts_of_any_duration() {
    let harness = Harness::start().await;
    let pod = pod("web", |main| main.startup_probe = Some(tcp(80)));
    let refused = ProbeScript::verdict(ProbeVerdict::Failure, "dial tcp: refused");
    harness.network.set(format!("{IP}:80"), refused.clone().after(Duration::from_millis(500)));
    harness.manager.add_pod(&std::sync::Arc::new(pod.clone()));
    harness.show(&pod, "a", false);
    seconds(0.8).await;
    harness.network.set(format!("{IP}:80"), refused);
    seconds(2.0).await;
    assert_eq!(harness.results(&pod, "a").failure, None);
    // The first one came before the end of the first period: attempts at 1, 2 and 3 s count.
    seconds(0.5).await;
    let failure = harness.results(&pod, "a").failure.expect("it failed three times");
    assert_eq!((failure.failures, failure.output.as_str()), (3, "dial tcp: refused"));
}

// behaviour: PRB-15
#[tokio::test(start_paused = true)]
async fn probes_that_hang_delay_others_only_when_all_slots_are_taken() {
    let harness = Harness::start().await;
    let hung = ProbeScript::verdict(ProbeVerdict::Success, "").after(Duration::from_hours(1));
    for number in 1..=1_100 {
        let port = 1_000 + number;
        let pod = pod(&format!("web-{number}"), |main| {
            let timeout_seconds = Some(20);
            main.readiness_probe =
                Some(k8s_openapi::api::core::v1::Probe { timeout_seconds, ..tcp(port) });
        });
        harness.network.set(format!("{IP}:{port}"), hung.clone());
        harness.run(&pod, "a");
    }
    seconds(5.0).await;
    let probed = (1_001..=2_100).filter(|port| harness.calls(*port) == 1).count();
    assert_eq!(probed, 1_024);
    seconds(20.0).await;
    let probed = (1_001..=2_100).filter(|port| harness.calls(*port) > 0).count();
    assert_eq!(probed, 1_100, "their turn came when others reached their time limit");
}
