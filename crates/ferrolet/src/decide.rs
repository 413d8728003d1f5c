//! Decisions of the agent about pods and the node. Pure.

pub(crate) mod after_sync;
pub(crate) mod directory_removals;
pub(crate) mod former_devices;
pub(crate) mod incidents;
pub(crate) mod kernel_settings;
pub(crate) mod node;
pub(crate) mod node_resources;
pub(crate) mod pod_resources;
pub(crate) mod swap;
pub(crate) mod sync_plan;
pub(crate) mod utility_chains;
