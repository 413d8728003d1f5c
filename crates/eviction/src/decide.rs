//! Which thresholds are met, which conditions follow, and which pod is evicted. Pure.

pub mod layout;
pub mod local_storage;
pub mod message;
pub mod notify;
pub mod observation;
pub mod plan;
pub mod rank;
pub mod record;
pub mod settle;
pub mod signal;
pub mod threshold;
pub mod tracker;

#[cfg(test)]
pub(crate) mod test_pods;
