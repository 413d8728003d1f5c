//! The journal's segments as an agent reaches them: with its death they are cut off where they are.

use std::io::{self, BufRead};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use journal::Entry;
use model::ports::files::FileError;
use model::ports::segments::{Lying, Segment, Segments};

use crate::history::{Event, Thing};
use crate::life::Life;
use crate::outside::Outside;

/// The segments of one agent.
#[derive(Debug)]
pub(crate) struct FaultySegments {
    pub(crate) outside: Arc<Outside>,
    pub(crate) life: Arc<Life>,
    /// Whether the agent died over a line.
    pub(crate) torn: Arc<AtomicBool>,
}

impl Segments for FaultySegments {
    fn list(&self) -> Result<Vec<Lying>, FileError> {
        self.outside.journal.list()
    }

    fn append_to(&self, number: u64) -> Result<Arc<dyn Segment>, FileError> {
        let (outside, life) = (Arc::clone(&self.outside), Arc::clone(&self.life));
        let segment = self.outside.journal.append_to(number)?;
        Ok(Arc::new(FaultySegment { segment, outside, life, torn: Arc::clone(&self.torn) }))
    }

    fn read(&self, number: u64) -> Result<Box<dyn BufRead + Send>, FileError> {
        self.outside.journal.read(number)
    }

    fn remove(&self, number: u64) -> Result<(), FileError> {
        self.outside.journal.remove(number)
    }
}

#[derive(Debug)]
struct FaultySegment {
    segment: Arc<dyn Segment>,
    outside: Arc<Outside>,
    life: Arc<Life>,
    torn: Arc<AtomicBool>,
}

impl Segment for FaultySegment {
    /// Nobody writes after his death; of the line over which he died a part is there.
    fn append(&self, bytes: &[u8]) -> io::Result<()> {
        if self.life.over.is_cancelled() {
            if !self.torn.swap(true, Ordering::Relaxed) {
                self.segment.append(&bytes[..bytes.len() / 2])?;
            }
            return Err(io::ErrorKind::BrokenPipe.into());
        }
        self.segment.append(bytes)?;
        let entry: Entry = serde_json::from_slice(bytes)?;
        let thing = Thing { kind: entry.kind, id: entry.id };
        self.outside.record(Event::Written(thing, entry.rule));
        Ok(())
    }

    fn sync(&self) -> io::Result<()> {
        self.segment.sync()
    }
}
