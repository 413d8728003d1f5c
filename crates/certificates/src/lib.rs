//! The certificates of the node: its client certificate for the API server and the serving certificate of its API.
//!
//! ```text
//!            due: none, expired, 70-90 % of its life over, other addresses
//!  Idle ───────────────────────────────────────────────────────> Requested ──refused, deleted──> Idle, back-off
//!   ^                                                               │ issued
//!   └────────────── stored ─────────────── Issued <─────────────────┘
//!                                            └─ cannot be stored: back-off, the certificate in use stays
//! ```
//! Inputs: the certificates on disk, signing requests of the API server, the addresses of the node, the clock.
//! Outputs: files in the layout of the kubelet, notices for events, metrics.
//!
//! Invariants:
//! - the link to the current certificate always names a certificate with its key, or does not exist;
//! - an issued certificate is used only with the key of its request;
//! - a request is followed until it is decided or deleted: a late approval counts;
//! - a certificate in use is replaced, never removed.

pub mod decide;
mod keys;
mod metrics;
mod pair;
mod store;
mod task;
#[cfg(test)]
mod task_tests;
#[cfg(test)]
mod test_signer;
mod watch_request;

pub use keys::{KeyError, RequestKey};
pub use metrics::CertificateMetrics;
pub use pair::{PairError, parse_pair};
pub use store::{CertificateStore, StoreError};
pub use task::{
    CertificateTask, CertificateTaskParts, ClientServers, IdentityLost, IssueError, NodeCertificate,
};
