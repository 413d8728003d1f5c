//! The phases of a shutdown.

use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::Pod;
use podspec::view;

/// The lowest priority of critical pods.
const CRITICAL: i32 = 2_000_000_000;

/// The least time of a phase that is late.
const LEAST: Duration = Duration::from_secs(1);

/// A phase: pods from this priority on, up to that of the next phase, have this time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Phase {
    /// The least priority of its pods. The first phase has those below it too.
    pub priority: i32,
    /// How long it takes at most.
    pub time: Duration,
}

/// The phases of a shutdown, the lowest priority first. None: shutdowns are not delayed.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Phases(Vec<Phase>);

/// A pod of a phase.
#[derive(Debug, Clone, PartialEq)]
pub struct PlannedPod {
    /// The pod.
    pub pod: Arc<Pod>,
    /// Its grace period.
    pub grace: Duration,
}

/// What happens in a phase.
#[derive(Debug, Clone, PartialEq)]
pub struct PhasePlan {
    /// The phase, with the time that is left of it.
    pub phase: Phase,
    /// Its pods.
    pub pods: Vec<PlannedPod>,
}

impl Phases {
    /// The phases of `shutdownGracePeriodByPodPriority`, as priorities and seconds.
    pub fn by_priority(phases: impl IntoIterator<Item = (i32, i64)>) -> Self {
        let seconds = |seconds: i64| Duration::from_secs(u64::try_from(seconds).unwrap_or(0));
        let phases = phases.into_iter();
        let phases = phases.map(|(priority, time)| Phase { priority, time: seconds(time) });
        let mut phases: Vec<Phase> = phases.collect();
        phases.sort_by_key(|phase| phase.priority);
        Self(phases)
    }

    /// The phases of `shutdownGracePeriod` and `shutdownGracePeriodCriticalPods`, in whole seconds.
    pub fn of_two(whole: Duration, critical: Duration) -> Self {
        if whole.is_zero() {
            return Self::default();
        }
        let Some(regular) = whole.checked_sub(critical) else { return Self::default() };
        let phase = |priority, time: Duration| Phase {
            priority,
            time: Duration::from_secs(time.as_secs()),
        };
        Self(vec![phase(0, regular), phase(CRITICAL, critical)])
    }

    /// Whether shutdowns are not delayed.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The time of all phases.
    pub fn total(&self) -> Duration {
        self.0.iter().map(|phase| phase.time).sum()
    }

    /// Assigns pods to phases, of which this much time has passed already. Phases without pods are left out.
    pub fn plan(&self, pods: Vec<Arc<Pod>>, elapsed: Duration) -> Vec<PhasePlan> {
        let mut end = Duration::ZERO;
        let plan = |phase: &Phase| {
            end += phase.time;
            let left = end.saturating_sub(elapsed).min(phase.time);
            let time = if elapsed.is_zero() { left } else { left.max(LEAST) };
            PhasePlan { phase: Phase { time, ..*phase }, pods: Vec::new() }
        };
        let mut plans: Vec<PhasePlan> = self.0.iter().map(plan).collect();
        for pod in pods {
            let Some(plan) = plans.get_mut(self.phase_of(view::priority(&pod).unwrap_or(0))) else {
                continue;
            };
            let grace = grace(&pod).map_or(plan.phase.time, |grace| grace.min(plan.phase.time));
            plan.pods.push(PlannedPod { pod, grace });
        }
        plans.retain(|plan| !plan.pods.is_empty());
        plans
    }

    /// The position of the phase of a priority.
    fn phase_of(&self, priority: i32) -> usize {
        self.0.partition_point(|phase| phase.priority <= priority).saturating_sub(1)
    }
}

/// The grace period that a pod specifies.
fn grace(pod: &Pod) -> Option<Duration> {
    let seconds = view::spec(pod)?.termination_grace_period_seconds?;
    u64::try_from(seconds).ok().map(Duration::from_secs)
}

#[cfg(test)]
#[path = "phases_tests.rs"]
mod tests;
