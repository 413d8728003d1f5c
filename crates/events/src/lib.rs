//! Events to the API server: what happens to pods and to the node, for everybody in the cluster.
//!
//! ```text
//!  Events, NodeEvents ──> ApiEvents ──queue──> EventWriter ──> decide::Correlator ──> API server
//!  (never wait)              └─ full: dropped, counted      (combined, counted, filtered)   (tried again)
//! ```
//! Inputs: events through the ports of `model`. Outputs: events of core/v1, each written once and then
//! counted; metrics.
//!
//! Invariants:
//! - whoever tells an event never waits; when too many wait to be written, the newest are dropped;
//! - an event that was written already is counted, not written again;
//! - nobody floods the API server: of one object 25 events at once and one in five minutes after that,
//!   and from the tenth of many that differ in their message alone they are combined;
//! - events are written in the order in which they were told.
//!
//! ```text
//! let (events, writer) = events::channel(node_name, clock, metrics);   // ApiEvents, EventWriter
//! tasks.spawn("events", |stop| writer.run(Arc::new(cluster), stop));   // the port is ClusterEvents
//! ports.events = Arc::new(events.clone());                             // Events and NodeEvents
//! ```

pub mod decide;
mod handle;
mod metrics;
mod task;
#[cfg(test)]
mod task_tests;

pub use handle::{ApiEvents, about_node, channel};
pub use metrics::Metrics;
pub use task::EventWriter;
