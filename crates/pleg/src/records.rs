//! What the relist task remembers of pods between two looks.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use model::fingerprint::Fingerprint;
use model::ids::PodUid;
use model::observed::PodStatus;
use model::stamp::Stamp;
use tokio::time::Instant;

use crate::decide::PodRecord;
use crate::metrics::Counts;

/// What was last reported of a pod.
#[derive(Debug, Default)]
pub(crate) struct Record {
    pub(crate) seen: PodRecord,
    /// When the look began that it was seen in.
    pub(crate) at: Stamp,
    /// The status could not be read: read it again even if no state changed.
    pub(crate) reinspect: bool,
    /// When it may be read again after it could not be, and how long it waits after the next failure.
    /// Otherwise a few pods that hang would use up all the inspections there can be at a time.
    pub(crate) retry: Option<(Instant, Duration)>,
    /// The last status that could be read.
    pub(crate) status: Option<Arc<PodStatus>>,
    /// Its share in the gauges.
    pub(crate) counts: Counts,
}

/// What is under way for a pod.
#[derive(Debug)]
pub(crate) struct Busy {
    /// When the look began.
    pub(crate) since: Stamp,
    /// Whether something newer was heard of meanwhile: look again afterwards.
    pub(crate) again: bool,
}

/// What the runtime has by the records; `None` when one must be compared whatever the runtime says.
pub(crate) fn fingerprint(records: &BTreeMap<PodUid, Record>) -> Option<Fingerprint> {
    let mut fingerprint = Fingerprint::default();
    for record in records.values() {
        if record.reinspect {
            return None;
        }
        record.seen.add_to(&mut fingerprint);
    }
    Some(fingerprint)
}
