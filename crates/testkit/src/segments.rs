//! Segments of a journal, in memory.

use std::collections::BTreeMap;
use std::io::{self, BufRead, Cursor, ErrorKind};
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use model::ports::files::FileError;
use model::ports::segments::{Segment, SegmentInfo, Segments};

/// Segments that outlive their writer. Clones share them.
#[derive(Debug, Clone, Default)]
pub struct MemorySegments {
    place: Arc<Mutex<Place>>,
}

#[derive(Debug, Default)]
struct Place {
    segments: BTreeMap<u64, Vec<u8>>,
    /// The largest size of a segment on a full disk.
    reserved: BTreeMap<u64, usize>,
    cannot_reserve: bool,
    unreadable: Vec<u64>,
    /// How many bytes can still be written; `None` without a limit.
    room: Option<usize>,
    synced: u64,
    beside: BTreeMap<String, MemorySegments>,
}

impl MemorySegments {
    fn place(&self) -> MutexGuard<'_, Place> {
        self.place.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// All bytes of a segment.
    pub fn content(&self, number: u64) -> Option<Vec<u8>> {
        self.place().segments.get(&number).cloned()
    }

    /// Adds or replaces a segment.
    pub fn put(&self, number: u64, content: impl Into<Vec<u8>>) {
        self.place().segments.insert(number, content.into());
    }

    /// Makes reading a segment fail.
    pub fn break_segment(&self, number: u64) {
        self.place().unreadable.push(number);
    }

    /// Limits the bytes that can still be written; `None` removes the limit.
    pub fn set_room(&self, bytes: Option<usize>) {
        self.place().room = bytes;
    }

    /// Makes preallocation fail, as on disks without support for it.
    pub fn cannot_reserve(&self) {
        let mut place = self.place();
        place.cannot_reserve = true;
        place.reserved.clear();
    }

    /// The segments of a sibling directory, by its name.
    #[must_use]
    pub fn others(&self, name: &str) -> Self {
        self.place().beside.entry(name.to_owned()).or_default().clone()
    }

    /// The number of syncs to disk.
    pub fn syncs(&self) -> u64 {
        self.place().synced
    }
}

fn failed(operation: &'static str, number: u64, kind: ErrorKind) -> FileError {
    let path = Path::new("journal").join(number.to_string());
    FileError { operation, path, source: kind.into() }
}

impl Segments for MemorySegments {
    fn list(&self) -> Result<Vec<SegmentInfo>, FileError> {
        let place = self.place();
        let existing = place.segments.iter();
        Ok(existing
            .map(|(number, bytes)| SegmentInfo { number: *number, size: bytes.len() as u64 })
            .collect())
    }

    fn append_to(&self, number: u64) -> Result<Arc<dyn Segment>, FileError> {
        self.place().segments.entry(number).or_default();
        Ok(Arc::new(MemorySegment { all: self.clone(), number }))
    }

    fn read(&self, number: u64) -> Result<Box<dyn BufRead + Send>, FileError> {
        let place = self.place();
        if place.unreadable.contains(&number) {
            return Err(failed("read", number, ErrorKind::InvalidData));
        }
        let content = place.segments.get(&number);
        let content = content.ok_or_else(|| failed("read", number, ErrorKind::NotFound))?;
        Ok(Box::new(Cursor::new(content.clone())))
    }

    fn remove(&self, number: u64) -> Result<(), FileError> {
        let mut place = self.place();
        place.segments.remove(&number);
        place.reserved.remove(&number);
        Ok(())
    }

    fn beside(&self, name: &str) -> Arc<dyn Segments> {
        Arc::new(self.others(name))
    }

    fn waits_for_disk(&self) -> bool {
        false
    }
}

#[derive(Debug)]
struct MemorySegment {
    all: MemorySegments,
    number: u64,
}

impl Segment for MemorySegment {
    fn append(&self, bytes: &[u8]) -> io::Result<()> {
        let mut place = self.all.place();
        let size = place.segments.get(&self.number).map_or(0, Vec::len);
        let kept = place.reserved.get(&self.number).map_or(0, |until| until.saturating_sub(size));
        let room = place.room.map_or(usize::MAX, |room| room + kept);
        let written = &bytes[..bytes.len().min(room)];
        if let Some(room) = &mut place.room {
            *room -= written.len().saturating_sub(kept);
        }
        // A segment that was removed while it was open takes bytes that are never read.
        if let Some(content) = place.segments.get_mut(&self.number) {
            content.extend_from_slice(written);
        }
        if written.len() < bytes.len() { Err(ErrorKind::StorageFull.into()) } else { Ok(()) }
    }

    fn reserve(&self, length: u64) -> io::Result<()> {
        let mut place = self.all.place();
        let length = usize::try_from(length).unwrap_or(usize::MAX);
        let size = place.segments.get(&self.number).map_or(0, Vec::len);
        let kept = |until: usize| until.saturating_sub(size);
        let before = place.reserved.get(&self.number).copied().map_or(0, kept);
        if place.cannot_reserve {
            return Err(ErrorKind::Unsupported.into());
        }
        if let Some(room) = &mut place.room {
            let left = (*room + before).checked_sub(kept(length));
            *room = left.ok_or(ErrorKind::StorageFull)?;
        }
        place.reserved.insert(self.number, length);
        Ok(())
    }

    fn sync(&self) -> io::Result<()> {
        self.all.place().synced += 1;
        Ok(())
    }
}
