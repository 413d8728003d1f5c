//! Tests of the whole agent on a real container runtime, and of API clients on a real control plane.
//!
//! Inputs: the programs under test and the parts that `make testbed` built. Outputs: a [`node`] for each test, observed
//! from the outside: through the runtime's own tools and through files, never through the agent; and a [`cluster`],
//! observed through the [`api`].
//!
//! Invariant: nothing of a node or a cluster is left when its test ends, however it ends.
#![allow(
    clippy::disallowed_methods,
    reason = "a test tool: it works on real files, processes and time"
)]

pub mod agent;
pub mod api;
pub mod api_outage;
pub mod api_proxy;
pub mod audit;
pub mod cluster;
pub mod cluster_node;
mod completeness;
pub mod container_files;
pub mod containerd;
pub mod crashes;
pub mod credentials;
pub mod cri_proxy;
pub mod differences;
pub mod faults;
pub mod first_requests;
pub mod hollow;
pub mod https;
pub mod log_writer;
pub mod node;
pub mod node_api;
pub mod node_values;
mod normalize;
pub mod observations;
pub mod own_settings;
pub mod plane;
pub mod private_image;
pub mod registry;
pub mod scenarios;
pub mod statistics;
pub mod terminal;
pub mod tidy;
pub mod vm_limits;
pub mod vm_node;
pub mod vm_status;
pub mod volume_pods;
