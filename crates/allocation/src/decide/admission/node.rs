//! What pods meet on the node.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::api::core::v1::Taint;
use model::ports::runtime::RuntimeFeatures;
use podspec::resources::Amounts;

/// Something that pods can ask for and not every node does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Ability {
    /// Resources for a pod as a whole.
    PodLevelResources,
    /// Nodes tell what they can do, and pods are held against it.
    NodeDeclaredFeatures,
    /// A container's end can start the whole pod over.
    RestartAllContainersOnContainerExits,
    /// A pod with the host's network can have user ids of its own.
    UserNamespacesHostNetworkSupport,
    /// What a pod has as a whole can change while it runs.
    InPlacePodLevelResourcesVerticalScaling,
    /// What an init container that must end has can change while it runs.
    InPlacePodVerticalScalingInitContainers,
    /// A toleration can compare numbers.
    TaintTolerationComparisonOperators,
}

impl Ability {
    /// All of them.
    pub const ALL: [Self; 7] = [
        Self::PodLevelResources,
        Self::NodeDeclaredFeatures,
        Self::RestartAllContainersOnContainerExits,
        Self::UserNamespacesHostNetworkSupport,
        Self::InPlacePodLevelResourcesVerticalScaling,
        Self::InPlacePodVerticalScalingInitContainers,
        Self::TaintTolerationComparisonOperators,
    ];

    /// The feature gate that switches it.
    pub const fn gate(self) -> &'static str {
        match self {
            Self::PodLevelResources => "PodLevelResources",
            Self::NodeDeclaredFeatures => "NodeDeclaredFeatures",
            Self::RestartAllContainersOnContainerExits => "RestartAllContainersOnContainerExits",
            Self::UserNamespacesHostNetworkSupport => "UserNamespacesHostNetworkSupport",
            Self::InPlacePodLevelResourcesVerticalScaling => {
                "InPlacePodLevelResourcesVerticalScaling"
            }
            Self::InPlacePodVerticalScalingInitContainers => {
                "InPlacePodVerticalScalingInitContainers"
            }
            Self::TaintTolerationComparisonOperators => "TaintTolerationComparisonOperators",
        }
    }
}

/// The node, as far as pods depend on it.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Node {
    /// Its name.
    pub name: String,
    /// Its labels.
    pub labels: BTreeMap<String, String>,
    /// What keeps pods away.
    pub taints: Vec<Taint>,
    /// What pods can have of it.
    pub allocatable: Amounts,
    /// What its runtime can do.
    pub runtime: RuntimeFeatures,
    /// What it can do, as far as its runtime does not matter.
    pub abilities: BTreeSet<Ability>,
    /// Whether it is being shut down.
    pub shutting_down: bool,
}

impl Node {
    pub(in crate::decide) fn can(&self, ability: Ability) -> bool {
        let by_runtime = match ability {
            Ability::UserNamespacesHostNetworkSupport => self.runtime.user_namespaces_host_network,
            _ => true,
        };
        by_runtime && self.abilities.contains(&ability)
    }
}
