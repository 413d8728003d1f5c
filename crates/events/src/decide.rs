//! Which events are written, and how. Pure.

mod correlator;
#[cfg(test)]
mod correlator_tests;
mod latest;
mod outcome;
mod tokens;

pub use correlator::{Correlator, Outgoing};
pub use latest::Latest;
pub use outcome::{MOST_TRIES, Next, PAUSE, next};
pub use tokens::Tokens;
