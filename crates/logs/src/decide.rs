//! Decides when to check a log, which of its files to delete, and which to compress. Pure.

pub mod directory;
pub mod growth;
pub mod pod_limit;
