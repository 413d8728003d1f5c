//! Acting on what was seen after the last action.

use std::collections::BTreeSet;

use model::observed::ContainerState;
use model::ports::runtime::Code;

use super::Invariant;
use crate::history::{Event, Maker, Record};

/// Who asks for something that it was told it has looked too early.
#[derive(Debug, Default)]
pub(super) struct ActsOnFreshLooks {
    told: BTreeSet<Maker>,
}

impl Invariant for ActsOnFreshLooks {
    fn sentence(&self) -> &'static str {
        "the agent does not ask for what it knows to be there"
    }

    fn read(&mut self, record: &Record) -> Result<(), String> {
        match &record.event {
            Event::Made(maker, Ok(())) => {
                self.told.insert(maker.clone());
            }
            Event::Made(maker, Err(Code::FailedPrecondition)) if self.told.contains(maker) => {
                let what = maker.name.as_deref().unwrap_or("the sandbox");
                return Err(format!("{what} number {} of {}", maker.attempt, maker.uid));
            }
            Event::Container(one, Some(ContainerState::Created)) if one.state.is_none() => {
                let (uid, name) = (one.uid.clone(), Some(one.name.clone()));
                self.told.remove(&Maker { uid, name, attempt: one.attempt });
            }
            _ => {}
        }
        Ok(())
    }
}
