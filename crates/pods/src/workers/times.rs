//! Measures how long workers take for updates.

use std::collections::BTreeMap;

use model::ids::PodUid;
use tokio::time::Instant;

use crate::decide::worker::Update;
use crate::metrics::Metrics;

/// An update and when it was requested.
#[derive(Debug, Clone, Copy)]
struct PendingUpdate {
    what: &'static str,
    at: Instant,
}

/// Updates that are not done yet. An update that arrives while a job runs is done by the next job.
#[derive(Debug)]
pub(super) struct Times {
    metrics: Metrics,
    waiting: BTreeMap<PodUid, PendingUpdate>,
    worked_on: BTreeMap<PodUid, PendingUpdate>,
    /// When the update was requested that the last job did.
    last: BTreeMap<PodUid, Instant>,
}

impl Times {
    pub(super) fn new(metrics: Metrics) -> Self {
        let (waiting, worked_on, last) = Default::default();
        Self { metrics, waiting, worked_on, last }
    }

    pub(super) fn requested(&mut self, uid: &PodUid, update: &Update) {
        let what = match update {
            Update::Create(_) => "create",
            Update::Update(_) => "update",
            Update::Sync => "sync",
            Update::Kill { .. } => "kill",
        };
        let pending = PendingUpdate { what, at: Instant::now() };
        self.waiting.entry(uid.clone()).or_insert(pending);
    }

    /// A job started.
    pub(super) fn began(&mut self, uid: &PodUid) {
        if let Some(pending) = self.waiting.remove(uid) {
            self.last.insert(uid.clone(), pending.at);
            self.worked_on.insert(uid.clone(), pending);
        }
    }

    /// A job ended.
    pub(super) fn ended(&mut self, uid: &PodUid) {
        if let Some(PendingUpdate { what, at }) = self.worked_on.remove(uid) {
            self.metrics.worked(what, at.elapsed());
        }
    }

    /// A worker has finished.
    pub(super) fn finished(&mut self, uid: &PodUid) {
        if let Some(requested) = self.last.remove(uid) {
            self.metrics.worked("terminated", requested.elapsed());
        }
    }

    /// The state of a pod was dropped.
    pub(super) fn forgotten(&mut self, uid: &PodUid) {
        self.last.remove(uid);
    }

    /// An update needed no job.
    pub(super) fn skipped(&mut self, uid: &PodUid) {
        self.waiting.remove(uid);
    }
}
