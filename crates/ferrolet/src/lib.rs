//! The node agent: wires all parts together and runs them.
//!
//! Inputs: the kubelet's flags and configuration ([`run_args`]), and the ports of the machine. Outputs: pods that run,
//! their status and that of the node, and the agent's socket. Commands that work without a running agent use some
//! of its parts ([`collection`], [`node_cgroups`], [`runtime_note`]).
//!
//! Invariants:
//! - only [`wiring`] knows all parts;
//! - a long task that ends ends the agent, by name;
//! - SIGTERM and SIGINT end the agent and leave the pods running.

mod admission;
mod admission_metrics;
mod adopt;
mod allocations;
mod cgroup_driver;
mod cgroup_metrics;
pub mod cgroup_sweep;
mod cluster_mode;
pub mod collection;
mod collection_rules;
mod decide;
pub mod effects;
mod feature_metrics;
mod held_up;
mod image_gc;
mod kernel_settings;
pub mod machine;
pub mod node_cgroups;
mod node_settings;
mod node_view;
mod panic_reports;
mod pod_cidr;
mod pod_metrics;
mod pod_resources;
mod pulse;
mod records;
mod remains;
mod resize_message;
mod resize_metrics;
mod resizes;
pub mod run;
pub mod run_args;
pub mod runtime_note;
mod runtime_state;
mod streams;
mod stuck_calls;
mod sync_loop;
mod sync_metrics;
mod syncer;
mod unsupported;
mod utility_chains;
mod version;
pub mod wiring;

pub use version::version;
