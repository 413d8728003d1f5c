//! Acting on what was seen after the last action.

use std::collections::{BTreeMap, BTreeSet};

use model::ports::runtime::Code;

use super::Invariant;
use crate::history::{Event, Record, ReservedName};

/// Who asks for something that it was told it has looked too early. What is gone may be made again, under the
/// same number.
#[derive(Debug, Default)]
pub(super) struct NoDuplicateCreation {
    /// What the agent was told it has, by its id.
    known: BTreeMap<String, ReservedName>,
    /// Ids of what is gone: that may be so before the agent is told of it.
    gone: BTreeSet<String>,
}

impl Invariant for NoDuplicateCreation {
    fn sentence(&self) -> &'static str {
        "the agent does not ask for what it knows to be there"
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
