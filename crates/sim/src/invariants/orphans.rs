//! Orphaned pods.

use std::collections::BTreeMap;
use std::time::Duration;

use model::ids::{ContainerId, PodUid};

use super::Invariant;
use crate::history::{Event, Record};

/// How long work may continue that began when the pod was wanted: a call may hang for four minutes, a manifest
/// may be unreadable for a while, and an agent may be down.
const PATIENCE: Duration = Duration::from_mins(6);

/// An orphaned pod is not synced: nothing of it is created or started long after it was last wanted.
#[derive(Debug, Default)]
pub(super) struct OrphansStayDead {
    unwanted: BTreeMap<PodUid, Duration>,
    pods: BTreeMap<ContainerId, PodUid>,
}

impl Invariant for OrphansStayDead {
    fn sentence(&self) -> &'static str {
        "nothing of an orphaned pod is created or started"
    }

    fn read(&mut self, record: &Record) -> Result<(), String> {
        match &record.event {
            Event::Wanted(uid, _) => {
                self.unwanted.remove(uid);
            }
            Event::Unwanted(uid) => {
                self.unwanted.insert(uid.clone(), record.at);
            }
            Event::Container(one, _) => {
                self.pods.insert(one.id.clone(), one.uid.clone());
            }
            Event::StartRequested(id) => {
                let since = self.pods.get(id).and_then(|uid| self.unwanted.get(uid));
                if since.is_some_and(|since| record.at > *since + PATIENCE) {
                    return Err(format!("{id} is started, unwanted since {since:?}"));
                }
            }
            Event::CreationRequested(reserved) => {
                let since = self.unwanted.get(&reserved.uid);
                if since.is_some_and(|since| record.at > *since + PATIENCE) {
                    return Err(format!(
                        "something of {} is created, unwanted since {since:?}",
                        reserved.uid
                    ));
                }
            }
            _ => {}
        }
        Ok(())
    }
}
