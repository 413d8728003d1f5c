//! The pods that an agent has read.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use model::ids::PodUid;

use crate::history::{Event, Record};
use crate::plan::PodPlan;

/// The wanted pods, with the times at which the current agent read them.
#[derive(Debug, Default)]
pub(super) struct ReadPods(BTreeMap<PodUid, ReadPod>);

#[derive(Debug)]
struct ReadPod {
    plan: Arc<PodPlan>,
    /// When it was first read, in any version.
    since: Option<Duration>,
    /// When its current version was read.
    as_it_is: Option<Duration>,
}

impl ReadPods {
    /// Processes the next record.
    pub(super) fn take(&mut self, Record { at, event }: &Record) {
        match event {
            Event::Wanted(uid, plan) => {
                let since = self.since(uid);
                let pod = ReadPod { plan: Arc::clone(plan), since, as_it_is: None };
                self.0.insert(uid.clone(), pod);
            }
            Event::Unwanted(uid) => drop(self.0.remove(uid)),
            Event::AgentStarted(_) => {
                self.0.values_mut().for_each(|pod| (pod.since, pod.as_it_is) = (None, None));
            }
            Event::OriginRead(origin) => {
                for pod in self.0.values_mut().filter(|pod| pod.plan.origin() == *origin) {
                    pod.since = pod.since.or(Some(*at));
                    pod.as_it_is = pod.as_it_is.or(Some(*at));
                }
            }
            _ => {}
        }
    }

    /// When the agent read that a pod is wanted, in any version.
    pub(super) fn since(&self, uid: &PodUid) -> Option<Duration> {
        self.0.get(uid).and_then(|pod| pod.since)
    }

    /// The pods whose current version the agent has read, and when.
    pub(super) fn as_they_are(&self) -> impl Iterator<Item = (&PodPlan, Duration)> {
        self.0.values().filter_map(|pod| Some((&*pod.plan, pod.as_it_is?)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::invariants::tests::{pod, seconds, wanted};
    use crate::plan::Policy;

    #[test]
    fn read_pods_are_recorded_with_the_times_of_their_reads() {
        let read = || Event::OriginRead(pod(Policy::Never).origin());
        let other = || Event::OriginRead(podspec::Origin::File(PodPlan::path_of("other")));
        let again = || wanted(Policy::Never);
        let gone = || Event::Unwanted("u".into());
        let restart = || Event::AgentStarted(2);
        let rows = [
            // The events, a second each; when the pod was read in any version, and in the current one.
            (vec![again()], None, None),
            (vec![again(), read(), read()], Some(1), Some(1)),
            (vec![again(), other()], None, None),
            (vec![read(), again()], None, None),
            (vec![again(), read(), again()], Some(1), None),
            (vec![again(), read(), again(), read()], Some(1), Some(3)),
            (vec![again(), read(), gone()], None, None),
            (vec![again(), read(), gone(), again()], None, None),
            (vec![again(), read(), restart()], None, None),
            (vec![again(), read(), restart(), read()], Some(3), Some(3)),
        ];
        for (events, since, as_it_is) in rows {
            let mut pods = ReadPods::default();
            for (at, event) in (0..).zip(events.clone()) {
                pods.take(&Record { at: seconds(at), event });
            }
            assert_eq!(pods.since(&"u".into()), since.map(seconds), "{events:?}");
            let known = pods.as_they_are().map(|(_, since)| since).next();
            assert_eq!(known, as_it_is.map(seconds), "{events:?}");
        }
    }
}
