//! Decisions about pods that are added, changed and removed. Pure.

pub mod api_pods;
pub(crate) mod backoff;
pub mod claims;
pub mod deadline;
pub mod first_status;
pub mod intake;
pub mod merge;
pub mod mirror;
pub mod pod_retries;
pub mod requeue;
pub mod sources;
pub mod support;
pub mod worker;
