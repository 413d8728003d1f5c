//! The `PodResources` API over gRPC: `v1.PodResourcesLister`, and `v1alpha1` for old clients.
//!
//! Inputs: connections, and the pods of the node as the agent knows them
//! ([`PodResources`](model::pod_resources::PodResources)). Outputs: responses, and the number of calls.
//!
//! ```text
//!  connection ──> authority replaced ──> HTTP/2 ──> service ──> rate limit ──> pods
//! ```
//!
//! Invariants:
//! - no pod is stored: a response is built when a call arrives;
//! - all callers together get 100 responses in a second, 10 at once;
//! - the upstream kubelet's own clients are supported.

mod calls;
mod connection;
mod lister;
mod metrics;
mod to_proto;

pub use lister::{Listed, Lister};
pub use metrics::Metrics;
