//! The node agent: wires all parts together and runs them.
//!
//! Inputs: the command line and the configuration file. Output: pods that run.
//!
//! Invariants:
//! - only [`wiring`] knows all parts;
//! - a long task that ends ends the agent, by name;
//! - SIGTERM and SIGINT end the agent and leave the pods running.

pub mod cli;
mod klog;
mod observe;
mod run;
mod sync_loop;
mod syncer;
mod tasks;
mod unsupported;
pub mod wiring;
