//! Restart numbers.

use std::collections::BTreeMap;
use std::sync::Arc;

use model::ids::PodUid;
use model::observed::ContainerState;

use super::Invariant;
use crate::history::{Event, Record};

/// Whoever removes an instance, with its log, may use its number again.
#[derive(Debug, Default)]
pub(super) struct NumbersAdvance {
    highest: BTreeMap<(PodUid, Arc<str>), u32>,
}

impl Invariant for NumbersAdvance {
    fn sentence(&self) -> &'static str {
        "every instance of a container that starts has a higher number than those before"
    }

    fn read(&mut self, record: &Record) -> Result<(), String> {
        let Event::Container(one, was) = &record.event else { return Ok(()) };
        let key = (one.uid.clone(), Arc::clone(&one.name));
        if one.state.is_none() {
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
