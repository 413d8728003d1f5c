//! What to do with pods that come, change and go. Pure.

pub mod merge;
pub mod requeue;
pub mod worker;
