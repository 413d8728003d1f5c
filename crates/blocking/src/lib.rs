//! Threads for calls that block: files, programs, names. One kind of call that hangs keeps no other from going on.
//!
//! Inputs: closures, each with what it does, to what, and for how long it may take. Outputs: their results, or an
//! error that names the call that has not returned.
//!
//! The threads are tokio's; a [`Pool`] bounds how many of them one kind of call takes, and [`Flights`] lets all
//! callers of one answer share a thread. The runtime must allow at least as many threads as all of them together.
//!
//! Invariants:
//! - a caller never waits longer than its limit, whether or not the call returns;
//! - one pod directory takes at most [`PER_GROUP`] threads of a pool;
//! - while a call is overdue, no other call for the same file or pod directory starts: a late write never
//!   overtakes a newer one;
//! - a call that panics is an error of its caller alone.
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
