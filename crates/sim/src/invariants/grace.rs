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

/// A sidecar gets what the others leave of it, and whoever has a hook what that leaves, which may be more at
/// the next try: then all of it is there again. Where all start over they do so without a grace, whatever they get
/// at their end.
#[derive(Debug, Default)]
pub(super) struct GraceShrinks {
    pods: BTreeMap<PodUid, Arc<PodPlan>>,
    containers: BTreeMap<ContainerId, (PodUid, Arc<str>)>,
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
                self.asked.retain(|id, _| containers.get(id).is_none_or(|(of, _)| of != uid));
            }
            Event::Container(one, _) => {
                let whose = (one.uid.clone(), Arc::clone(&one.name));
                self.containers.insert(one.id.clone(), whose);
            }
            Event::StopAsked(id, grace) => {
                let whose = self.containers.get(id);
                let pod = whose.and_then(|(uid, _)| self.pods.get(uid));
                let plan = whose.and_then(|(_, name)| pod?.container(name));
                let varies =
                    plan.is_some_and(|plan| plan.sidecar || plan.extras.pre_stop.is_some());
                let starts_over = pod.is_some_and(|pod| pod.restarts_all());
                let most = pod.map(|pod| Duration::from_secs(pod.grace).max(LEAST));
                if most.is_some_and(|most| *grace > most) {
                    return Err(format!("{id} gets {grace:?}, its pod says {most:?}"));
                }
                if let Some(before) = self.asked.insert(id.clone(), *grace)
                    && before < *grace
                    && !varies
                    && !(starts_over && before <= LEAST)
                {
                    return Err(format!("{id} gets {grace:?} after {before:?}"));
                }
            }
            _ => {}
        }
        Ok(())
    }
}
