//! How long pods' workers take for what is asked of them.

use std::collections::BTreeMap;

use model::ids::PodUid;
use tokio::time::Instant;

use crate::decide::worker::Update;
use crate::metrics::Metrics;

/// What was asked, and when.
#[derive(Debug, Clone, Copy)]
struct Asked {
    what: &'static str,
    at: Instant,
}

/// What was asked of workers and is not done. What comes while a job runs is done by the next one.
#[derive(Debug)]
pub(super) struct Times {
    metrics: Metrics,
    waiting: BTreeMap<PodUid, Asked>,
    worked_on: BTreeMap<PodUid, Asked>,
    /// When that was asked which the last job did.
    last: BTreeMap<PodUid, Instant>,
}

impl Times {
    pub(super) fn new(metrics: Metrics) -> Self {
        let (waiting, worked_on, last) = Default::default();
        Self { metrics, waiting, worked_on, last }
    }

    pub(super) fn asked(&mut self, uid: &PodUid, update: &Update) {
        let what = match update {
            Update::Create(_) => "create",
            Update::Update(_) => "update",
            Update::Sync => "sync",
            Update::Kill { .. } => "kill",
        };
        let asked = Asked { what, at: Instant::now() };
        self.waiting.entry(uid.clone()).or_insert(asked);
    }

    /// A job begins.
    pub(super) fn began(&mut self, uid: &PodUid) {
        if let Some(asked) = self.waiting.remove(uid) {
            self.last.insert(uid.clone(), asked.at);
            self.worked_on.insert(uid.clone(), asked);
        }
    }

    /// A job ended.
    pub(super) fn ended(&mut self, uid: &PodUid) {
        if let Some(Asked { what, at }) = self.worked_on.remove(uid) {
            self.metrics.worked(what, at.elapsed());
        }
    }

    /// A worker is done with its pod.
    pub(super) fn finished(&mut self, uid: &PodUid) {
        if let Some(asked) = self.last.remove(uid) {
            self.metrics.worked("terminated", asked.elapsed());
        }
    }

    /// Nothing is left of a pod.
    pub(super) fn forgotten(&mut self, uid: &PodUid) {
        self.last.remove(uid);
    }

    /// What was asked was answered without a job.
    pub(super) fn came_to_nothing(&mut self, uid: &PodUid) {
        self.waiting.remove(uid);
    }
}
