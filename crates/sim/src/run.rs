//! Runs a history.

mod journal_check;
mod node;
mod page;
mod pod_starts;
mod restart_deadlines;
mod stop_deadlines;

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Once;
use std::time::Duration;

use crate::agent_restart::unexpected_action;
use crate::invariants::Broken;
use crate::life::AGENT_KILLED;
use crate::plan::{ActionKind, Fault, Plan, Rule, Target};
use crate::settled::{Snapshot, unsettled};
use crate::statuses::changed_status;

use node::Node;

/// The minimum number of pods and faults of a useful history, not counting killed agents.
const LEAST_PODS: usize = 5;
const LEAST_FAULTS: usize = 10;

/// How long a node may take after the last fault until it matches its manifests.
const PATIENCE: Duration = Duration::from_mins(25);

/// Like `PATIENCE`, once no call with a fault is in progress: the longest back-off, of an image or a container, and the
/// time until the next sync; or the grace of a pod, and two passes.
const CALM_PATIENCE: Duration = Duration::from_mins(8);

/// How long the agent may take to observe and handle a change of a settled node.
const REACTION: Duration = Duration::from_secs(30);

/// How long a sandbox may stay after its containers, if those were removed before they had the minimum age of a
/// pass.
const NEXT_PASS: Duration = Duration::from_secs(90);

/// A history without a broken invariant.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Report {
    /// Its seed.
    pub seed: u64,
    /// The number of pods.
    pub pods: usize,
    /// The faults that happened, by kind. The kill of the last agent of a settled node is not counted.
    pub faults: BTreeMap<&'static str, usize>,
    /// The number of agents.
    pub agents: u32,
    /// How long it took after the last fault until the node matched its manifests.
    pub settled_after: Duration,
    /// Its length by its own clock.
    pub lasted: Duration,
    /// The hash of its trace.
    pub hash: u64,
}

impl Report {
    /// The number of faults.
    pub fn faults_in_all(&self) -> usize {
        self.faults.values().sum()
    }

    /// The number of killed agents.
    pub fn kills(&self) -> usize {
        self.faults.get(AGENT_KILLED).copied().unwrap_or_default()
    }

    /// Whether enough happened for a useful history.
    pub fn has_enough_events(&self) -> bool {
        let others = self.faults_in_all() - self.kills();
        self.pods >= LEAST_PODS && others >= LEAST_FAULTS && self.kills() >= 1
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { seed, pods, agents, settled_after, lasted, hash, .. } = self;
        write!(
            f,
            "seed {seed}: {pods} pods, {} faults, {} killed agents of {agents}, settled after {}s of \
             {}s, {hash:016x};",
            self.faults_in_all(),
            self.kills(),
            settled_after.as_secs(),
            lasted.as_secs(),
        )?;
        for (name, count) in &self.faults {
            write!(f, " {count} {name},")?;
        }
        Ok(())
    }
}

/// A history with a broken invariant.
#[derive(Debug, Clone)]
pub struct Failure {
    /// Its seed.
    pub seed: u64,
    /// Whether it ran without later actions.
    pub plain: bool,
    /// The broken invariant, and how it was broken.
    pub broken: Broken,
    /// The trace.
    pub trace: String,
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { seed, plain, broken, trace } = self;
        let plain = if *plain { " --plain" } else { "" };
        let again = format!("cargo run -p sim -- --seed {seed}{plain}");
        write!(f, "{trace}\nseed {seed}: BROKEN: {broken}\nagain: {again}")
    }
}

/// Runs the history of a plan, from its beginning to its end. Returns the report and the trace.
pub fn run(plan: &Plan) -> Result<(Report, String), Box<Failure>> {
    static HOOK: Once = Once::new();
    HOOK.call_once(node::record_panics);
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build()
        .expect("a runtime without I/O can always be built");
    runtime.block_on(history(plan))
}

