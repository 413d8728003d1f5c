//! Every method of the runtime that the agent calls, with every kind of fault, one at a time.

use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use e2e::faults::{Fault, FaultyNode, METHODS, pod_cidr_faults, slow_start};

/// The same pod again and again, so that leftovers of a round would affect the next.
fn one_by_one(faults: impl IntoIterator<Item = Result<Fault>>) -> Result<()> {
    let mut node = FaultyNode::start()?;
    for fault in faults {
        let (fault, begun) = (fault?, Instant::now());
        node.round(&["web"], &[fault]).with_context(|| fault.to_string())?;
        println!("{fault}: {:.0?}", begun.elapsed());
    }
    node.round(&["web"], &[]).context("no call fails any more")?;
    node.check_methods()?;
    node.stop()
}

fn every_method(kind: &'static str) -> Result<()> {
    one_by_one(METHODS.iter().map(|row| Fault::new(row.method, kind)))
}

#[test]
fn agent_recovers_when_a_method_is_unavailable_once() -> Result<()> {
    every_method("unavailable")
}

#[test]
fn agent_recovers_when_a_method_returns_not_found_once() -> Result<()> {
    every_method("not-found")
}

#[test]
fn agent_recovers_when_a_method_returns_deadline_exceeded_once() -> Result<()> {
    every_method("deadline")
}

#[test]
fn agent_recovers_when_a_method_hangs_once() -> Result<()> {
    every_method("hang")
}

#[test]
fn agent_recovers_when_a_method_completes_after_its_deadline() -> Result<()> {
    every_method("late")
}

/// The agent's calls time out after 2 s, those for a sandbox after 4 s. It retries after 10 to 15 s, or when something
/// of the pod changes.
#[test]
fn agent_recovers_when_late_completion_coincides_with_the_retry() -> Result<()> {
    let changes = ["CreateContainer", "StartContainer", "RemoveContainer", "StopContainer"];
    let changes = ["RunPodSandbox", "StopPodSandbox"].into_iter().chain(changes);
    let delays = ["late after=2200ms", "late after=5s", "late after=12s", "late after=20s"];
    one_by_one(changes.flat_map(|method| delays.map(|late| Fault::new(method, late))))
}

/// The `postStart` command of a container.
#[test]
fn post_start_hook_fails() -> Result<()> {
    one_by_one(KINDS.into_iter().map(Fault::after_start))
}

/// The second and the last of the pod's containers, and status calls later than the first.
#[test]
fn later_call_fails() -> Result<()> {
    let methods = ["CreateContainer", "StartContainer", "ContainerStatus"];
    let second = ["not-found skip=1", "deadline skip=1", "hang skip=1", "late skip=1"];
    let last = ["not-found skip=3", "deadline skip=3", "hang skip=3", "late skip=3"];
    let kinds: Vec<_> = second.into_iter().chain(last).collect();
    one_by_one(
        methods
            .into_iter()
            .flat_map(|method| kinds.iter().map(move |kind| Fault::new(method, kind))),
    )
}

/// The init container, and those after it.
#[test]
fn start_of_a_later_container_times_out() -> Result<()> {
    (3..=5).try_for_each(|nth| slow_start(nth).with_context(|| format!("creation {nth}")))
}

/// The kinds of faults.
const KINDS: [&str; 5] = ["unavailable", "not-found", "deadline", "hang", "late"];

/// As long as several retries, so that each back-off is seen to end.
const OUTAGE: Duration = Duration::from_secs(40);

#[test]
fn all_calls_fail_for_a_while() -> Result<()> {
    let mut node = FaultyNode::start()?;
    for kind in KINDS {
        let begun = Instant::now();
        node.round_with_an_outage(kind, OUTAGE).with_context(|| kind.to_owned())?;
        println!("all={kind}: {:.0?}", begun.elapsed());
    }
    // No names of the pods that were removed meanwhile are reserved, either.
    node.round(&["before", "after"], &[]).context("no call fails any more")?;
    node.stop()
}

/// The method that only the agent of a node in a cluster calls.
#[test]
fn pod_cidr_reaches_the_runtime_after_any_fault() -> Result<()> {
    pod_cidr_faults(&KINDS)
}
