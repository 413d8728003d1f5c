//! What the agent answers on its own socket: pods, events, logs, health, metrics.
//!
//! Inputs: requests in HTTP/1.1 from the owner of the socket, and narrow views of the agent
//! ([`Parts`]) that it implements. Outputs: JSON, one line of JSON for each change, or text.
//!
//! ```text
//!  GET /pods                      all pods, with their status and last event, and refused manifests
//!  GET /pods?watch=true           ADDED … SYNCED, then ADDED, MODIFIED, DELETED, REFUSED as it happens
//!  GET /events[?pod=NS/NAME]      what was told about pods
//!  GET /logs/{namespace}/{pod}/{container}?follow=&previous=&tailLines=&sinceSeconds=&timestamps=
//!  GET /healthz[?verbose]   GET /metrics   GET /version
//!  PUT /debug/flags/v             how much is logged
//! ```
//!
//! Invariants:
//! - nothing is changed through it but the verbosity; answers come from snapshots;
//! - who reads slowly is told the latest state, never a growing queue of old ones;
//! - requests, connections and kept events are bounded;
//! - the mode of the socket is the access control: who can connect may ask anything.

pub mod decide;
mod event_book;
mod logs;
mod parts;
mod pods;
mod query;
mod respond;
mod routes;
mod serve;
pub mod wire;

pub use event_book::{EventBook, EventLimits};
pub use parts::{
    Check, HealthChecks, LogPaths, MetricsText, Parts, PodAndStatus, PodView, Verbosity,
};
pub use serve::{serve, serve_health};
