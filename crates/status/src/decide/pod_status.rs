//! Computes the status of a pod.

use k8s_openapi::api::core::v1::{ContainerStatus, Pod, PodStatus};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use model::observed::SandboxState;
use podspec::view;

use crate::decide::conditions::conditions;
use crate::decide::container_statuses::container_statuses;
use crate::decide::input::StatusInput;
use crate::decide::phase::{PhaseContext, phase, settled};
use crate::decide::{addresses, normalize, reported};

/// The status of a pod; upstream's `generateAPIPodStatus`, and what its status manager adds.
pub fn pod_status(input: &StatusInput<'_>) -> PodStatus {
    let base = input.base();
    let api = input.pod.status.as_ref();
    let containers = container_statuses(input);
    let context = PhaseContext {
        stopped_for_good: input.stopped_for_good,
        initialized: has_container_in_sandbox(input),
    };
    let settled = settled(input, phase(input.pod, &containers, context));
    let conditions = conditions(input, settled.phase, &containers);
    // Statuses of resource claims are written by other clients.
    let claims = api.or(base);
    let mut status = PodStatus {
        phase: Some(settled.phase.as_str().to_owned()),
        reason: settled.reason,
        message: settled.message,
        conditions: Some(conditions),
        container_statuses: non_empty(containers.regular),
        init_container_statuses: non_empty(containers.init),
        ephemeral_container_statuses: non_empty(containers.ephemeral),
        start_time: base.and_then(|base| base.start_time.clone()).or(Some(first_seen(input))),
        qos_class: Some(qos_class(input.pod)),
        resources: Some(reported::of_pod(input, settled.phase)),
        allocated_resources: reported::requests(input.pod),
        observed_generation: observed_generation(input),
        resource_claim_statuses: claims.and_then(|s| s.resource_claim_statuses.clone()),
        extended_resource_claim_status: claims
            .and_then(|s| s.extended_resource_claim_status.clone()),
        node_allocatable_resource_claim_statuses: claims
            .and_then(|s| s.node_allocatable_resource_claim_statuses.clone()),
        ..PodStatus::default()
    };
    addresses::set(input, &mut status);
    normalize::normalize(&mut status);
    status
}

/// The start time of a pod without a recorded one: now, or if an earlier agent started it, the creation of its
/// oldest sandbox.
fn first_seen(input: &StatusInput<'_>) -> Time {
    let sandboxes = input.observed.sandboxes.iter().map(|sandbox| sandbox.created_at);
    Time(sandboxes.min().map_or(input.now, |made| made.min(input.now)))
}

/// Whether a regular container was created in the current sandbox. Instances do not name their
/// sandbox; those that are younger than the newest sandbox are in it.
pub(crate) fn has_container_in_sandbox(input: &StatusInput<'_>) -> bool {
    let newest = input.observed.sandboxes.first();
    let Some(sandbox) = newest.filter(|sandbox| sandbox.state == SandboxState::Ready) else {
        return false;
    };
    view::containers(input.pod).iter().any(|container| {
        let latest = input.observed.latest(&container.name);
        latest.is_some_and(|latest| latest.created_at >= sandbox.created_at)
    })
}

/// The QoS class from the API server; for pods of manifests it is computed.
fn qos_class(pod: &Pod) -> String {
    let given = pod.status.as_ref().and_then(|status| status.qos_class.clone());
    given
        .filter(|given| !given.is_empty())
        .unwrap_or_else(|| podspec::qos_class(pod).as_str().to_owned())
}

/// The newest generation that a status was computed for.
fn observed_generation(input: &StatusInput<'_>) -> Option<i64> {
    let before = input.base().and_then(|base| base.observed_generation);
    input.pod.metadata.generation.max(before).filter(|generation| *generation != 0)
}

fn non_empty(list: Vec<ContainerStatus>) -> Option<Vec<ContainerStatus>> {
    (!list.is_empty()).then_some(list)
}
