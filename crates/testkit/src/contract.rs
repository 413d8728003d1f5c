//! Contracts: the required behaviour of every implementation of a port, in memory and real.
//!
//! A contract is a list of named cases that use a harness, which sets things up outside the port. If a case
//! fails for the real implementation, the case or the adapter is wrong; if it fails in memory, the in-memory
//! implementation is wrong.

/// A contract as the list of its cases: functions of the module that names them.
macro_rules! cases {
    ($($name:ident)+) => {
        /// The contract.
        pub const CASES: &[Case] = &[$(
            Case { name: stringify!($name), play: |harness| Box::pin($name(harness)) },
        )+];
    };
}

pub mod cgroups;
pub mod cluster;
pub mod disk;
pub mod files;
pub mod http;
pub mod kernel_log;
pub mod log_files;
pub mod login;
pub mod node_api;
pub mod packet_filter;
pub mod pod_api;
mod report;
pub mod runtime;
pub mod segments;
pub mod volumes;

use std::pin::Pin;

pub use report::{Outcome, Report, assert_kept};

use report::Impossible;

/// The future of a case.
type Play<'a> = Pin<Box<dyn Future<Output = anyhow::Result<()>> + Send + 'a>>;
