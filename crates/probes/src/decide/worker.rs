//! One probe of one container: whether it runs now, and what its verdicts mean.
//!
//! ```text
//!  no instance ──> armed ──> verdict ──> result, after as many equal verdicts as the threshold
//!       ^            ^          │
//!       └─ new id ───┴─ on hold <── liveness failure, any startup result
//! ```

use std::time::Duration;

use jiff::Timestamp;
use model::ids::ContainerId;
use model::probe::{ProbeCount, ProbeFailure, ProbeKind};

use super::timing::Timing;
use super::view::ContainerView;

/// Facts about the agent that decide about containers which ran before it started.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AgentStart {
    /// When the agent started.
    pub at: Timestamp,
    /// Whether such containers count as not started and not ready until their probes pass again.
    pub resets: bool,
}

/// A probe of a container.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Worker {
    kind: ProbeKind,
    timing: Timing,
    instance: Option<ContainerId>,
    counted: ProbeCount,
    /// Equal verdicts in a row, for display.
    run_length: u32,
    /// The due time of the last failure that counted while the period was shortened.
    counted_at: Option<Duration>,
    /// Whether failures before the end of the first period do not count.
    is_lenient: bool,
}

impl Worker {
    /// A worker that has seen no instance.
    pub fn new(kind: ProbeKind, timing: Timing) -> Self {
        let counted = ProbeCount::default();
        Self {
            kind,
            timing,
            instance: None,
            counted,
            run_length: 0,
            counted_at: None,
            is_lenient: false,
        }
    }

    /// The kind of the probe.
    pub fn kind(&self) -> ProbeKind {
        self.kind
    }

    /// The settings of the probe.
    pub fn timing(&self) -> &Timing {
        &self.timing
    }

    /// The instance that is probed.
    pub fn instance(&self) -> Option<&ContainerId> {
        self.instance.as_ref()
    }

    /// Equal verdicts in a row.
    pub fn run_length(&self) -> u32 {
        self.run_length
    }

    /// The state that survives a restart of the agent.
    pub fn counted(&self) -> &ProbeCount {
        &self.counted
    }

    /// Takes the status of the container. Returns how long to wait at least before the next attempt; nothing if there
    /// is none before the status changes.
    pub fn observe(
        &mut self,
        view: &ContainerView,
        saved: impl FnOnce(&ContainerId) -> Option<ProbeCount>,
        start: AgentStart,
        now: Timestamp,
    ) -> Option<Duration> {
        let id = view.id.as_ref()?;
        if self.instance.as_ref() != Some(id) {
            self.begin(view, saved(id), start);
            self.instance = Some(id.clone());
        }
        let since = view.running_since?;
        let is_gated = (self.kind == ProbeKind::Startup) == view.started;
        if self.counted.on_hold || is_gated {
            return None;
        }
        let age = Duration::try_from(now.duration_since(since)).unwrap_or_default();
        Some(self.first_delay().saturating_sub(age))
    }

    /// How long after the start of its container a probe runs first. Upstream's first liveness probe comes within a period,
    /// at a moment that depends on when the pod was added: the end of the period kills no container sooner than that.
    fn first_delay(&self) -> Duration {
        let Timing { initial_delay, period, .. } = self.timing;
        match self.kind {
            ProbeKind::Liveness if initial_delay.is_zero() => period,
            _ => initial_delay,
        }
    }

    /// Starts with an instance and its state that an earlier agent saved. The published status says whether the
    /// instance is started and ready; it may be newer than the saved state.
    fn begin(&mut self, view: &ContainerView, saved: Option<ProbeCount>, start: AgentStart) {
        let saved = saved.filter(|_| !start.resets);
        let is_early = self.kind == ProbeKind::Startup && self.timing.initial_delay.is_zero();
        self.is_lenient = is_early && saved.is_none() && !ran_before(view, start);
        self.counted_at = None;
        let first = self.first(view);
        self.counted = match (self.kind, saved) {
            (ProbeKind::Startup, Some(saved)) if !view.started => saved,
            (ProbeKind::Liveness, Some(saved)) => saved,
            (ProbeKind::Readiness, Some(saved)) => {
                let has_passed = saved.has_passed || view.ready;
                ProbeCount { result: Some(view.ready), has_passed, ..saved }
            }
            (ProbeKind::Startup | ProbeKind::Liveness | ProbeKind::Readiness, _) => first,
        };
        self.run_length = self.counted.run;
    }

