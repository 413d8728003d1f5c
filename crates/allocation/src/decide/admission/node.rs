//! The node, for admission.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::api::core::v1::Taint;
use model::ports::runtime::RuntimeFeatures;
use podspec::resources::Amounts;

/// A feature that pods can use and not every node has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Ability {
    /// Pod-level resources.
    PodLevelResources,
    /// The declared features of a node, against which pods are checked.
    NodeDeclaredFeatures,
    /// The restart of all containers on a container's exit.
    RestartAllContainersOnContainerExits,
    /// User namespaces for pods in the host network.
    UserNamespacesHostNetworkSupport,
    /// In-place resize of pod-level resources.
    InPlacePodLevelResourcesVerticalScaling,
    /// In-place resize of non-sidecar init containers.
    InPlacePodVerticalScalingInitContainers,
    /// Comparison operators of tolerations.
    TaintTolerationComparisonOperators,
}

impl Ability {
    /// All abilities.
    pub const ALL: [Self; 7] = [
        Self::PodLevelResources,
        Self::NodeDeclaredFeatures,
        Self::RestartAllContainersOnContainerExits,
        Self::UserNamespacesHostNetworkSupport,
        Self::InPlacePodLevelResourcesVerticalScaling,
        Self::InPlacePodVerticalScalingInitContainers,
        Self::TaintTolerationComparisonOperators,
    ];

    /// The feature gate that enables it.
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

/// The properties of the node that admission depends on.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Node {
    /// Its name.
    pub name: String,
    /// Its labels.
    pub labels: BTreeMap<String, String>,
    /// Its taints.
    pub taints: Vec<Taint>,
    /// Its allocatable resources.
    pub allocatable: Amounts,
    /// The features of its runtime.
    pub runtime: RuntimeFeatures,
    /// Its abilities that do not depend on the runtime.
    pub abilities: BTreeSet<Ability>,
    /// Whether it is shutting down.
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
