//! Histories with fixed seeds. `make soak` uses new ones.

use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};

use sim::plan::{ActionKind, Plan};
use sim::run::run;

/// How many histories, from seed 1 on: as many as a slow machine runs in a minute.
const HISTORIES: u64 = 100;

/// Runs histories on both cores; every one must have enough events.
fn all_go_well(plans: &[Plan]) {
    let next = AtomicUsize::new(0);
    let work = || {
        loop {
            let index = next.fetch_add(1, Ordering::Relaxed);
            let Some(plan) = plans.get(index) else { return };
            let (report, _) = run(plan).unwrap_or_else(|failure| panic!("{failure}"));
            assert!(report.has_enough_events(), "too few events: {report}");
        }
    };
    std::thread::scope(|scope| {
        scope.spawn(work);
        scope.spawn(work);
    });
}

#[test]
fn invariants_hold_for_fixed_seeds() {
    all_go_well(&(1..=HISTORIES).map(Plan::new).collect::<Vec<_>>());
}

#[test]
fn invariants_hold_for_regression_seeds() {
    all_go_well(&sim::plans(sim::REGRESSIONS).collect::<Vec<_>>());
}

#[test]
fn run_without_time_for_all_histories_fails() {
    let sim = |arguments: &[&str]| {
        let output = Command::new(env!("CARGO_BIN_EXE_sim")).args(arguments).output().unwrap();
        (output.status.code(), String::from_utf8(output.stdout).unwrap())
    };
    let (code, output) = sim(&["--count", "3", "--seconds", "0"]);
    assert_eq!(code, Some(1), "{output}");
    assert!(output.contains("only 0 of 3 histories ran"), "{output}");
    let (code, output) = sim(&["--count", "1", "--seconds", "600", "--verbose"]);
    assert_eq!(code, Some(0), "{output}");
    for expected in ["seed 1: ", " pods, ", " faults, ", " killed agents of ", "1 histories passed"]
    {
        assert!(output.contains(expected), "no {expected:?} in {output}");
    }
}

#[test]
fn broken_invariant_prints_plan_faults_and_the_command_to_repeat_it() {
    let mut plan = Plan::plain(2);
    for step in &mut plan.steps {
        if let ActionKind::Write(pod) = &mut step.what {
            pod.containers[0].image = "ferrolet.test/nowhere:1";
        }
    }
    let failure = run(&plan).expect_err("there is no such image").to_string();
    let has = |start: &str| failure.lines().any(|line| line.contains(start));
    for start in ["  PLAN     write manifest p", "  PLAN     next: ", "  FAULT    ", "agent 2  "] {
        assert!(has(start), "no {start:?} in {failure}");
    }
    let mut last = failure.lines().rev();
    assert_eq!(last.next(), Some("again: cargo run -p sim -- --seed 2 --plain"));
    let broken = "seed 2: BROKEN: after the last fault the node comes to match its manifests: ";
    assert!(last.next().is_some_and(|line| line.starts_with(broken)), "{failure}");
}

#[test]
fn same_seed_yields_the_same_history() {
    for seed in [1, 2, 3] {
        let once = run(&Plan::new(seed)).unwrap();
        let again = run(&Plan::new(seed)).unwrap();
        assert_eq!(once.0, again.0);
        assert!(once.1 == again.1, "the traces of seed {seed} differ");
    }
    assert_ne!(run(&Plan::new(1)).unwrap().0.hash, run(&Plan::new(2)).unwrap().0.hash);
}
