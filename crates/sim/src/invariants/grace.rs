//! Graces.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use model::ids::{ContainerId, PodUid};

use super::Invariant;
use crate::history::{Event, Record};
use crate::plan::PodPlan;

/// The least that the runtime is told.
const LEAST: Duration = Duration::from_secs(2);

#[derive(Debug, Default)]
pub(super) struct GraceShrinks {
    pods: BTreeMap<PodUid, Arc<PodPlan>>,
    containers: BTreeMap<ContainerId, PodUid>,
    asked: BTreeMap<ContainerId, Duration>,
}

impl Invariant for GraceShrinks {
    fn sentence(&self) -> &'static str {
        "the grace of a container is at most its pod's and only shrinks"
    }

    fn read(&mut self, record: &Record) -> Result<(), String> {
        match &record.event {
            Event::Wanted(uid, pod) => {
                self.pods.insert(uid.clone(), Arc::clone(pod));
                // A pod that is wanted again has its whole grace again.
                let containers = &self.containers;
                self.asked.retain(|id, _| containers.get(id) != Some(uid));
            }
            Event::Container(one, _) => {
                self.containers.insert(one.id.clone(), one.uid.clone());
            }
            Event::StopAsked(id, grace) => {
                let pod = self.containers.get(id).and_then(|uid| self.pods.get(uid));
                let most = pod.map(|pod| Duration::from_secs(pod.grace).max(LEAST));
                if most.is_some_and(|most| *grace > most) {
                    return Err(format!("{id} gets {grace:?}, its pod says {most:?}"));
                }
                if let Some(before) = self.asked.insert(id.clone(), *grace)
                    && before < *grace
                {
                    return Err(format!("{id} gets {grace:?} after {before:?}"));
                }
            }
            _ => {}
        }
        Ok(())
    }
}
