//! Which resources pods have, told over gRPC: `v1.PodResourcesLister`, and `v1alpha1` for who still asks so.
//!
//! Inputs: connections, and the pods of the node as the agent knows them
//! ([`PodResources`](model::pod_resources::PodResources)). Outputs: answers, and how often was asked.
//!
//! ```text
//!  connection ──> authority taken out ──> HTTP/2 ──> service ──> rate limit ──> pods, asked now
//! ```
//!
//! Invariants:
//! - nothing is kept of pods: an answer is made when somebody asks;
//! - callers together get 100 answers in a second, 10 at once;
//! - who calls as the upstream kubelet's own clients do is understood.

mod calls;
mod connection;
mod decide;
mod lister;
mod metrics;
mod to_proto;

pub use lister::{Listed, Lister};
pub use metrics::Metrics;
