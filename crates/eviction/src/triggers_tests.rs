//! Reports of the kernel between rounds.

use std::io::ErrorKind;

use testkit::memory_alarm::TestAlarm;

use super::*;
use crate::manager::tests::{Bench, Setup, set_memory, threshold};

fn rules(stalls: bool, crossings: bool) -> TriggerRules {
    TriggerRules { pods_cgroup: "/kubepods".to_owned(), stalls, crossings }
}

#[expect(clippy::disallowed_methods, reason = "the task under test")]
async fn start(rules: TriggerRules, alarm: TestAlarm) -> (Bench, Arc<TestAlarm>) {
    let thresholds = vec![
        threshold(Signal::MemoryAvailable, 100, 0),
        threshold(Signal::AllocatableMemoryAvailable, 100, 0),
        threshold(Signal::NodeFsAvailable, 1, 0),
    ];
    let bench = Setup { thresholds, ..Setup::default() }.start();
    let alarm = Arc::new(alarm);
    let watch = watch_memory(bench.handle(), Arc::clone(&alarm) as _, rules, bench.stop());
    tokio::spawn(watch);
    sleep(Duration::from_secs(5)).await;
    (bench, alarm)
}

// behaviour: EVI-44
#[tokio::test(start_paused = true)]
async fn stalled_processes_begin_a_round() {
    let (bench, alarm) = start(rules(true, false), TestAlarm::default()).await;
    for cgroup in ["/", "/kubepods"] {
        let before = bench.rounds();
        alarm.ring(cgroup);
        sleep(Duration::from_millis(1)).await;
        assert_eq!(bench.rounds(), before + 1, "{cgroup}");
        sleep(Duration::from_secs(2)).await;
    }
    assert!(alarm.levels().is_empty());
}

// behaviour: EVI-48
#[tokio::test(start_paused = true)]
async fn crossed_threshold_begins_a_round_and_its_level_follows_the_usage() {
    let (bench, alarm) = start(rules(false, true), TestAlarm::default()).await;
    // 1,000 MiB less the threshold of 100. Pods are not measured here.
    let level = |mebibytes: u64| ("/".to_owned(), mebibytes << 20);
    assert_eq!(alarm.levels(), [level(900)]);
    bench.set(|summary| {
        set_memory(summary, 500);
        // Inactive files of 50 MiB.
        summary.node.memory.as_mut().unwrap().usage_bytes = Some(550 << 20);
    });
    sleep(Duration::from_secs(10)).await;
    assert_eq!(alarm.levels(), [level(900), level(950)]);
    assert_eq!(bench.rounds(), 2, "only rounds measure the node");
    let pressure = bench.handle().pressure();
    bench.set(|summary| set_memory(summary, 50));
    alarm.ring("/");
    sleep(Duration::from_millis(1)).await;
    assert!(pressure.borrow().memory);
}

// behaviour: EVI-44
#[tokio::test(start_paused = true)]
async fn rounds_go_on_without_reports() {
    let (bench, _alarm) = start(rules(true, true), TestAlarm::absent()).await;
    let pressure = bench.handle().pressure();
    bench.set(|summary| set_memory(summary, 50));
    sleep(Duration::from_secs(4)).await;
    assert!(!pressure.borrow().memory);
    sleep(Duration::from_secs(2)).await;
    assert!(pressure.borrow().memory);
}

// behaviour: EVI-44, EVI-48
#[tokio::test(start_paused = true)]
async fn failed_wait_is_retried_unless_reports_are_unsupported() {
    for trigger in [rules(true, false), rules(false, true)] {
        for (kind, reports) in [(ErrorKind::NotFound, 1), (ErrorKind::Unsupported, 0)] {
            let alarm = TestAlarm::default();
            alarm.set_failure(Some(kind));
            let (bench, alarm) = start(trigger.clone(), alarm).await;
            alarm.set_failure(None);
            sleep(RETRY).await;
            let before = bench.rounds();
            alarm.ring("/");
            sleep(Duration::from_millis(1)).await;
            assert_eq!(bench.rounds(), before + reports, "{trigger:?} {kind}");
        }
    }
}
