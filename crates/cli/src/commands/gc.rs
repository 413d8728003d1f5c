//! `ferrolet gc`: what is removed next, what was removed, and why.

pub mod plan;
pub mod rule_texts;
pub mod run;
pub mod runtime_plan;
pub mod why;

/// The format of the output.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Output {
    /// An object in JSON.
    Json,
}
