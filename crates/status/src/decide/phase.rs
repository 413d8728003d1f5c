//! The phase of a pod.

use k8s_openapi::api::core::v1::{Container, ContainerStatus, Pod, PodStatus};
use podspec::{restart, view};

use crate::decide::container_statuses::Containers;
use crate::decide::input::StatusInput;
use crate::decide::starting_over;

/// Where a pod is in its life, in one word.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Phase {
    /// Something of it has not run yet.
    Pending,
    /// Everything ran, and something still does or will again.
    Running,
    /// Everything ended well, for good.
    Succeeded,
    /// Everything ended for good, something badly.
    Failed,
}

impl Phase {
    /// The name that the API has for it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Pending => "Pending",
            Self::Running => "Running",
            Self::Succeeded => "Succeeded",
            Self::Failed => "Failed",
        }
    }

    /// The phase that a status tells.
    pub fn of(status: &PodStatus) -> Option<Self> {
        let all = [Self::Pending, Self::Running, Self::Succeeded, Self::Failed];
        let text = status.phase.as_deref()?;
        all.into_iter().find(|phase| phase.as_str() == text)
    }

    /// Whether the pod is over.
    pub fn is_terminal(self) -> bool {
        matches!(self, Self::Succeeded | Self::Failed)
    }
}

/// What the phase depends on besides the containers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Situation {
    /// Whether everything was stopped and nothing will run again.
    pub stopped_for_good: bool,
    /// Whether a regular container was made in the sandbox that is there: then init containers have
    /// done their work in it.
    pub initialized: bool,
}

/// The phase by the statuses of the containers; upstream's `getPhase`.
pub fn phase(pod: &Pod, containers: &Containers, situation: Situation) -> Phase {
    let count = Count::of(pod, containers);
    if count.fatal_inits > 0 {
        return Phase::Failed;
    }
    // Nobody starts a sidecar for those that have ended for good; upstream's pod would wait for it.
    let is_over = count.stopped == view::containers(pod).len() && count.restartable == 0;
    let sidecars_wait =
        (count.pending_sidecars > 0 && !situation.initialized) || count.idle_sidecars > 0;
    let is_pending = count.pending_inits > 0 || count.waiting > 0 || count.unknown > 0;
    if is_pending || (sidecars_wait && !is_over) {
        return Phase::Pending;
    }
    if count.running > 0 {
        return Phase::Running;
    }
    if count.stopped == 0 {
        return Phase::Pending;
    }
    // Static pods are started again as long as their manifest is there.
    let final_stop = situation.stopped_for_good && !view::is_static(pod);
    if !final_stop && count.restartable > 0 {
        Phase::Running
    } else if count.stopped == count.succeeded {
        Phase::Succeeded
    } else {
        Phase::Failed
    }
}

/// What the life of a container came to so far.
enum Seen {
    /// It has no status, or one without a state.
    Unknown,
    /// It waits and never ran.
    NeverRan,
    Running,
    /// It ended.
    Ended(i32),
    /// It ended and waits to run again.
    EndedBefore(i32),
}

