//! Restart numbers.

use std::collections::BTreeMap;
use std::sync::Arc;

use model::ids::{ContainerId, PodUid};
use model::observed::ContainerState;

use super::Invariant;
use crate::history::{Event, Record};

/// Whoever removes an instance, with its log, may use its number again; as long as another one is there that
/// has started, no number is used that is not higher than its own.
#[derive(Debug, Default)]
pub(super) struct NumbersAdvance {
    /// The numbers of those that have started and are there.
    there: BTreeMap<(PodUid, Arc<str>), BTreeMap<ContainerId, u32>>,
}

impl Invariant for NumbersAdvance {
    fn sentence(&self) -> &'static str {
        "every instance of a container that starts has a higher number than those that are there"
    }

    fn read(&mut self, record: &Record) -> Result<(), String> {
        let Event::Container(one, was) = &record.event else { return Ok(()) };
        let there = self.there.entry((one.uid.clone(), Arc::clone(&one.name))).or_default();
        if one.state.is_none() {
            there.remove(&one.id);
        }
        let starts = one.started.is_some()
            && matches!(was, None | Some(ContainerState::Created))
            && one.state.is_some();
        if !starts {
            return Ok(());
        }
        let before = there.values().max().copied();
        there.insert(one.id.clone(), one.attempt);
        match before {
            Some(before) if before >= one.attempt => {
                Err(format!("{} has number {} beside number {before}", one.id, one.attempt))
            }
            _ => Ok(()),
        }
    }
}
