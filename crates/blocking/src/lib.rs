//! Threads for blocking calls: files, programs, name lookups. A hanging call of one kind does not block other
//! kinds.
//!
//! Inputs: closures, each with its operation, object and timeout. Outputs: their results, or an error that
//! names the call that has not returned.
//!
//! The threads are tokio's; a [`Pool`] limits the threads of one kind of call, and [`Flights`] lets all callers
//! of the same work share a thread. The runtime must allow at least the sum of all limits.
//!
//! Invariants:
//! - a caller never waits longer than its timeout, whether or not the call returns;
//! - one pod directory takes at most [`PER_GROUP`] threads of a pool;
//! - while a call is overdue, no other call for the same file or pod directory starts: a late write never
//!   overtakes a newer one;
//! - a panic is an error of its caller only.
#![warn(missing_docs)]

mod error;
mod flights;
mod pool;
mod resolver;
mod table;

pub use error::{CallError, StuckCall};
pub use flights::{Flight, Flights};
pub use pool::{Call, PER_GROUP, Pool, Size};
pub use resolver::{ResolveError, Resolver};
