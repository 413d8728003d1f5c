//! Checks whether the node has the features that a pod needs.

use k8s_openapi::api::core::v1::{Container, Pod};
use model::admission::Rejection;
use podspec::view;

use super::{Ability, Node};

/// The rejection for a missing feature, if any.
pub fn features(pod: &Pod, node: &Node) -> Option<Rejection> {
    let whole = !podspec::resources::requests_of_whole(pod).is_empty()
        || !podspec::resources::limits_of_whole(pod).is_empty();
    if whole && !node.can(Ability::PodLevelResources) {
        let message = "PodLevelResources feature gate is disabled";
        return Some(Rejection::new("PodLevelResourcesNotSupported", message));
    }
    if let Some(message) = undeclared(needed(pod), node) {
        return Some(Rejection::new("PodFeatureUnsupported", message));
    }
    if node.shutting_down {
        let message = "Pod was rejected as the node is shutting down.";
        return Some(Rejection::new("NodeShutdown", message));
    }
    None
}

/// The message about missing declared features, if the gate is on and some are missing.
pub(in crate::decide) fn undeclared(
    needed: impl Iterator<Item = Ability>,
    node: &Node,
) -> Option<String> {
    let missing = needed.filter(|ability| !node.can(*ability)).map(Ability::gate);
    let missing: Vec<&str> = missing.collect();
    let is_rejected = node.can(Ability::NodeDeclaredFeatures) && !missing.is_empty();
    let missing = missing.join(", ");
    is_rejected.then(|| format!("Pod requires node features that are not available: {missing}"))
}

/// The declared features that a pod needs.
fn needed(pod: &Pod) -> impl Iterator<Item = Ability> {
    let restarts_all = |container: &Container| {
        let mut rules = container.restart_policy_rules.iter().flatten();
        rules.any(|rule| rule.action == "RestartAllContainers")
    };
    let mut containers = view::containers(pod).iter().chain(view::init_containers(pod));
    let own_users = view::spec(pod).is_some_and(|spec| spec.host_users == Some(false));
    let all = [
        (Ability::RestartAllContainersOnContainerExits, containers.any(restarts_all)),
        (Ability::UserNamespacesHostNetworkSupport, view::host_network(pod) && own_users),
    ];
    all.into_iter().filter(|(_, needed)| *needed).map(|(ability, _)| ability)
}
