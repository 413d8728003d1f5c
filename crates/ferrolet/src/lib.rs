//! The node agent: wires all parts together and runs them.
//!
//! Inputs: the kubelet's flags and configuration ([`run_args`]), and the ports of the machine. Outputs: pods that run,
//! their status and that of the node, and the agent's socket. Commands that work without a running agent use some
//! of its parts ([`collection`], [`node_cgroups`], [`runtime_note`]).
//!
//! Invariants:
//! - only [`wiring`] depends on all parts;
//! - a long task that ends ends the agent, by name;
//! - SIGTERM and SIGINT end the agent and leave the pods running.

mod adopt;
mod cgroup_driver;
mod cgroup_metrics;
pub mod cgroup_sweep;
mod cluster_mode;
pub mod collection;
mod collection_rules;
mod decide;
mod eviction;
mod feature_metrics;
mod gc_notifier;
mod health_checks;
mod image_access_settings;
mod image_gc;
mod kernel_settings;
pub mod machine;
mod manifest_support;
#[cfg(test)]
mod metrics_reference_tests;
mod metrics_text;
pub mod node_cgroups;
mod node_settings;
mod node_shutdown;
mod oom_victims;
mod panic_reports;
mod pleg_statuses;
mod pod_cidr;
mod pod_index;
mod pod_probes;
mod pod_resources;
mod pod_volumes;
mod pulse;
mod records;
pub mod run;
pub mod run_args;
mod runtime_logs;
pub mod runtime_note;
mod runtime_state;
mod served_pods;
mod start_settings;
mod statistics;
mod streams;
mod stuck_calls;
pub mod supported_settings;
mod sync_loop;
mod sync_metrics;
mod sync_pod;
mod unsupported_wait;
mod utility_chains;
mod version;
pub mod wiring;

pub use version::version;
