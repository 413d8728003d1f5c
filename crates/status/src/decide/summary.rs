//! A pod as a line of `kubectl get pods`.

use std::fmt;

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::{
    ContainerState, ContainerStateTerminated, ContainerStatus, Pod, PodStatus,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use podspec::view;

use crate::decide::human_duration::human_duration;
use crate::decide::phase::Phase;

/// A line of a list of pods.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PodSummary {
    /// Its name.
    pub name: String,
    /// Its namespace.
    pub namespace: String,
    /// Ready containers of all long-running ones: `1/2`.
    pub ready: String,
    /// The status: `Running`, `CrashLoopBackOff`, `Init:0/1`, `Terminating`, …
    pub status: String,
    /// Restarts of its containers.
    pub restarts: Restarts,
    /// The age.
    pub age: Age,
    /// Its IP address.
    pub ip: Option<String>,
    /// Its node.
    pub node: Option<String>,
}

/// Restarts of a pod's containers; shown as `0`, or `3 (5m ago)`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Restarts {
    /// The number of restarts.
    pub count: i64,
    /// The time since the instance before the newest one terminated.
    pub last: Option<SignedDuration>,
}

impl fmt::Display for Restarts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.last {
            Some(last) if self.count != 0 => {
                write!(f, "{} ({} ago)", self.count, human_duration(last))
            }
            _ => write!(f, "{}", self.count),
        }
    }
}

/// An age, if it is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Age(pub Option<SignedDuration>);

impl fmt::Display for Age {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Some(age) => f.write_str(&human_duration(age)),
            None => f.write_str("<unknown>"),
        }
    }
}

/// The line of a pod in a list; upstream's `printPod`. The age of a pod of a manifest, which was not created by an API
/// server, counts from its start.
pub fn summary(pod: &Pod, status: &PodStatus, now: Timestamp) -> PodSummary {
    let name = view::pod_name(pod);
    let mut line = Line { word: word_of_pod(status), ..Line::default() };
    let initializing = line.add_init_containers(pod, status);
    if !initializing || has_condition(status, "Initialized") {
        line.add_regular_containers(status);
    }
    let sidecars = view::init_containers(pod).iter().filter(|init| view::is_sidecar(init));
    let total = view::containers(pod).len() + sidecars.count();
    let since = |time: &Time| now.duration_since(time.0);
    let born = pod.metadata.creation_timestamp.as_ref().or(status.start_time.as_ref());
    PodSummary {
        name: name.name.to_string(),
        namespace: name.namespace.to_string(),
        ready: format!("{}/{total}", line.ready),
        status: word_of_deletion(pod, status).map_or(line.word, Into::into),
        restarts: Restarts { count: line.restarts, last: line.last_end.as_ref().map(since) },
        age: Age(born.map(since)),
        ip: status.pod_ips.iter().flatten().next().map(|ip| ip.ip.clone()),
        node: view::spec(pod).and_then(|spec| spec.node_name.clone()),
    }
}

/// The status of a pod if its containers do not determine it. A pod without a phase is
/// pending, as in an API server.
fn word_of_pod(status: &PodStatus) -> String {
    const GATED: &str = "SchedulingGated";
    let gated = conditions(status)
        .any(|(type_, _, reason)| type_ == "PodScheduled" && reason == Some(GATED));
    let reason = status.reason.as_deref().filter(|reason| !reason.is_empty());
    let phase = status.phase.as_deref().unwrap_or(Phase::Pending.as_str());
    if gated { GATED.to_owned() } else { reason.unwrap_or(phase).to_owned() }
}

fn word_of_deletion(pod: &Pod, status: &PodStatus) -> Option<&'static str> {
    if !view::is_being_deleted(pod) {
        None
    } else if status.reason.as_deref() == Some("NodeLost") {
        Some("Unknown")
    } else if Phase::of(status).is_some_and(Phase::is_terminal) {
        None
    } else {
        Some("Terminating")
    }
}

/// A line in construction.
#[derive(Debug, Default)]
struct Line {
    word: String,
    ready: usize,
    restarts: i64,
    /// The latest termination of an instance before the newest one, over all containers.
    last_end: Option<Time>,
}

