//! In-memory implementations of the ports, the contracts that they and the real adapters pass, and builders for
//! tests.
//!
//! Inputs: what a test puts into an implementation (images, files, faults, container deaths) and calls through
//! the ports of `model`. Outputs: results through the same ports, and a record of the calls.
//!
//! Invariants:
//! - an in-memory implementation is a small working one, not a mock: [`contract`] holds for it and for the
//!   real adapter alike;
//! - time is the async runtime's: with a paused clock, timers and timestamps move together and a
//!   test is the same in every run;
//! - no background tasks: the current state is computed when a caller reads it.
//!
//! The feature `hollow`, on by default, adds a program of that name: the runtime in memory behind a real
//! socket, for any node agent. The feature `proxy`, also on by default, adds the program `cri-proxy`: it sits
//! between a node agent and any runtime and injects faults into calls.

pub mod addresses;
pub mod cgroups;
pub mod clock;
pub mod cluster;
pub mod contract;
pub mod crash_point;
pub mod disk;
pub mod events;
pub mod files;
#[cfg(feature = "hollow")]
pub mod hollow;
pub mod http;
pub mod incidents;
pub mod kernel_log;
pub mod logged;
pub mod login;
pub mod logs;
pub mod memory_alarm;
#[cfg(feature = "hollow")]
mod methods;
pub mod node_usage;
pub mod objects;
pub mod observed;
pub mod packet_filter;
pub mod panics;
pub mod pods;
pub mod probes;
pub mod programs;
#[cfg(feature = "proxy")]
pub mod proxy;
pub mod random;
pub mod reviews;
pub mod runtime;
pub mod segments;
pub mod signing;
#[cfg(feature = "hollow")]
pub mod socket;
pub mod usage_source;
pub mod volumes;
pub mod wanted;
