//! The ports: the agent's access to the outside. Adapters implement them for real systems, the
//! test kit in memory; both pass the same contract tests.

pub mod addresses;
pub mod cgroup_usage;
pub mod cgroups;
pub mod clock;
pub mod cluster;
pub mod disk;
pub mod events;
pub mod files;
pub mod http;
pub mod image_access;
pub mod incidents;
pub mod journal;
pub mod kernel_log;
pub mod log_files;
pub mod login;
pub mod logs;
pub mod memory_alarm;
pub mod node_api;
pub mod node_usage;
pub mod objects;
pub mod packet_filter;
pub mod pod_api;
pub mod probes;
pub mod programs;
pub mod runtime;
pub mod segments;
pub mod signing;
pub mod streaming;
pub mod termination_message;
pub mod usage;
pub mod volumes;
