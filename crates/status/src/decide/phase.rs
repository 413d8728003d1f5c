//! The phase of a pod.

use k8s_openapi::api::core::v1::{Container, ContainerStatus, Pod, PodStatus};
use podspec::{restart, view};

use crate::decide::container_statuses::Containers;
use crate::decide::input::StatusInput;
use crate::decide::restart_all;

/// The phase of a pod.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Phase {
    /// Some container of the pod has not run yet.
    Pending,
    /// Everything has run, and something still runs or will run again.
    Running,
    /// Everything has succeeded.
    Succeeded,
    /// Everything has terminated, something with a failure.
    Failed,
}

impl Phase {
    /// The name in the API.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Pending => "Pending",
            Self::Running => "Running",
            Self::Succeeded => "Succeeded",
            Self::Failed => "Failed",
        }
    }

    /// The phase of a status.
    pub fn of(status: &PodStatus) -> Option<Self> {
        let all = [Self::Pending, Self::Running, Self::Succeeded, Self::Failed];
        let text = status.phase.as_deref()?;
        all.into_iter().find(|phase| phase.as_str() == text)
    }

    /// Whether the phase is terminal.
    pub fn is_terminal(self) -> bool {
        matches!(self, Self::Succeeded | Self::Failed)
    }
}

/// Inputs of the phase other than the containers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct PhaseContext {
    /// Whether everything was stopped and nothing will run again.
    pub stopped_for_good: bool,
    /// Whether a regular container was created in the current sandbox: then init containers have
    /// completed in it.
    pub initialized: bool,
}

/// Computes the phase from the statuses of the containers; upstream's `getPhase`.
pub fn phase(pod: &Pod, containers: &Containers, context: PhaseContext) -> Phase {
    let count = Count::of(pod, containers);
    if count.fatal_inits > 0 {
        return Phase::Failed;
    }
    // No sidecar is started for containers that have terminated for good; upstream's pod would wait for it.
    let all_stopped = count.stopped == view::containers(pod).len() && count.restartable == 0;
    let sidecars_wait =
        (count.pending_sidecars > 0 && !context.initialized) || count.idle_sidecars > 0;
    let is_pending = count.pending_inits > 0 || count.waiting > 0 || count.unknown > 0;
    if is_pending || (sidecars_wait && !all_stopped) {
        return Phase::Pending;
    }
    if count.running > 0 {
        return Phase::Running;
    }
    if count.stopped == 0 {
        return Phase::Pending;
    }
    // Static pods are restarted as long as their manifest exists.
    let final_stop = context.stopped_for_good && !view::is_static(pod);
    if !final_stop && count.restartable > 0 {
        Phase::Running
    } else if count.stopped == count.succeeded {
        Phase::Succeeded
    } else {
        Phase::Failed
    }
}

/// The state of a container for the phase.
enum ContainerPhase {
    /// It has no status, or one without a state.
    Unknown,
    /// It waits and never ran.
    NeverRan,
    Running,
    /// It terminated.
    Ended(i32),
    /// It terminated and waits to run again.
    EndedBefore(i32),
}

impl ContainerPhase {
    fn of(status: Option<&ContainerStatus>) -> Self {
        let Some(status) = status else { return Self::Unknown };
        let Some(state) = &status.state else { return Self::Unknown };
        if state.running.is_some() {
            return Self::Running;
        }
        if let Some(end) = &state.terminated {
            return Self::Ended(end.exit_code);
        }
        if state.waiting.is_none() {
            return Self::Unknown;
        }
        let last = status.last_state.as_ref().and_then(|last| last.terminated.as_ref());
        last.map_or(Self::NeverRan, |last| Self::EndedBefore(last.exit_code))
    }
}

/// The reason of the last termination.
fn last_reason(status: Option<&ContainerStatus>) -> &str {
    let end = status.and_then(|status| {
        let now = status.state.as_ref().and_then(|state| state.terminated.as_ref());
        now.or_else(|| status.last_state.as_ref()?.terminated.as_ref())
    });
    end.and_then(|end| end.reason.as_deref()).unwrap_or_default()
}

/// Whether a container that terminated with this code runs again. A container that was stopped by a restart of all
/// containers does, and so does one that was created again.
fn restarts(pod: &Pod, container: &Container, status: Option<&ContainerStatus>, code: i32) -> bool {
    restart::restarts_after(pod, container, code)
        || last_reason(status) == restart_all::REASON
        || status.is_some_and(is_made_again)
}

/// Whether it waits to start, and an earlier instance has terminated.
fn is_made_again(status: &ContainerStatus) -> bool {
    let waits = status.state.as_ref().is_some_and(|state| state.waiting.is_some());
    let last = status.last_state.as_ref().and_then(|last| last.terminated.as_ref());
    let last = last.and_then(|last| last.container_id.as_ref());
    waits && last.is_some() && status.container_id.is_some() && status.container_id.as_ref() != last
}

