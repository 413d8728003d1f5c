//! A pod in the cache.

use model::cluster::{Deletion, PodPhase, PodRecord, Uid, Version};

/// The number of no name.
pub(super) const NO_NAME: u32 = u32::MAX;

/// An unknown time.
const NO_TIME: i64 = i64::MIN;

/// The stored fields of a pod. Small: there is one for each pod of the cluster.
#[derive(Debug)]
#[expect(clippy::struct_excessive_bools, reason = "independent facts in one byte each")]
pub(super) struct Slot {
    pub(super) name: Box<str>,
    pub(super) uid: Uid,
    pub(super) version: Version,
    pub(super) generation: i64,
    pub(super) observed_generation: i64,
    pub(super) created: i64,
    finished: i64,
    disrupted_since: i64,
    pub(super) namespace: u32,
    pub(super) node: u32,
    /// The generation of the slot: incremented when its pod is removed.
    pub(super) stamp: u32,
    pub(super) phase: PodPhase,
    pub(super) deletion: Deletion,
    /// Whether it was evicted.
    pub(super) evicted: bool,
    pub(super) excluded: bool,
    /// Whether the controller deleted it and has received no event about it since.
    pub(super) requested: bool,
    /// Whether the current list of pods has contained the pod so far.
    pub(super) is_listed: bool,
}

impl Default for Slot {
    fn default() -> Self {
        Self::new(PodRecord { is_excluded: true, ..PodRecord::default() }, NO_NAME, NO_NAME)
    }
}

impl Slot {
    pub(super) fn new(record: PodRecord, namespace: u32, node: u32) -> Self {
        Self {
            name: record.name.into(),
            uid: record.uid,
            version: record.version,
            generation: record.generation,
            observed_generation: record.observed_generation,
            created: record.created,
            finished: record.finished.unwrap_or(NO_TIME),
            disrupted_since: record.disrupted_since.unwrap_or(NO_TIME),
            namespace,
            node,
            stamp: 0,
            phase: record.phase,
            deletion: record.deletion,
            evicted: record.is_evicted && record.phase == PodPhase::Failed,
            excluded: record.is_excluded,
            requested: false,
            is_listed: true,
        }
    }

    /// When it ended; when it was created if that is unknown.
    pub(super) fn finished(&self) -> i64 {
        if self.finished == NO_TIME { self.created } else { self.finished }
    }

    pub(super) fn disrupted_since(&self) -> Option<i64> {
        (self.disrupted_since != NO_TIME).then_some(self.disrupted_since)
    }
}
