//! Pods that nobody wants.

use std::collections::BTreeMap;
use std::time::Duration;

use model::ids::{ContainerId, PodUid};

use super::Invariant;
use crate::history::{Event, Record};

/// How long something may go on that began when the pod was wanted: a call may hang for four minutes,
/// a manifest may be unreadable for a while, and an agent may be away.
const PATIENCE: Duration = Duration::from_mins(6);

/// A pod that has ended is not synced again: nothing of it is made or started long after it was last wanted.
#[derive(Debug, Default)]
pub(super) struct OrphansStayDead {
    unwanted: BTreeMap<PodUid, Duration>,
    pods: BTreeMap<ContainerId, PodUid>,
}

impl Invariant for OrphansStayDead {
    fn sentence(&self) -> &'static str {
        "nothing of a pod is made or started that nobody has wanted for long"
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
                        "something of {} is made, unwanted since {since:?}",
                        reserved.uid
                    ));
                }
            }
            _ => {}
        }
        Ok(())
    }
}
