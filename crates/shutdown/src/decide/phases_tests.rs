use proptest::prelude::*;
use testkit::pods;

use super::*;

fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

fn pod(name: &str, priority: Option<i32>, grace: Option<i64>) -> Arc<Pod> {
    let mut pod = pods::pod(name).build();
    let spec = pod.spec.as_mut().unwrap();
    spec.priority = priority;
    spec.termination_grace_period_seconds = grace;
    Arc::new(pod)
}

/// Each phase as its priority, its seconds, and its pods with their grace periods.
fn shown(plans: &[PhasePlan]) -> Vec<String> {
    let line = |plan: &PhasePlan| {
        let name = |pod: &Pod| pod.metadata.name.clone().unwrap_or_default();
        let pods = plan.pods.iter().map(|one| format!("{} {:?}", name(&one.pod), one.grace));
        let Phase { priority, time } = plan.phase;
        format!("{priority} {time:?}: {}", pods.collect::<Vec<_>>().join(", "))
    };
    plans.iter().map(line).collect()
}

// behaviour: SHD-5
#[test]
fn two_grace_periods_are_two_phases() {
    let rows = [
        (0, 0, vec![]),
        (30, 10, vec![(0, 20), (CRITICAL, 10)]),
        (30, 0, vec![(0, 30), (CRITICAL, 0)]),
        (30, 30, vec![(0, 0), (CRITICAL, 30)]),
        (10, 30, vec![]),
    ];
    for (whole, critical, expected) in rows {
        let phases = Phases::of_two(seconds(whole), seconds(critical));
        let expected: Vec<Phase> = expected
            .into_iter()
            .map(|(priority, time)| Phase { priority, time: seconds(time) })
            .collect();
        assert_eq!(phases, Phases(expected), "{whole} {critical}");
        assert_eq!(phases.is_empty(), phases.total().is_zero());
    }
    let odd = Phases::of_two(Duration::from_millis(3500), Duration::from_millis(1200));
    assert_eq!(odd.0.iter().map(|phase| phase.time).collect::<Vec<_>>(), [seconds(2), seconds(1)]);
}

// behaviour: SHD-5, SHD-6
#[test]
fn pod_is_in_the_highest_phase_that_its_priority_reaches() {
    let phases = Phases::by_priority([(1000, 20), (-5, 10), (100_000, 30)]);
    let pods = vec![
        pod("default", None, Some(30)),
        pod("low", Some(-100), Some(5)),
        pod("bound", Some(1000), Some(1)),
        pod("below", Some(99_999), None),
        pod("high", Some(i32::MAX), Some(60)),
    ];
    assert_eq!(phases.total(), seconds(60));
    let plans = phases.plan(pods, Duration::ZERO);
    assert_eq!(
        shown(&plans),
        ["-5 10s: default 10s, low 5s", "1000 20s: bound 1s, below 20s", "100000 30s: high 30s"]
    );
}

// behaviour: SHD-6
#[test]
fn phase_without_pods_takes_no_time() {
    let phases = Phases::of_two(seconds(30), seconds(10));
    assert_eq!(phases.plan(vec![], Duration::ZERO), []);
    let critical = vec![pod("critical", Some(CRITICAL), Some(30))];
    assert_eq!(shown(&phases.plan(critical, Duration::ZERO)), ["2000000000 10s: critical 10s"]);
    assert_eq!(Phases::default().plan(vec![pod("web", None, None)], Duration::ZERO), []);
}

// behaviour: SHD-10
#[test]
fn phases_are_shorter_if_the_shutdown_began_before() {
    let phases = Phases::of_two(seconds(30), seconds(10));
    let pods = || vec![pod("web", None, Some(30)), pod("critical", Some(CRITICAL), Some(30))];
    let rows = [
        (0, ["0 20s: web 20s", "2000000000 10s: critical 10s"]),
        (5, ["0 15s: web 15s", "2000000000 10s: critical 10s"]),
        (20, ["0 1s: web 1s", "2000000000 10s: critical 10s"]),
        (26, ["0 1s: web 1s", "2000000000 4s: critical 4s"]),
        (90, ["0 1s: web 1s", "2000000000 1s: critical 1s"]),
    ];
    for (elapsed, expected) in rows {
        assert_eq!(shown(&phases.plan(pods(), seconds(elapsed))), expected, "{elapsed}");
    }
}

proptest! {
    #[test]
    fn each_pod_is_in_one_phase_and_has_no_longer_than_it(
        phases in proptest::collection::vec((any::<i32>(), 0_i64..100), 1..6),
        pods in proptest::collection::vec((any::<i32>(), 0_i64..100), 0..12),
        elapsed in 0_u64..200,
    ) {
        let phases = Phases::by_priority(phases);
        let all: Vec<Arc<Pod>> = pods
            .iter()
            .enumerate()
            .map(|(number, (priority, grace))| {
                pod(&number.to_string(), Some(*priority), Some(*grace))
            })
            .collect();
        let plans = phases.plan(all, seconds(elapsed));
        let planned: usize = plans.iter().map(|plan| plan.pods.len()).sum();
        prop_assert_eq!(planned, pods.len());
        prop_assert!(plans.windows(2).all(|two| two[0].phase.priority <= two[1].phase.priority));
        let priority = |one: &PlannedPod| view::priority(&one.pod).unwrap();
        for two in plans.windows(2) {
            let highest = two[0].pods.iter().map(priority).max();
            let least = two[1].pods.iter().map(priority).min();
            prop_assert!(highest <= least, "{:?}", shown(&plans));
        }
        for plan in &plans {
            prop_assert!(plan.pods.iter().all(|one| one.grace <= plan.phase.time));
        }
    }
}
