//! Measures how long pods of the API take to start; upstream's `podStartupLatencyTracker`.

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{ContainerStatus, Pod, PodStatus, Volume};
use model::ids::PodUid;
use podspec::view;

/// The start latency of a pod.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StartDuration {
    /// From its creation until the API server showed that all its containers run.
    pub total: Duration,
    /// Without image pulls and init containers; `None` for a pod with volumes that must be
    /// attached or depend on other components.
    pub own: Option<Duration>,
    /// Whether the pod has its own network.
    pub has_network: bool,
}

/// Starting pods.
#[derive(Debug, Default)]
pub struct StartTracker {
    pods: BTreeMap<PodUid, Start>,
}

#[derive(Debug)]
enum Start {
    /// Not started yet, as far as it was observed.
    Begun(Pulls),
    /// Initially unschedulable, which is not the node's fault.
    NotCounted,
}

impl StartTracker {
    /// Processes the API server's copy of a pod. A pod is measured if it was seen before its start.
    pub fn observe(&mut self, pod: &Pod, now: Timestamp) -> Option<StartDuration> {
        let uid = view::uid(pod);
        if view::is_mirror(pod) {
            // A mirror pod only shows a pod that the node started by itself.
            return None;
        }
        if view::is_terminal(pod) {
            self.pods.remove(&uid);
            return None;
        }
        let none = PodStatus::default();
        let status = pod.status.as_ref().unwrap_or(&none);
        match self.pods.get_mut(&uid) {
            None if status.start_time.is_some() => None,
            Some(Start::NotCounted) => None,
            _ if is_unschedulable(status) => {
                self.pods.insert(uid, Start::NotCounted);
                None
            }
            None => {
                self.pods.insert(uid, Start::Begun(Pulls::default()));
                None
            }
            Some(Start::Begun(pulls)) => {
                let pulling = pulls.total();
                let started = has_started(status).then(|| started(pod, pulling, now)).flatten()?;
                self.pods.remove(&uid);
                Some(started)
            }
        }
    }

    /// Records that an image pull for a pod began or ended.
    pub fn pulling(&mut self, uid: &PodUid, pull: Pull, now: Timestamp) {
        if let Some(Start::Begun(pulls)) = self.pods.get_mut(uid) {
            pulls.record(pull, now);
        }
    }

    /// Drops all other pods.
    pub fn retain(&mut self, mut is_there: impl FnMut(&PodUid) -> bool) {
        self.pods.retain(|uid, _| is_there(uid));
    }

    /// The number of starting pods.
    pub fn count(&self) -> usize {
        self.pods.len()
    }
}

/// An event of an image pull.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pull {
    /// The pull began.
    Began,
    /// The pull succeeded.
    Ended,
}

/// The image pulls of a pod.
#[derive(Debug, Default)]
struct Pulls {
    /// Pulls in progress, the oldest first.
    open: Vec<Timestamp>,
    /// Start and end times, in the order of their ends.
    done: Vec<(Timestamp, Timestamp)>,
}

impl Pulls {
    fn record(&mut self, pull: Pull, now: Timestamp) {
        match pull {
            Pull::Began => self.open.push(now),
            // A failed pull is started again; the time counts from the first attempt.
            Pull::Ended if !self.open.is_empty() => self.done.push((self.open.remove(0), now)),
            Pull::Ended => {}
        }
    }

    /// The total time of pulls, overlaps counted once.
    fn total(&self) -> Duration {
        let mut done = self.done.clone();
        done.sort_unstable();
        let (mut total, mut until) = (Duration::ZERO, Timestamp::MIN);
        for (from, to) in done {
            total += between(from.max(until), to);
            until = until.max(to);
        }
        total
    }
}

fn between(from: Timestamp, to: Timestamp) -> Duration {
    Duration::try_from(to.duration_since(from)).unwrap_or_default()
}

fn started(pod: &Pod, pulling: Duration, now: Timestamp) -> Option<StartDuration> {
    let total = between(pod.metadata.creation_timestamp.as_ref()?.0, now);
    let initializing = pod.status.as_ref().map(init_work).unwrap_or_default();
    let volumes = view::spec(pod).and_then(|spec| spec.volumes.as_deref()).unwrap_or_default();
    let is_counted = volumes.iter().all(is_of_the_node);
    let own = is_counted.then(|| total.saturating_sub(pulling).saturating_sub(initializing));
    Some(StartDuration { total, own, has_network: !view::host_network(pod) })
}

/// The total run time of terminated init containers.
fn init_work(status: &PodStatus) -> Duration {
    let ended = |one: &ContainerStatus| {
        let end = one.state.as_ref()?.terminated.as_ref()?;
        Some(between(end.started_at.as_ref()?.0, end.finished_at.as_ref()?.0))
    };
    status.init_container_statuses.iter().flatten().filter_map(ended).sum()
}

fn has_started(status: &PodStatus) -> bool {
    let runs = |one: &ContainerStatus| {
        let running = one.state.as_ref().and_then(|state| state.running.as_ref());
        running.is_some_and(|running| running.started_at.is_some())
    };
    let containers = status.container_statuses.as_deref().unwrap_or_default();
    !containers.is_empty() && containers.iter().all(runs)
}

fn is_unschedulable(status: &PodStatus) -> bool {
    let mut conditions = status.conditions.iter().flatten();
    conditions.any(|one| one.type_ == "PodScheduled" && one.status == "False")
}

/// Whether the node creates a volume by itself.
fn is_of_the_node(volume: &Volume) -> bool {
    volume.secret.is_some()
        || volume.config_map.is_some()
        || volume.downward_api.is_some()
        || volume.empty_dir.is_some()
        || volume.projected.is_some()
}

#[cfg(test)]
#[path = "starts_tests.rs"]
mod tests;