async fn history(plan: &Plan) -> Result<(Report, String), Box<Failure>> {
    let mut node = Node::new(plan);
    let reported = play(&mut node, plan).await;
    node.end();
    match reported {
        Ok(Played { settled_after, faults }) => {
            let report = Report {
                seed: plan.seed,
                pods: node.names.len(),
                faults,
                agents: node.agents,
                settled_after,
                lasted: node.outside.elapsed(),
                hash: node.outside.hash(),
            };
            Ok((report, node.outside.trace()))
        }
        Err(broken) => {
            let how = node.with_short_names(&broken.how);
            let broken = Broken { how, ..broken };
            let Plan { seed, plain, .. } = *plan;
            Err(Box::new(Failure { seed, plain, broken, trace: node.outside.trace() }))
        }
    }
}

/// The result of a history up to the settled node.
struct Played {
    settled_after: Duration,
    faults: BTreeMap<&'static str, usize>,
}

/// Runs the whole history.
async fn play(node: &mut Node, plan: &Plan) -> Result<Played, Broken> {
    // Manifests that exist before the first agent.
    let (first, later): (Vec<_>, Vec<_>) = plan
        .steps
        .iter()
        .partition(|step| step.at.is_zero() && matches!(step.what, ActionKind::Write(_)));
    for step in first {
        node.step(&step.what).await;
    }
    node.start_agent();
    for step in later {
        node.advance_to(step.at).await?;
        node.step(&step.what).await;
    }
    node.advance_to(plan.length).await?;
    more_faults(node).await?;
    node.calm().await?;
    let began = node.outside.elapsed();
    let settled_after = settle(node, began).await?;
    let faults = node.outside.all_that_happened();
    if plan.seed % 2 == 1 {
        invalidate_all(node).await;
    }
    check_agent_restart(node).await?;
    node.journal_can_be_read()?;
    Ok(Played { settled_after, faults })
}

/// Adds faults if too few happened: some plans wait for calls that never come.
async fn more_faults(node: &mut Node) -> Result<(), Broken> {
    for _ in 0..100 {
        let happened = node.outside.all_that_happened();
        let others = happened.iter().filter(|(name, _)| **name != AGENT_KILLED);
        if others.map(|(_, count)| count).sum::<usize>() >= LEAST_FAULTS {
            break;
        }
        let fault = Fault::Error(model::ports::runtime::Code::Unavailable);
        node.step(&ActionKind::Arm(Rule { on: Target::AnyCall, skip: 0, fault })).await;
        let then = node.outside.elapsed() + Duration::from_secs(10);
        node.advance_to(then).await?;
    }
    Ok(())
}

async fn settle(node: &mut Node, began: Duration) -> Result<Duration, Broken> {
    let invariant = "after the last fault the node comes to match its manifests";
    let mut calm = began;
    loop {
        let now = node.outside.elapsed();
        let took = now.saturating_sub(began);
        let is_stuck = node.outside.under_way().then(|| "a call is in progress".to_owned());
        if is_stuck.is_some() {
            calm = now;
        }
        let is_late = took > PATIENCE || now.saturating_sub(calm) > CALM_PATIENCE;
        let snapshot = node.snapshot();
        let ends =
            node.stop_deadlines.live(&snapshot).map(|id| format!("{id} is still being stopped"));
        match unsettled(&snapshot, &node.wanted).or(is_stuck).or(ends) {
            None => return Ok(took),
            Some(how) if is_late => return Err(Broken { invariant, how }),
            Some(_) => {}
        }
        node.advance_to(now + Duration::from_secs(5)).await?;
    }
}

/// The agent of a settled node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Agent {
    /// An agent that has met faults: its retries have long back-offs.
    Old,
    /// An agent that has met no fault.
    New,
}

async fn stay(node: &mut Node, agent: Agent, time: Duration) -> Result<(), Broken> {
    let invariant = "a node that matches its manifests stays so";
    let end = node.outside.elapsed() + time;
    let mut well = node.outside.elapsed();
    let reaction = if node.waits_for_min_age() { REACTION + NEXT_PASS } else { REACTION };
    while node.outside.elapsed() < end {
        let then = node.outside.elapsed() + Duration::from_secs(5);
        node.advance_to(then).await?;
        // A pod that ends by itself stops its sidecars afterwards, within its grace.
        let mut snapshot = Snapshot { ending: node.stop_deadlines.all(), ..node.snapshot() };
        if agent == Agent::New {
            snapshot.start_by = node.restart_deadlines.start_by(&snapshot, &node.wanted);
        }
        match unsettled(&snapshot, &node.wanted) {
            None => well = then,
            Some(how) if then > well + reaction => return Err(Broken { invariant, how }),
            Some(_) => {}
        }
    }
    Ok(())
}

