//! `ferrolet gc`: what is removed next, what was removed, and why.

pub mod plan;
mod removal_groups;
pub mod rule_texts;
pub mod run;
pub mod runtime_plan;
pub mod why;

pub use super::output::Output;
