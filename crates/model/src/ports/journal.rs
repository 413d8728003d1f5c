//! The record of what was removed.

use std::fmt::Debug;
use std::pin::Pin;

use crate::verdict::Verdict;

/// What became of a removal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome<'a> {
    /// It is gone.
    Removed,
    /// It was gone before.
    AlreadyGone,
    /// It goes once others let it: finalizers hold it.
    Held,
    /// It is still there, or may be; why.
    Failed(&'a str),
}

/// Ready once a removal is noted down, or cannot be.
pub type Noted = Pin<Box<dyn Future<Output = ()> + Send>>;

/// Keeps what was removed and why, so that it can be asked for later. Never blocks and never
/// fails: an entry that cannot be kept is told in the log.
pub trait Journal: Debug + Send + Sync {
    /// Takes a verdict that was carried out, or that could not be.
    fn record(&self, verdict: &Verdict, outcome: Outcome<'_>);

    /// Takes a verdict that is about to be carried out, so that it is known of even if this process is
    /// killed before its end. Answers a number by which that [end](Journal::ended) is told, and what to wait for before
    /// it is carried out.
    fn begun(&self, _: &Verdict) -> (u64, Noted) {
        (0, Box::pin(std::future::ready(())))
    }

    /// What had begun has ended: it is on record, or there was nothing to it.
    fn ended(&self, _: u64) {}
}
