//! When a probe runs, what it requests and what its verdicts mean. Pure.

pub mod events;
pub mod handler;
pub mod shown;
pub mod timing;
pub mod view;
pub mod worker;
