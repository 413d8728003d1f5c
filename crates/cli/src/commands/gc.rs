//! `ferrolet gc`: what goes, what went, and why.

pub mod bare;
pub mod plan;
pub mod run;
pub mod why;
pub mod words;

/// How an answer is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Output {
    /// An object in JSON.
    Json,
}