impl Line {
    fn count_restarts(&mut self, status: &ContainerStatus) {
        self.restarts += i64::from(status.restart_count);
        let last = status.last_state.as_ref().and_then(|last| last.terminated.as_ref());
        let ended = last.and_then(|last| last.finished_at.clone());
        self.last_end = self.last_end.take().max(ended);
    }

    /// Adds init containers up to the one that blocks the pod; returns whether there is one.
    fn add_init_containers(&mut self, pod: &Pod, status: &PodStatus) -> bool {
        let specified = view::init_containers(pod);
        let mut of_sidecars = Line::default();
        let mut initializing = false;
        for (index, one) in status.init_container_statuses.iter().flatten().enumerate() {
            let is_sidecar =
                specified.iter().any(|init| init.name == one.name && view::is_sidecar(init));
            self.count_restarts(one);
            if is_sidecar {
                of_sidecars.count_restarts(one);
            }
            let place = (index, specified.len());
            match word_of_init(one, is_sidecar, place) {
                Some(word) => {
                    self.word = word;
                    initializing = true;
                    break;
                }
                None if is_sidecar && one.started == Some(true) && one.ready && !succeeded(one) => {
                    self.ready += 1;
                }
                None => {}
            }
        }
        if !initializing || has_condition(status, "Initialized") {
            // Restarts of init containers do not count then.
            self.restarts = of_sidecars.restarts;
            self.last_end = of_sidecars.last_end;
        }
        initializing
    }

    fn add_regular_containers(&mut self, status: &PodStatus) {
        let mut any_running = false;
        let mut error = None;
        // From the last to the first, so that the first one takes precedence.
        for one in status.container_statuses.iter().flatten().rev() {
            self.count_restarts(one);
            let Some(state) = &one.state else { continue };
            if let Some(reason) = waiting_reason(state) {
                reason.clone_into(&mut self.word);
            } else if let Some(end) = &state.terminated {
                self.word = word_of_end(end);
                if end.exit_code != 0 {
                    error = Some(self.word.clone());
                }
            } else if one.ready && state.running.is_some() {
                any_running = true;
                self.ready += 1;
            }
        }
        // A completed container is ignored if another one runs or failed.
        if self.word == "Completed" {
            if any_running && has_condition(status, "Ready") {
                "Running".clone_into(&mut self.word);
            } else if let Some(error) = error {
                self.word = error;
            } else if any_running {
                "NotReady".clone_into(&mut self.word);
            }
        }
    }
}

/// The status for an init container that blocks the pod; `place` is its index and the number of
/// init containers.
fn word_of_init(
    status: &ContainerStatus,
    is_sidecar: bool,
    place: (usize, usize),
) -> Option<String> {
    if succeeded(status) || is_sidecar && status.started == Some(true) {
        return None;
    }
    let state = status.state.as_ref();
    if let Some(end) = state.and_then(|state| state.terminated.as_ref()) {
        return Some(format!("Init:{}", word_of_end(end)));
    }
    let waiting = state.and_then(waiting_reason).filter(|reason| *reason != "PodInitializing");
    Some(match waiting {
        Some(reason) => format!("Init:{reason}"),
        None => format!("Init:{}/{}", place.0, place.1),
    })
}

fn word_of_end(end: &ContainerStateTerminated) -> String {
    match (end.reason.as_deref(), end.signal) {
        (Some(reason), _) if !reason.is_empty() => reason.to_owned(),
        (_, Some(signal)) if signal != 0 => format!("Signal:{signal}"),
        _ => format!("ExitCode:{}", end.exit_code),
    }
}

fn waiting_reason(state: &ContainerState) -> Option<&str> {
    state.waiting.as_ref()?.reason.as_deref().filter(|reason| !reason.is_empty())
}

fn succeeded(status: &ContainerStatus) -> bool {
    let end = status.state.as_ref().and_then(|state| state.terminated.as_ref());
    end.is_some_and(|end| end.exit_code == 0)
}

fn conditions(status: &PodStatus) -> impl Iterator<Item = (&str, &str, Option<&str>)> {
    status.conditions.iter().flatten().map(|condition| {
        (condition.type_.as_str(), condition.status.as_str(), condition.reason.as_deref())
    })
}

fn has_condition(status: &PodStatus, type_: &str) -> bool {
    conditions(status).any(|(found, says, _)| found == type_ && says == "True")
}
