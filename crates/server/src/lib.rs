//! The servers of the programs: the agent's own socket, its health port, HTTPS ports ([`https`]) and the socket of the
//! `PodResources` API ([`pod_resources`]).
//!
//! Inputs: requests in HTTP/1.1 from the owner of the socket, and narrow views of the agent
//! ([`Parts`]) that it implements. Outputs: JSON, one line of JSON for each change, or text.
//!
//! An HTTPS port takes the files of its certificate, reviews of the API server ([`access`]) and the pages of a program.
//!
//! ```text
//!  connection ──> slot ──> TLS ──> request ──> open path? ──yes──> page
//!                           │                     └─no─> authenticate ──> authorise ──> page, 401, 403, 429 or 500
//!                           └ certificates, reloaded when their files change
//! ```
//!
//! The agent's own socket:
//!
//! ```text
//!  GET /pods                      all pods, with their status and last event, and refused manifests
//!  GET /pods?watch=true           ADDED … SYNCED, then ADDED, MODIFIED, DELETED, REFUSED as it happens
//!  GET /events[?pod=NS/NAME]      the last events of pods
//!  GET /why?what=[&limit=]        what happened to that pod or container, when and why
//!  GET /logs/{namespace}/{pod}/{container}?follow=&previous=&tailLines=&sinceSeconds=&timestamps=
//!  GET /exec/{namespace}/{pod}/{container}?command=&input=&output=&error=&tty=   upgraded to a WebSocket or SPDY
//!  GET /portForward/{namespace}/{pod}?port=                                     the same
//!  GET /healthz[?verbose]   GET /metrics   GET /version
//!  GET /gc/plan                   what the next pass of garbage collection would remove and keep, and why
//!  POST /gc/run                   a pass now, a line for each removal and one at the end
//!  GET /gc/why?what=[&limit=]     what was removed of that name or id, when and why
//!  PUT /debug/flags/v             how much is logged
//! ```
//!
//! Invariants:
//! - requests change nothing except the verbosity, containers by commands in them, and objects that a requested pass
//!   removes, as the next pass would; answers come from snapshots;
//! - a slow reader receives the latest state, never a growing queue of old ones;
//! - requests, connections, reviews and kept events are bounded;
//! - the mode of the socket is the access control: any client that can connect may send any request;
//! - on an HTTPS port, the API server authorises every request for a path that is not open.

pub mod access;
mod container_logs;
pub mod decide;
mod event_book;
mod garbage;
pub mod https;
mod logs;
pub mod node_api;
mod parts;
mod pod_lookup;
pub mod pod_resources;
mod pods;
mod query;
mod respond;
mod review_cache;
mod reviews;
mod routes;
mod serve;
mod slots;
pub mod streaming;
#[cfg(test)]
mod test_tls;
pub mod tls;
mod tls_choice;
pub mod wire;

pub use container_logs::{ContainerLogPath, container_logs};
pub use event_book::{EventBook, EventLimits};
pub use model::program::{Check, HealthChecks, Verbosity};
pub use parts::{
    Collector, EvictionView, LogParts, LogPaths, MetricsText, Parts, PodAndStatus, PodView,
    Removals,
};
pub use respond::{Answer, BrokenOff};
pub use reviews::{ReviewSettings, Tries};
pub use serve::{Acceptor, answer_one, serve, serve_connections, serve_health, serve_health_on};
pub use slots::{MOST_CONNECTIONS, Slot};
