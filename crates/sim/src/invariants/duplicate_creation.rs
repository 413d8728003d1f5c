//! Actions on observations from after the last action.

use std::collections::{BTreeMap, BTreeSet};

use model::ports::runtime::Code;

use super::Invariant;
use crate::history::{Event, Record, ReservedName};

/// An agent that requests an object that it knows to exist has used an old observation. A removed object may be
/// created again with the same number.
#[derive(Debug, Default)]
pub(super) struct NoDuplicateCreation {
    /// The known objects of the agent, by id.
    known: BTreeMap<String, ReservedName>,
    /// Ids of removed objects: the removal may happen before the agent gets its result.
    gone: BTreeSet<String>,
}

impl Invariant for NoDuplicateCreation {
    fn sentence(&self) -> &'static str {
        "the agent does not create an object that it knows to exist"
    }

    fn read(&mut self, record: &Record) -> Result<(), String> {
        match &record.event {
            Event::CreationAnswered(reserved, Ok(id)) if !self.gone.contains(id) => {
                self.known.insert(id.clone(), reserved.clone());
            }
            Event::CreationAnswered(reserved, Err(Code::FailedPrecondition))
                if self.known.values().any(|known| known == reserved) =>
            {
                let what = reserved.name.as_deref().unwrap_or("the sandbox");
                return Err(format!("{what} number {} of {}", reserved.attempt, reserved.uid));
            }
            Event::Gone(object) => {
                self.known.remove(&object.id);
                self.gone.insert(object.id.clone());
            }
            _ => {}
        }
        Ok(())
    }
}
