//! What the agent answers on its own socket: pods, events, logs, garbage collection, health, metrics.
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
//!  GET /gc/plan                   what the next pass of garbage collection would remove and keep, and why
//!  POST /gc/run                   a pass now, a line for each removal and one at the end
//!  GET /gc/why?what=[&limit=]     what was removed of that name or id, when and why
//!  PUT /debug/flags/v             how much is logged
//! ```
//!
//! Invariants:
//! - nothing is changed through it but the verbosity, and what a pass that is asked for removes, which is
//!   what the next one would have; answers come from snapshots;
//! - who reads slowly is told the latest state, never a growing queue of old ones;
//! - requests, connections and kept events are bounded;
//! - the mode of the socket is the access control: who can connect may ask anything.

pub mod access;
pub mod decide;
mod event_book;
mod garbage;
mod logs;
mod parts;
mod pods;
mod query;
mod recent;
mod respond;
mod routes;
mod serve;
mod slots;
pub mod tls;
pub mod wire;

pub use event_book::{EventBook, EventLimits};
pub use model::program::{Check, HealthChecks, Verbosity};
pub use parts::{Collector, LogPaths, MetricsText, Parts, PodAndStatus, PodView, Removals};
pub use serve::{Door, answer_one, serve, serve_health, serve_health_on, take_turns};
pub use slots::{MOST_CONNECTIONS, Slot};
