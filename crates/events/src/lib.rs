//! Writes events of pods and of the node to the API server.
//!
//! ```text
//!  Events, NodeEvents ──> ApiEvents ──queue──> EventWriter ──> decide::Correlator ──> API server
//!  (never wait)              └─ full: dropped, counted      (combined, counted, filtered)     (retried)
//! ```
//! Inputs: events through the ports of `model`. Outputs: events of core/v1, each written once and then
//! counted; metrics.
//!
//! Invariants:
//! - recording an event never blocks; when the queue is full, the newest events are dropped;
//! - an event that was written already is counted, not written again;
//! - the API server is not flooded: each object gets a burst of 25 events and then one in five minutes,
//!   and from the tenth event on those that differ in their message alone are combined;
//! - events are written in the order in which they were recorded.
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
