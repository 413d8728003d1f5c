//! The record of what was removed.

use std::fmt::Debug;

use crate::verdict::Verdict;

/// Keeps what was removed and why, so that it can be asked for later. Never blocks for long and never
/// fails: a removal does not wait for its record, and an entry that cannot be kept is told in the log.
pub trait Journal: Debug + Send + Sync {
    /// Takes a verdict that was carried out, or that could not be: then why not.
    fn record(&self, verdict: &Verdict, outcome: Result<(), &str>);
}
