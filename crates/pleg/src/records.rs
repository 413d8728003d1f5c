//! The records of the relist task about pods between two lists.

use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use model::fingerprint::Fingerprint;
use model::ids::PodUid;
use model::observed::RuntimePodStatus;
use model::seq::Seq;
use tokio::time::Instant;

use crate::decide::PodRecord;
use crate::metrics::Counts;

/// The last reported state of a pod.
#[derive(Debug, Default)]
pub(crate) struct Record {
    pub(crate) seen: PodRecord,
    /// When the list began that showed it.
    pub(crate) at: Seq,
    /// The status could not be read: read it again even if no state changed.
    pub(crate) reinspect: bool,
    /// When a failed read may be retried, and the wait after the next failure. Without it a few hung pods
    /// would use up all parallel inspections.
    pub(crate) retry: Option<(Instant, Duration)>,
    /// Whether the work for the pod panicked: until the retry, it is not compared.
    pub(crate) panicked: bool,
    /// The last status that could be read.
    pub(crate) status: Option<Arc<RuntimePodStatus>>,
    /// Its share in the gauges.
    pub(crate) counts: Counts,
}

/// Work in progress for a pod.
#[derive(Debug)]
pub(crate) struct Busy {
    /// When the list began.
    pub(crate) since: Seq,
    /// Whether a newer event or request arrived: relist the pod afterwards.
    pub(crate) again: bool,
}

/// The records of all pods.
#[derive(Debug, Default)]
pub(crate) struct Records {
    pods: BTreeMap<PodUid, Record>,
    /// Computed on demand; cleared by every mutable access to a record.
    summary: OnceLock<Summary>,
}

/// A summary of all records.
#[derive(Debug)]
struct Summary {
    /// The runtime's objects according to the records; `None` when a pod must be compared in any case.
    fingerprint: Option<Fingerprint>,
    /// Whether the runtime has an object of every pod.
    all_there: bool,
}

impl Records {
    fn summary(&self) -> &Summary {
        self.summary.get_or_init(|| {
            let mut fingerprint = Fingerprint::default();
            for record in self.pods.values() {
                record.seen.add_to(&mut fingerprint);
            }
            Summary {
                fingerprint: (!self.pods.values().any(|record| record.reinspect))
                    .then_some(fingerprint),
                all_there: self.pods.values().all(|record| !record.seen.is_empty()),
            }
        })
    }

    fn change(&mut self) -> &mut BTreeMap<PodUid, Record> {
        self.summary.take();
        &mut self.pods
    }

    /// The runtime's objects according to the records; `None` when a pod must be compared in any case.
    pub(crate) fn fingerprint(&self) -> Option<Fingerprint> {
        self.summary().fingerprint
    }

    pub(crate) fn len(&self) -> usize {
        self.pods.len()
    }

    pub(crate) fn get(&self, uid: &PodUid) -> Option<&Record> {
        self.pods.get(uid)
    }

    pub(crate) fn uids(&self) -> impl Iterator<Item = &PodUid> {
        self.pods.keys()
    }

    /// The record of a pod; a new, empty one if there is none.
    pub(crate) fn of(&mut self, uid: &PodUid) -> &mut Record {
        self.change().entry(uid.clone()).or_default()
    }

    pub(crate) fn remove(&mut self, uid: &PodUid) {
        self.change().remove(uid);
    }

    /// Removes the records of pods without objects in the runtime, except those that `stays` keeps.
    pub(crate) fn forget_gone(&mut self, stays: impl Fn(&PodUid, &Record) -> bool) {
        if !self.summary().all_there {
            self.change().retain(|uid, record| !record.seen.is_empty() || stays(uid, record));
        }
    }
}

#[cfg(test)]
mod tests {
    use model::ids::ObjectId;

    use super::*;
    use crate::decide::ObjectState;

    fn seen(objects: &[(&str, ObjectState)]) -> PodRecord {
        let named = objects.iter();
        named.map(|(id, state)| (ObjectId::Container((*id).into()), *state)).collect()
    }

    /// The fingerprint, computed without a cached summary.
    fn anew(records: &mut Records) -> Option<Fingerprint> {
        Records { pods: std::mem::take(&mut records.pods), ..Records::default() }.fingerprint()
    }

    #[test]
    fn fingerprint_follows_every_change_of_a_record() {
        let (a, b) = (PodUid::from("a"), PodUid::from("b"));
        let steps: [&dyn Fn(&mut Records); 8] = [
            &|records| records.of(&a).seen = seen(&[("1", ObjectState::Running)]),
            &|records| records.of(&b).seen = seen(&[("2", ObjectState::Exited)]),
            &|records| records.of(&a).seen = seen(&[("1", ObjectState::Exited)]),
            &|records| records.of(&b).reinspect = true,
            &|records| records.of(&b).reinspect = false,
            &|records| records.of(&a).seen = PodRecord::default(),
            &|records| records.forget_gone(|_, _| false),
            &|records| records.remove(&b),
        ];
        let mut records = Records::default();
        for count in 0..=steps.len() {
            let mut again = Records::default();
            steps[..count].iter().for_each(|step| step(&mut again));
            assert_eq!(records.fingerprint(), anew(&mut again), "after {count} steps");
            if let Some(step) = steps.get(count) {
                step(&mut records);
            }
        }
        assert_eq!(records.len(), 0);
    }

    #[test]
    fn gone_pods_are_removed_unless_the_filter_keeps_them() {
        let mut records = Records::default();
        records.of(&"gone".into()).at = Seq::START;
        records.of(&"late".into());
        records.of(&"there".into()).seen = seen(&[("1", ObjectState::Running)]);
        records.forget_gone(|uid, _| uid.as_str() == "late");
        assert_eq!(records.uids().map(PodUid::as_str).collect::<Vec<_>>(), ["late", "there"]);
        records.forget_gone(|_, _| false);
        assert_eq!(records.uids().map(PodUid::as_str).collect::<Vec<_>>(), ["there"]);
    }
}
