//! Contracts: what every implementation of a port does, in memory and for real.
//!
//! A contract is a list of named cases over a small world that says how to set things up beside the
//! port. A case that fails for the real thing is wrong or shows a wrong adapter; a case that fails in
//! memory shows a twin that lies.

/// A contract as the list of its cases: functions of the module that names them.
macro_rules! cases {
    ($($name:ident)+) => {
        /// The contract.
        pub const CASES: &[Case] = &[$(
            Case { name: stringify!($name), play: |world| Box::pin($name(world)) },
        )+];
    };
}

pub mod cgroups;
pub mod cluster;
pub mod disk;
pub mod files;
pub mod http;
pub mod log_files;
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

/// A case under way.
type Play<'a> = Pin<Box<dyn Future<Output = anyhow::Result<()>> + Send + 'a>>;
