//! The journal's segments of an agent: they are cut off at its death.

use std::collections::BTreeMap;
use std::io::{self, BufRead};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use journal::{Entry, EntryOutcome};
use model::ports::files::FileError;
use model::ports::segments::{Segment, SegmentInfo, Segments};

use crate::history::{Event, ObjectRef};
use crate::life::Life;
use crate::outside::Outside;

/// The name of the segments with removals in progress.
const UNDER_WAY: &str = "under-way";

/// The segments of one agent.
#[derive(Debug)]
pub(crate) struct FaultySegments {
    pub(crate) outside: Arc<Outside>,
    pub(crate) life: Arc<Life>,
    /// Whether the agent died during the write of a line.
    pub(crate) torn: Arc<AtomicBool>,
    /// The kind of segments.
    pub(crate) place: Place,
}

/// The content of segments.
#[derive(Debug, Clone)]
pub(crate) enum Place {
    /// Removals that have ended.
    Journal,
    /// Removals in progress, in separate segments, with the object of each number of this agent.
    UnderWay(Arc<dyn Segments>, Arc<Mutex<BTreeMap<u64, (ObjectRef, String)>>>),
    /// Incidents and sessions, in separate segments. No invariant reads them.
    Other(Arc<dyn Segments>),
}

/// A removal that is recorded before it begins, or that has ended.
#[derive(Debug, serde::Deserialize)]
struct ProgressLine {
    number: u64,
    began: Option<Entry>,
}

impl FaultySegments {
    fn segments(&self) -> &dyn Segments {
        match &self.place {
            Place::Journal => &self.outside.journal,
            Place::UnderWay(segments, _) | Place::Other(segments) => &**segments,
        }
    }
}

impl Segments for FaultySegments {
    fn list(&self) -> Result<Vec<SegmentInfo>, FileError> {
        self.segments().list()
    }

    fn append_to(&self, number: u64) -> Result<Arc<dyn Segment>, FileError> {
        let segment = self.segments().append_to(number)?;
        Ok(Arc::new(FaultySegment {
            segment,
            outside: Arc::clone(&self.outside),
            life: Arc::clone(&self.life),
            torn: Arc::clone(&self.torn),
            place: self.place.clone(),
        }))
    }

    fn read(&self, number: u64) -> Result<Box<dyn BufRead + Send>, FileError> {
        self.segments().read(number)
    }

    /// A dead agent removes nothing.
    fn remove(&self, number: u64) -> Result<(), FileError> {
        if self.life.over.is_cancelled() { Ok(()) } else { self.segments().remove(number) }
    }

    fn beside(&self, name: &str) -> Arc<dyn Segments> {
        let beside = self.segments().beside(name);
        let place = match name {
            UNDER_WAY => Place::UnderWay(beside, Arc::default()),
            _ => Place::Other(beside),
        };
        let (outside, life) = (Arc::clone(&self.outside), Arc::clone(&self.life));
        Arc::new(Self { outside, life, torn: Arc::clone(&self.torn), place })
    }

    fn waits_for_disk(&self) -> bool {
        false
    }
}

#[derive(Debug)]
struct FaultySegment {
    segment: Arc<dyn Segment>,
    outside: Arc<Outside>,
    life: Arc<Life>,
    torn: Arc<AtomicBool>,
    place: Place,
}

impl Segment for FaultySegment {
    fn reserve(&self, length: u64) -> io::Result<()> {
        self.segment.reserve(length)
    }

    /// A dead agent writes nothing; the line during which it died is partly written.
    fn append(&self, bytes: &[u8]) -> io::Result<()> {
        if self.life.over.is_cancelled() {
            let is_torn = !matches!(self.place, Place::Other(_));
            if is_torn && !self.torn.swap(true, Ordering::Relaxed) {
                self.segment.append(&bytes[..bytes.len() / 2])?;
            }
            return Err(io::ErrorKind::BrokenPipe.into());
        }
        self.segment.append(bytes)?;
        match &self.place {
            Place::Journal => {
                let entry: Entry = serde_json::from_slice(bytes)?;
                let object = ObjectRef { kind: entry.kind, id: entry.id };
                let failed = entry.outcome == EntryOutcome::Failed;
                self.outside.record(Event::EntryWritten(object, entry.rule, failed));
            }
            Place::Other(_) => {}
            Place::UnderWay(_, known) => {
                let mut known = known.lock().unwrap_or_else(PoisonError::into_inner);
                let ProgressLine { number, began } = serde_json::from_slice(bytes)?;
                if let Some(Entry { kind, id, rule, .. }) = began {
                    let object = ObjectRef { kind, id };
                    // Removals in progress are copied to a new file.
                    if known.insert(number, (object.clone(), rule.clone())).is_none() {
                        self.outside.record(Event::IntentWritten(object, rule));
                    }
                } else if let Some((object, rule)) = known.remove(&number) {
                    self.outside.record(Event::IntentSettled(object, rule));
                }
            }
        }
        Ok(())
    }

    fn sync(&self) -> io::Result<()> {
        self.segment.sync()
    }
}
