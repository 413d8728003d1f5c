//! Why something was removed: every removal is recorded, and can be searched later.
//!
//! ```text
//!  caller ──verdict──> Recording, the interceptor of runtime, files, cgroups and pods ──> the outside
//!                                    │ verdict and outcome
//!                                    v
//!                  Ledger ──> log line, metric, watchers of a pass
//!                                    └──> DiskJournal ──its thread──> line ──> segments ──> find
//!                  before the call ──> under way ──> after a kill: ExistenceChecks ──> DiskJournal
//! ```
//!
//! Sessions ([`SessionJournal`]) and incidents ([`IncidentJournal`]) have segments of their own beside those.
//!
//! Inputs: verdicts and outcomes, through an interceptor of the ports that remove. Outputs:
//! lines of JSON in numbered segments, and the [entries](Entry) of searches.
//!
//! Invariants:
//! - every removal through the intercepted ports has an entry, with any outcome. Of a repeated failure only the
//!   first has one. Rotated files of one log have an entry for the first and one an hour for the rest;
//! - removals in progress of a killed process are recorded by the next process;
//! - the segments never exceed their bound; the oldest is removed first;
//! - an entry that was written outlives the process; a damaged one, as the last one after a
//!   crash may be, is detected by its checksum and skipped, and so is an unreadable segment;
//! - the journal is not kept in memory, except a bounded number of entries that wait for disk space:
//!   searches read it, a line at a time;
//! - the journal's own thread writes to disk; only removals wait, until they are recorded;
//! - a journal that cannot be written never stops a removal.

mod decode;
mod disk;
mod entry;
mod find;
mod in_progress;
mod incidents;
mod journal_thread;
mod ledger;
mod query;
mod recording;
mod repeated;
mod series;
mod sessions;
mod settle;

pub use disk::SMALLEST;
pub use entry::{Entry, EntryOutcome, Inputs, plain};
pub use find::{SearchResult, find, was_removed_with};
pub use in_progress::UnfinishedRemoval;
pub use incidents::{IncidentJournal, find_incidents};
pub use journal_thread::DiskJournal;
pub use ledger::{Ledger, Progress};
pub use query::{Match, Query, QueryTarget};
pub use recording::Recording;
pub use sessions::{SessionJournal, find_sessions};
pub use settle::ExistenceChecks;