/// Makes every manifest invalid, which changes nothing: the last valid version stays in effect, for the next
/// agent too.
async fn invalidate_all(node: &mut Node) {
    for name in node.names.clone() {
        node.step(&ActionKind::Invalidate(name)).await;
    }
}

/// Kills the agent of a settled node in a quiet moment, and starts another.
async fn check_agent_restart(node: &mut Node) -> Result<(), Broken> {
    node.keep_records();
    stay(node, Agent::Old, Duration::from_mins(2)).await?;
    // A pod may just be ending.
    let now = node.outside.elapsed();
    settle(node, now).await?;
    let mut reported = (node.statuses(), node.outside.elapsed());
    node.kill_agent();
    node.quiet()?;
    let (before, mut news) = (node.snapshot(), node.kept_records());
    // The end of a container that a cap removed is remembered only by the agent that observed it.
    reported.0.retain(|uid, _| !before.late_removals.contains(uid));
    // After the clock was set back, the deadline of a pod has not passed yet; only the old agent knew that it
    // had.
    reported.0.retain(|uid, reported| {
        let has_time = || before.has_time(uid, node.wanted.get(uid).map(|pod| &**pod));
        !(reported.starts_with("Failed") && has_time())
    });
    node.start_agent();
    node.keep_records();
    stay(node, Agent::New, Duration::from_mins(3)).await?;
    let since = node.kept_records();
    let changed = unexpected_action(&before, &since, &node.wanted);
    news.extend(since);
    let changed_status =
        || changed_status(&reported.0, reported.1, &node.statuses(), &news, REACTION);
    match changed.or_else(changed_status) {
        None => Ok(()),
        Some(how) => Err(Broken { invariant: "a restart of the agent changes nothing", how }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::Policy;
    use crate::settled::tests::pod;

    #[tokio::test(start_paused = true)]
    async fn unfinished_call_prevents_a_settled_node() {
        let nothing = Plan { steps: Vec::new(), length: Duration::ZERO, ..Plan::plain(1) };
        let mut node = Node::new(&nothing);
        assert_eq!(settle(&mut node, Duration::ZERO).await, Ok(Duration::ZERO));
        let stuck = node.outside.fault_guard();
        let how = settle(&mut node, Duration::ZERO).await.unwrap_err().how;
        assert_eq!(how, "a call is in progress");
        drop(stuck);
        node.end();
    }

    #[tokio::test(start_paused = true)]
    async fn node_must_settle_sooner_after_the_last_fault() {
        let nothing = Plan { steps: Vec::new(), length: Duration::ZERO, ..Plan::plain(1) };
        for (goes_wrong, patience) in [(false, CALM_PATIENCE), (true, PATIENCE)] {
            let mut node = Node::new(&nothing);
            // There is no agent that could start it.
            node.step(&ActionKind::Write(pod(Policy::Always))).await;
            let fault_guard = goes_wrong.then(|| node.outside.fault_guard());
            let broken = settle(&mut node, Duration::ZERO).await.unwrap_err();
            assert!(broken.how.contains("has not run"), "{broken}");
            let took = node.outside.elapsed();
            assert!(took > patience && took <= patience + Duration::from_secs(5), "{took:?}");
            drop(fault_guard);
            node.end();
        }
    }

    #[test]
    fn history_with_too_few_events_is_rejected() {
        let report = |pods, errors, kills| Report {
            seed: 1,
            pods,
            faults: [("error", errors), (AGENT_KILLED, kills)].into(),
            agents: 2,
            settled_after: Duration::ZERO,
            lasted: Duration::ZERO,
            hash: 0,
        };
        let rows = [
            (report(5, 10, 1), true),
            (report(4, 10, 1), false),
            (report(5, 9, 1), false),
            (report(5, 9, 3), false),
            (report(5, 11, 0), false),
        ];
        for (report, has_enough_events) in rows {
            assert_eq!(report.has_enough_events(), has_enough_events, "{report}");
        }
        let reported = report(5, 10, 1).to_string();
        assert!(reported.contains("5 pods, 11 faults, 1 killed agents of 2"), "{reported}");
    }
}
