//! Decisions about pods that are added, changed and removed. Pure.

pub mod api_pods;
pub mod claims;
pub mod deadline;
pub mod first_look;
pub mod intake;
pub mod merge;
pub mod mirror;
pub mod pod_retries;
pub mod requeue;
pub mod sources;
pub mod support;
pub(crate) mod tries;
pub mod worker;
