//! The record of removals.

use std::fmt::Debug;
use std::pin::Pin;

use crate::verdict::Verdict;

/// The outcome of a removal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome<'a> {
    /// It is gone.
    Removed,
    /// It did not exist.
    AlreadyGone,
    /// Finalizers still hold it.
    Held,
    /// It still exists, or may; why.
    Failed(&'a str),
}

/// Ready once a removal is recorded, or cannot be.
pub type WhenRecorded = Pin<Box<dyn Future<Output = ()> + Send>>;

/// Records removals and their reasons, for later queries. Never blocks and never fails: an entry
/// that cannot be recorded is logged.
pub trait Journal: Debug + Send + Sync {
    /// Records a verdict that was carried out, or could not be.
    fn record(&self, verdict: &Verdict, outcome: Outcome<'_>);

    /// Records a verdict that is about to be carried out, so that it is known even if this process is
    /// killed meanwhile. Returns a number for [`ended`](Journal::ended), and a future to wait for before
    /// the removal.
    fn begun(&self, _: &Verdict) -> (u64, WhenRecorded) {
        (0, Box::pin(std::future::ready(())))
    }

    /// The removal has ended and is recorded, or nothing was removed.
    fn ended(&self, _: u64) {}
}
