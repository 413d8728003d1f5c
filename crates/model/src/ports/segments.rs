//! Numbered append-only files: the storage of a journal.
//!
//! Calls block on the file system: an append writes to the page cache, which is fast unless the disk hangs. Only
//! threads that may wait call them.

use std::fmt::Debug;
use std::io::{self, BufRead};
use std::sync::Arc;

use super::files::FileError;

/// An existing segment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct SegmentInfo {
    /// Its number; later ones are greater.
    pub number: u64,
    /// Its size in bytes.
    pub size: u64,
}

/// Segments in one directory, readable only by the agent's user.
pub trait Segments: Debug + Send + Sync {
    /// All segments by number; none if the directory does not exist.
    fn list(&self) -> Result<Vec<SegmentInfo>, FileError>;

    /// Opens a segment to append to, and creates it and its directory if missing.
    fn append_to(&self, number: u64) -> Result<Arc<dyn Segment>, FileError>;

    /// Opens a segment to read from its beginning.
    fn read(&self, number: u64) -> Result<Box<dyn BufRead + Send>, FileError>;

    /// Removes a segment; a missing one is not an error.
    fn remove(&self, number: u64) -> Result<(), FileError>;

    /// Other segments, in a directory next to these.
    fn beside(&self, name: &str) -> Arc<dyn Segments>;

    /// Whether calls may wait for a disk. Segments in memory never do, and are called on the caller's thread, so that
    /// histories in tests are repeatable.
    fn waits_for_disk(&self) -> bool {
        true
    }
}

/// A segment that is open for writing.
pub trait Segment: Debug + Send + Sync {
    /// Appends bytes. They survive a kill of this process at once, and a crash of the machine once they
    /// are [synced](Segment::sync). After an error a part of them may be written.
    fn append(&self, bytes: &[u8]) -> io::Result<()>;

    /// Reserves disk space for a total size of `bytes`, without changing the length: up to this size,
    /// appends succeed on a full disk. A size up to the length releases the reserve. Not all file systems support it.
    fn reserve(&self, length: u64) -> io::Result<()>;

    /// Syncs all appended bytes to disk.
    fn sync(&self) -> io::Result<()>;
}
