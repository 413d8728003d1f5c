//! Removing containers.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use model::ids::ContainerId;

use super::Invariant;
use crate::history::{Event, Instance, Record, Removed};

/// A runtime kills a running container that it removes, without a grace: it must be stopped before. This does
/// not hold for a container that started after the last read, however late that was answered.
#[derive(Debug, Default)]
pub(super) struct RemovalAfterStop {
    containers: BTreeMap<ContainerId, Arc<Instance>>,
    /// Containers that ran according to the last read.
    seen_running: BTreeSet<ContainerId>,
    stop_requested: BTreeSet<ContainerId>,
}

impl Invariant for RemovalAfterStop {
    fn sentence(&self) -> &'static str {
        "no running container is removed before it was stopped"
    }

    fn read(&mut self, record: &Record) -> Result<(), String> {
        match &record.event {
            Event::Container(one, _) => {
                self.containers.insert(one.id.clone(), Arc::clone(one));
            }
            Event::ContainerObserved(id, runs) => {
                if *runs {
                    self.seen_running.insert(id.clone());
                } else {
                    self.seen_running.remove(id);
                }
            }
            Event::StopRequested(id, _) => {
                self.stop_requested.insert(id.clone());
            }
            Event::RemovalRequested(Removed::Container(id), _) => {
                let one = self.containers.get(id).filter(|one| one.may_live());
                let is_stop_requested = self.stop_requested.contains(id);
                if one.is_some() && !is_stop_requested && self.seen_running.contains(id) {
                    return Err(format!("{id} is removed while it runs"));
                }
            }
            _ => {}
        }
        Ok(())
    }
}
