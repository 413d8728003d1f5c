//! One live container for each name of a pod.

use std::collections::BTreeMap;
use std::sync::Arc;

use model::ids::{ContainerId, PodUid};

use super::Invariant;
use crate::history::{Event, Record};

#[derive(Debug, Default)]
pub(super) struct OneLiveContainer {
    live: BTreeMap<(PodUid, Arc<str>), ContainerId>,
}

impl Invariant for OneLiveContainer {
    fn sentence(&self) -> &'static str {
        "at most one container of each name of a pod lives"
    }

    fn read(&mut self, record: &Record) -> Result<(), String> {
        let Event::Container(one, _) = &record.event else { return Ok(()) };
        let key = (one.uid.clone(), Arc::clone(&one.name));
        match self.live.get(&key) {
            Some(other) if *other == one.id => {
                if !one.may_live() {
                    self.live.remove(&key);
                }
            }
            Some(other) if one.may_live() => {
                return Err(format!("{} lives beside {other}", one.id));
            }
            None if one.may_live() => {
                self.live.insert(key, one.id.clone());
            }
            Some(_) | None => {}
        }
        Ok(())
    }
}