#[derive(Debug, Default)]
struct Count {
    /// Regular init containers that have not completed.
    pending_inits: usize,
    /// Regular init containers that failed for good.
    fatal_inits: usize,
    /// Sidecars that have not started.
    pending_sidecars: usize,
    /// Sidecars that never ran, or are unknown.
    idle_sidecars: usize,
    unknown: usize,
    waiting: usize,
    running: usize,
    stopped: usize,
    /// Of the stopped ones, those that run again.
    restartable: usize,
    /// Of the stopped ones, those that exited with 0 and do not wait.
    succeeded: usize,
}

impl Count {
    fn of(pod: &Pod, containers: &Containers) -> Self {
        let mut count = Self::default();
        for container in view::init_containers(pod) {
            let status = containers.find(&container.name);
            if view::is_sidecar(container) {
                count.add_sidecar(status);
            } else {
                count.add_init(pod, container, status);
            }
        }
        for container in view::containers(pod) {
            count.add_regular(pod, container, containers.find(&container.name));
        }
        count
    }

    fn add_init(&mut self, pod: &Pod, container: &Container, status: Option<&ContainerStatus>) {
        match ContainerPhase::of(status) {
            ContainerPhase::Unknown | ContainerPhase::NeverRan | ContainerPhase::Running => {
                self.pending_inits += 1;
            }
            ContainerPhase::Ended(code) | ContainerPhase::EndedBefore(code) => {
                let failure = restart::init_failure(code, last_reason(status));
                let fatal = failure.is_some_and(|code| !restarts(pod, container, status, code));
                self.fatal_inits += usize::from(fatal);
            }
        }
    }

    fn add_sidecar(&mut self, status: Option<&ContainerStatus>) {
        match ContainerPhase::of(status) {
            ContainerPhase::Unknown => self.idle_sidecars += 1,
            ContainerPhase::NeverRan => {
                self.pending_sidecars += 1;
                self.idle_sidecars += 1;
            }
            ContainerPhase::Running => {
                let started = status.and_then(|status| status.started).unwrap_or(false);
                self.pending_sidecars += usize::from(!started);
                self.running += 1;
            }
            // They start and stop with the regular ones and do not affect the phase.
            ContainerPhase::Ended(_) | ContainerPhase::EndedBefore(_) => {}
        }
    }

    fn add_regular(&mut self, pod: &Pod, container: &Container, status: Option<&ContainerStatus>) {
        let seen = ContainerPhase::of(status);
        match seen {
            ContainerPhase::Unknown => self.unknown += 1,
            ContainerPhase::NeverRan => self.waiting += 1,
            ContainerPhase::Running => self.running += 1,
            ContainerPhase::Ended(code) | ContainerPhase::EndedBefore(code) => {
                self.stopped += 1;
                self.restartable += usize::from(restarts(pod, container, status, code));
            }
        }
        self.succeeded += usize::from(matches!(seen, ContainerPhase::Ended(0)));
    }
}

/// A phase with its reason.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct SettledPhase {
    pub(crate) phase: Phase,
    pub(crate) reason: Option<String>,
    pub(crate) message: Option<String>,
}

/// The phase to publish: a terminal phase of the API or of the previous status is never left; then
/// a failure of the whole pod counts, then the containers.
pub(crate) fn settled(input: &StatusInput<'_>, computed: Phase) -> SettledPhase {
    let known = [input.pod.status.as_ref(), input.previous];
    let terminal =
        known.into_iter().flatten().filter_map(Phase::of).find(|phase| phase.is_terminal());
    if let (None, Some(failure)) = (terminal, input.failure) {
        return SettledPhase {
            phase: Phase::Failed,
            reason: Some(failure.reason.to_owned()),
            message: Some(failure.message.clone()),
        };
    }
    let phase = terminal.unwrap_or(computed);
    // A reason belongs to its phase and is dropped with it.
    let keep = |field: fn(&PodStatus) -> Option<&String>| {
        let same = [input.base(), input.pod.status.as_ref()].into_iter().flatten();
        let mut texts = same.filter(|status| Phase::of(status) == Some(phase)).filter_map(field);
        texts.find(|text| !text.is_empty()).cloned()
    };
    SettledPhase {
        phase,
        reason: keep(|status| status.reason.as_ref()),
        message: keep(|status| status.message.as_ref()),
    }
}

/// The published status while containers of the pod may still run: without a terminal phase,
/// because other components release the resources of a terminal pod.
#[must_use]
pub fn held_back(published: Option<&PodStatus>, computed: PodStatus, may_run: bool) -> PodStatus {
    let is_terminal = |status: &PodStatus| Phase::of(status).is_some_and(Phase::is_terminal);
    if !may_run || !is_terminal(&computed) || published.is_some_and(is_terminal) {
        return computed;
    }
    let pending = || Some(Phase::Pending.as_str().to_owned());
    PodStatus {
        phase: published.and_then(|published| published.phase.clone()).or_else(pending),
        reason: published.and_then(|published| published.reason.clone()),
        message: published.and_then(|published| published.message.clone()),
        ..computed
    }
}
