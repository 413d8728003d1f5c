//! Checks that the journal can be read at the end.

use journal::{Query, find};
use model::ports::segments::Segments;

use crate::history::{Event, ObjectRef, Record};
use crate::invariants::Broken;

/// The expected entries of the journal.
#[derive(Debug, Default)]
pub(super) struct JournalCheck {
    last: Option<ObjectRef>,
    deaths: u64,
}

impl JournalCheck {
    /// Processes the next records.
    pub(super) fn read(&mut self, records: &[Record]) {
        for record in records {
            match &record.event {
                Event::EntryWritten(object, ..) => self.last = Some(object.clone()),
                Event::AgentDied => self.deaths += 1,
                _ => {}
            }
        }
    }

    /// Whether it can be read past the deaths of agents, each of which damages at most one entry.
    pub(super) fn check(&self, segments: &dyn Segments) -> Result<(), Broken> {
        let Some(ObjectRef { id, .. }) = &self.last else { return Ok(()) };
        let how = match find(segments, &Query::new(id), 1) {
            Err(error) => error.to_string(),
            Ok(found) if found.entries.is_empty() => format!("no entry of {id}"),
            Ok(found) if found.damaged > self.deaths || !found.problems.is_empty() => {
                format!("{} entries are damaged: {:?}", found.damaged, found.problems)
            }
            Ok(_) => return Ok(()),
        };
        Err(Broken { invariant: "the journal can be read", how })
    }
}
