//! Why something was removed: every removal is put on record, and can be asked for later.
//!
//! ```text
//!  who removes ──verdict──> Recording, the interceptor of runtime, files, cgroups and pods ──> the outside
//!                                    │ verdict and outcome
//!                                    v
//!                  Ledger ──> log line, metric, who watches a pass
//!                                    └──> DiskJournal ──its thread──> line ──> segments ──> find
//!                  before the call ──> under way ──> after a kill: Witnesses ──> DiskJournal
//! ```
//!
//! Sessions ([`SessionJournal`]) and incidents ([`IncidentJournal`]) have segments of their own beside those.
//!
//! Inputs: verdicts and what became of them, through an interceptor of the ports that remove. Outputs:
//! lines of JSON in numbered segments, and the [entries](Entry) that somebody asks for.
//!
//! Invariants:
//! - nothing is removed through the intercepted ports without an entry, whatever came of it; of what is tried
//!   again and fails again, the first failure has one; rotated files of one log that go one after the other have one for
//!   the first and one an hour for the rest;
//! - what a process was removing when it was killed is put on record by the next;
//! - the segments never take more bytes than their bound; the oldest goes first;
//! - an entry that was written outlives the process; one that is damaged, as the last one after a
//!   crash may be, is noticed by its checksum and passed over, and so is a segment that cannot be read;
//! - nothing of the journal is kept in memory, but a bounded number of entries that the disk has no room for:
//!   who asks reads it, a line at a time;
//! - the disk is written by the journal's own thread; a removal waits until it is noted down, and nothing else does;
//! - a journal that cannot be written never stops a removal.

mod decode;
mod disk;
mod entry;
mod find;
mod incidents;
mod journal_thread;
mod ledger;
mod query;
mod recording;
mod repeated;
mod series;
mod sessions;
mod settle;
mod under_way;

pub use disk::SMALLEST;
pub use entry::{Became, Entry, Inputs, plain};
pub use find::{Found, find, went_along};
pub use incidents::{IncidentJournal, find_incidents};
pub use journal_thread::DiskJournal;
pub use ledger::{Ledger, Progress};
pub use query::{Match, Query, Thing};
pub use recording::Recording;
pub use sessions::{SessionJournal, find_sessions};
pub use settle::Witnesses;
pub use under_way::Left;
