//! Numbered files that are only ever written at their end: what a journal is kept in.
//!
//! Calls block, as the file system does: an append goes to the page cache, which is short unless the disk hangs. They are
//! made on threads that may wait.

use std::fmt::Debug;
use std::io::{self, BufRead};
use std::sync::Arc;

use super::files::FileError;

/// A segment that lies there.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Lying {
    /// Its number; later ones are greater.
    pub number: u64,
    /// How many bytes it has.
    pub size: u64,
}

/// Segments in one place, for the agent's user alone.
pub trait Segments: Debug + Send + Sync {
    /// All that lie there, by their numbers; none when the place does not exist.
    fn list(&self) -> Result<Vec<Lying>, FileError>;

    /// Opens a segment to write at its end, and makes it, and its place, if need be.
    fn append_to(&self, number: u64) -> Result<Arc<dyn Segment>, FileError>;

    /// Opens a segment to read from its beginning.
    fn read(&self, number: u64) -> Result<Box<dyn BufRead + Send>, FileError>;

    /// Removes a segment; one that is not there is no error.
    fn remove(&self, number: u64) -> Result<(), FileError>;

    /// Other segments, in a place of their own beside these.
    fn beside(&self, name: &str) -> Arc<dyn Segments>;

    /// Whether calls may wait for a disk. Those in memory never do, and are made where they are asked for, so that
    /// histories in tests can be repeated.
    fn waits_for_disk(&self) -> bool {
        true
    }
}

/// A segment that is written.
pub trait Segment: Debug + Send + Sync {
    /// Writes at the end. What was written outlives this process at once, and the machine once it
    /// was [synced](Segment::sync). After an error a part of it may be there.
    fn append(&self, bytes: &[u8]) -> io::Result<()>;

    /// Keeps room on disk for it to become so many bytes long, without making it longer: until it is so long,
    /// a disk that others fill is not full for it. No more than it has gives back what is kept. Not all disks can.
    fn reserve(&self, length: u64) -> io::Result<()>;

    /// Sees to it that all that was written is on disk.
    fn sync(&self) -> io::Result<()>;
}
