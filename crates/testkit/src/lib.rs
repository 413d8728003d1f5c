//! In-memory twins of the outside, the contracts that they and the real adapters keep, and builders
//! for what tests need.
//!
//! Inputs: what a test puts into a twin (images, files, faults, deaths) and calls through the ports
//! of `model`. Outputs: answers through the same ports, and a record of the calls.
//!
//! Invariants:
//! - a twin is a small working implementation, not a mock: [`contract`] holds for it and for the
//!   real thing alike;
//! - time is the async runtime's: with a paused clock, timers and timestamps move together and a
//!   test is the same in every run;
//! - nothing runs in the background: what is true at a moment is worked out when somebody looks.
//!
//! With the feature `hollow`, on by default, comes a program of that name: the runtime in memory
//! behind a real socket, for any node agent. With the feature `proxy`, also on by default, comes the
//! program `cri-proxy`: it stands between a node agent and any runtime and spoils calls.

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
pub mod logged;
pub mod logs;
#[cfg(feature = "hollow")]
mod methods;
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
#[cfg(feature = "hollow")]
pub mod socket;
pub mod volumes;
pub mod wanted;
