//! Whether a sync acts for a pod: the pod may have finished, exceeded its deadline, or have to wait.

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Pod;
use model::observed::RuntimePodStatus;
use model::ports::events::PodEvent;
use model::wait::{Retry, Wait, WaitOn};
use pods::decide::requeue::no_later;
use podspec::view;

/// All that the plan depends on.
#[derive(Debug, Clone)]
pub(crate) struct SyncInput<'a> {
    /// The pod.
    pub(crate) pod: &'a Pod,
    /// Its observed status.
    pub(crate) observed: &'a RuntimePodStatus,
    /// Whether its containers have ended and none will be started again.
    pub(crate) has_finished: bool,
    /// Whether the published phase is terminal.
    pub(crate) has_terminal_phase: bool,
    /// When the pod's active deadline is over.
    pub(crate) deadline: Option<Timestamp>,
    /// Why the agent cannot run the pod yet.
    pub(crate) unsupported: Option<Unsupported>,
    /// Why the node's network is not ready.
    pub(crate) network_error: Option<String>,
    /// The time now.
    pub(crate) now: Timestamp,
}

/// The event for a pod that relies on a feature that the agent does not support yet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Unsupported {
    /// The reason.
    pub(crate) reason: &'static str,
    /// The message.
    pub(crate) message: String,
}

/// What the sync does.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum SyncPlan {
    /// Nothing: the pod has finished.
    Finished,
    /// The pod fails and is stopped, because it was active for too long.
    DeadlineExceeded {
        /// Whether an event reports it. Not where an earlier agent has stopped the pod.
        report: bool,
    },
    /// Nothing yet.
    Wait(Wait),
    /// It makes the pod as specified.
    Act,
}

/// What a sync does for a pod.
pub(crate) fn sync_plan(input: &SyncInput<'_>) -> SyncPlan {
    // Also where its end was not observed: a pod with a terminal phase never runs again.
    if input.has_finished || input.has_terminal_phase {
        return SyncPlan::Finished;
    }
    if input.deadline.is_some_and(|deadline| deadline <= input.now) {
        let observed = input.observed;
        let report = observed.may_be_alive() || observed.sandboxes.is_empty();
        return SyncPlan::DeadlineExceeded { report };
    }
    wait(input).map_or(SyncPlan::Act, SyncPlan::Wait)
}

fn wait(input: &SyncInput<'_>) -> Option<Wait> {
    let (on, retry, reason, message) = if let Some(unsupported) = &input.unsupported {
        let Unsupported { reason, message } = unsupported.clone();
        (WaitOn::Unsupported(message.clone()), Retry::Failure, reason, message)
    } else {
        let error = input.network_error.as_ref().filter(|_| needs_network(input))?;
        let message = format!("network is not ready: {error}");
        (WaitOn::Network, Retry::Network, "NetworkNotReady", message)
    };
    let (uid, name) = (view::uid(input.pod), view::pod_name(input.pod));
    let event = Some(PodEvent::warning(uid, name, reason, message));
    Some(Wait { on, at_latest: no_later(retry, input.deadline, input.now), event })
}

/// Whether the pod needs a network and does not have one.
fn needs_network(input: &SyncInput<'_>) -> bool {
    !view::host_network(input.pod) && !input.observed.has_ready_sandbox()
}

#[cfg(test)]
#[path = "sync_plan_tests.rs"]
mod tests;
