//! Decisions: when to look at a log, which of its files go, which is compressed. Pure.

pub mod directory;
pub mod growth;
pub mod pod_limit;
