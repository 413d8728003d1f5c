//! Acting on what was seen after the last action.

use std::collections::{BTreeMap, BTreeSet};

use model::ports::runtime::Code;

use super::Invariant;
use crate::history::{Event, Maker, Record};

/// Who asks for something that it was told it has looked too early. What is gone may be made again, under the
/// same number.
#[derive(Debug, Default)]
pub(super) struct ActsOnFreshLooks {
    /// What the agent was told it has, by its id.
    told: BTreeMap<String, Maker>,
    /// Ids of what is gone: that may be so before the agent is told of it.
    gone: BTreeSet<String>,
}

impl Invariant for ActsOnFreshLooks {
    fn sentence(&self) -> &'static str {
        "the agent does not ask for what it knows to be there"
    }

    fn read(&mut self, record: &Record) -> Result<(), String> {
        match &record.event {
            Event::Made(maker, Ok(id)) if !self.gone.contains(id) => {
                self.told.insert(id.clone(), maker.clone());
            }
            Event::Made(maker, Err(Code::FailedPrecondition))
                if self.told.values().any(|told| told == maker) =>
            {
                let what = maker.name.as_deref().unwrap_or("the sandbox");
                return Err(format!("{what} number {} of {}", maker.attempt, maker.uid));
            }
            Event::Gone(thing) => {
                self.told.remove(&thing.id);
                self.gone.insert(thing.id.clone());
            }
            _ => {}
        }
        Ok(())
    }
}