    /// The state of an instance of which nothing is saved. A new instance is neither started nor ready; one that ran
    /// before the agent may be. The run continues over instances, as upstream counts.
    fn first(&self, view: &ContainerView) -> ProbeCount {
        let (result, on_hold) = match self.kind {
            ProbeKind::Liveness => (Some(true), false),
            ProbeKind::Readiness => (Some(view.ready), false),
            ProbeKind::Startup => (view.started.then_some(true), view.started),
        };
        let has_passed = self.kind != ProbeKind::Liveness && result == Some(true);
        let ProbeCount { last, run, .. } = self.counted;
        ProbeCount { result, last, run, on_hold, has_passed, failure: None }
    }

    /// The time from this attempt to the next.
    pub fn period(&self) -> Duration {
        let is_shortened = self.kind != ProbeKind::Liveness && !self.counted.has_passed;
        self.timing.startup_period.filter(|_| is_shortened).unwrap_or(self.timing.period)
    }

    /// Whether a change of the status is a reason to probe at once: a container that is not ready may be by now.
    pub fn wants_trigger(&self) -> bool {
        self.kind == ProbeKind::Readiness && self.counted.result != Some(true)
    }

    /// Takes the verdict of an attempt for an instance. `due` is when the attempt was due, counted from the first attempt
    /// for the instance. Returns whether the result changed.
    pub fn record(&mut self, id: &ContainerId, passes: bool, output: &str, due: Duration) -> bool {
        if self.instance.as_ref() != Some(id) || self.counted.on_hold {
            return false;
        }
        if !passes && !self.counts_failure(due) {
            return false;
        }
        let is_same = self.counted.last == Some(passes);
        self.run_length = if is_same { self.run_length.saturating_add(1) } else { 1 };
        let Timing { success_threshold, failure_threshold, .. } = self.timing;
        let threshold = if passes { success_threshold } else { failure_threshold };
        let counted = &mut self.counted;
        let before = if is_same { counted.run } else { 0 };
        counted.last = Some(passes);
        counted.run = before.saturating_add(1).min(threshold);
        if counted.run < threshold {
            return false;
        }
        let changed = counted.result != Some(passes);
        counted.result = Some(passes);
        counted.has_passed |= passes;
        counted.failure = None;
        if self.kind == ProbeKind::Startup || (self.kind == ProbeKind::Liveness && !passes) {
            counted.on_hold = true;
            counted.run = 0;
            counted.failure = (!passes).then(|| (self.run_length, output.to_owned()));
        }
        changed
    }

    /// Whether a failure counts. A startup probe begins at once, and a shortened period has more attempts: their failures
    /// must not use up the threshold sooner than upstream.
    fn counts_failure(&mut self, due: Duration) -> bool {
        if self.is_lenient && due < self.timing.period {
            return false;
        }
        if self.period() == self.timing.period {
            return true;
        }
        if self.counted_at.is_some_and(|at| due < at + self.timing.period) {
            return false;
        }
        self.counted_at = Some(due);
        true
    }

    /// Why the instance must be killed, if it must.
    pub fn kill(&self) -> Option<ProbeFailure> {
        if self.kind == ProbeKind::Readiness || !self.counted.on_hold {
            return None;
        }
        let (failures, output) = self.counted.failure.clone()?;
        let Timing { failure_threshold: threshold, period, .. } = self.timing;
        Some(ProbeFailure { kind: self.kind, failures, threshold, period, output })
    }
}

/// Whether a container started before the agent. Statuses have whole seconds: one of the same second counts as later.
pub fn ran_before(view: &ContainerView, start: AgentStart) -> bool {
    view.running_since.is_some_and(|since| since + Duration::from_secs(1) <= start.at)
}

#[cfg(test)]
#[path = "worker_tests.rs"]
mod tests;
