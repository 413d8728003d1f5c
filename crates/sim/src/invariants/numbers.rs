//! Restart numbers.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use model::ids::{ContainerId, PodUid};
use model::observed::ContainerState;

use super::Invariant;
use crate::history::{Event, Record};

/// One that started although the agent was told it had not, and that it then removed, is no instance to
/// speak of.
#[derive(Debug, Default)]
pub(super) struct NumbersAdvance {
    highest: BTreeMap<(PodUid, Arc<str>), u32>,
    told: BTreeSet<ContainerId>,
}

impl Invariant for NumbersAdvance {
    fn sentence(&self) -> &'static str {
        "every instance of a container that starts has a higher number than those before"
    }

    fn read(&mut self, record: &Record) -> Result<(), String> {
        if let Event::StartTold(id) = &record.event {
            self.told.insert(id.clone());
        }
        let Event::Container(one, was) = &record.event else { return Ok(()) };
        let key = (one.uid.clone(), Arc::clone(&one.name));
        if one.state.is_none() && !self.told.contains(&one.id) {
            self.highest.remove(&key);
        }
        let starts = one.started.is_some()
            && matches!(was, None | Some(ContainerState::Created))
            && one.state.is_some();
        if !starts {
            return Ok(());
        }
        let before = self.highest.insert(key, one.attempt);
        match before {
            Some(before) if before >= one.attempt => {
                Err(format!("{} has number {} after number {before}", one.id, one.attempt))
            }
            _ => Ok(()),
        }
    }
}