impl Seen {
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

/// Why a container ended the last time, in a word.
fn last_reason(status: Option<&ContainerStatus>) -> &str {
    let end = status.and_then(|status| {
        let now = status.state.as_ref().and_then(|state| state.terminated.as_ref());
        now.or_else(|| status.last_state.as_ref()?.terminated.as_ref())
    });
    end.and_then(|end| end.reason.as_deref()).unwrap_or_default()
}

/// Whether a container that ended with this code runs again. One that went so that all start over does, and one that
/// was made again, whatever for.
fn restarts(pod: &Pod, container: &Container, status: Option<&ContainerStatus>, code: i32) -> bool {
    restart::restarts_after(pod, container, code)
        || last_reason(status) == starting_over::REASON
        || status.is_some_and(is_made_again)
}

/// Whether it waits to be started, and what ended was an instance before it.
fn is_made_again(status: &ContainerStatus) -> bool {
    let waits = status.state.as_ref().is_some_and(|state| state.waiting.is_some());
    let last = status.last_state.as_ref().and_then(|last| last.terminated.as_ref());
    let last = last.and_then(|last| last.container_id.as_ref());
    waits && last.is_some() && status.container_id.is_some() && status.container_id.as_ref() != last
}

#[derive(Debug, Default)]
struct Count {
    /// Regular init containers that have not done their work.
    pending_inits: usize,
    /// Regular init containers that failed for good.
    fatal_inits: usize,
    /// Sidecars that have not started.
    pending_sidecars: usize,
    /// Sidecars that never ran, or are not known.
    idle_sidecars: usize,
    unknown: usize,
    waiting: usize,
    running: usize,
    stopped: usize,
    /// Of the stopped ones, those that run again.
    restartable: usize,
    /// Of the stopped ones, those that ended with 0 and do not wait.
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
        match Seen::of(status) {
            Seen::Unknown | Seen::NeverRan | Seen::Running => self.pending_inits += 1,
            Seen::Ended(code) | Seen::EndedBefore(code) => {
                let failure = restart::init_failure(code, last_reason(status));
                let fatal = failure.is_some_and(|code| !restarts(pod, container, status, code));
                self.fatal_inits += usize::from(fatal);
            }
        }
    }

    fn add_sidecar(&mut self, status: Option<&ContainerStatus>) {
        match Seen::of(status) {
            Seen::Unknown => self.idle_sidecars += 1,
            Seen::NeverRan => {
                self.pending_sidecars += 1;
                self.idle_sidecars += 1;
            }
            Seen::Running => {
                let started = status.and_then(|status| status.started).unwrap_or(false);
                self.pending_sidecars += usize::from(!started);
                self.running += 1;
            }
            // They come and go with the regular ones and say nothing about the pod.
            Seen::Ended(_) | Seen::EndedBefore(_) => {}
        }
    }

    fn add_regular(&mut self, pod: &Pod, container: &Container, status: Option<&ContainerStatus>) {
        let seen = Seen::of(status);
        match seen {
            Seen::Unknown => self.unknown += 1,
            Seen::NeverRan => self.waiting += 1,
            Seen::Running => self.running += 1,
            Seen::Ended(code) | Seen::EndedBefore(code) => {
                self.stopped += 1;
                self.restartable += usize::from(restarts(pod, container, status, code));
            }
        }
        self.succeeded += usize::from(matches!(seen, Seen::Ended(0)));
    }
}

/// A phase with its reason.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Settled {
    pub(crate) phase: Phase,
    pub(crate) reason: Option<String>,
    pub(crate) message: Option<String>,
}

/// The phase to tell: a terminal one is never left, neither the API's nor the one told before; then
/// a failure of the whole pod counts, then the containers.
pub(crate) fn settled(input: &StatusInput<'_>, computed: Phase) -> Settled {
    let told = [input.pod.status.as_ref(), input.previous];
    let terminal =
        told.into_iter().flatten().filter_map(Phase::of).find(|phase| phase.is_terminal());
    if let (None, Some(failure)) = (terminal, input.failure) {
        return Settled {
            phase: Phase::Failed,
            reason: Some(failure.reason.to_owned()),
            message: Some(failure.message.clone()),
        };
    }
    let phase = terminal.unwrap_or(computed);
    // A reason belongs to its phase and goes with it.
    let keep = |field: fn(&PodStatus) -> Option<&String>| {
        let same = [input.base(), input.pod.status.as_ref()].into_iter().flatten();
        let mut texts = same.filter(|told| Phase::of(told) == Some(phase)).filter_map(field);
        texts.find(|text| !text.is_empty()).cloned()
    };
    Settled {
        phase,
        reason: keep(|status| status.reason.as_ref()),
        message: keep(|status| status.message.as_ref()),
    }
}

/// What others may see of a status while containers of the pod may still run: not yet that it is
/// over, because who sees that gives away what the pod uses.
#[must_use]
pub fn held_back(published: Option<&PodStatus>, computed: PodStatus, may_run: bool) -> PodStatus {
    let is_over = |status: &PodStatus| Phase::of(status).is_some_and(Phase::is_terminal);
    if !may_run || !is_over(&computed) || published.is_some_and(is_over) {
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
