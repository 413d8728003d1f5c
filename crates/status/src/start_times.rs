//! Measures how long pods of the API take to start.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use k8s_openapi::api::core::v1::Pod;
use model::ids::PodUid;
use model::ports::clock::WallClock;
use model::ports::events::PodEvent;
use podspec::view;
use tracing::debug;

use crate::decide::{Pull, StartTracker};
use crate::metrics::Metrics;

/// Receives pods and image pulls. Clones share the state.
#[derive(Debug, Clone)]
pub struct StartTimes {
    /// Written here only. Never held across an await.
    starts: Arc<Mutex<StartTracker>>,
    clock: Arc<dyn WallClock>,
    metrics: Metrics,
}

impl StartTimes {
    /// Creates an empty tracker.
    pub fn new(clock: Arc<dyn WallClock>, metrics: Metrics) -> Self {
        Self { starts: Arc::default(), clock, metrics }
    }

    fn starts(&self) -> MutexGuard<'_, StartTracker> {
        self.starts.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Processes an event of a pod: events report image pulls.
    pub fn happened(&self, event: &PodEvent) {
        let pull = match &*event.reason {
            "Pulling" => Pull::Began,
            "Pulled" => Pull::Ended,
            _ => return,
        };
        self.starts().pulling(&event.pod_uid, pull, self.clock.now());
    }

    /// Processes the API server's copy of a pod.
    pub(crate) fn observe(&self, pod: &Pod) {
        let started = self.starts().observe(pod, self.clock.now());
        if let Some(started) = started {
            let (name, uid) = (view::pod_name(pod), view::uid(pod));
            debug!(pod = %name, %uid, total = ?started.total, own = ?started.own, "Observed pod startup duration");
            self.metrics.started(&started);
        }
    }

    /// Drops all other pods, if more than `most` are known.
    pub(crate) fn retain(&self, most: usize, is_there: impl FnMut(&PodUid) -> bool) {
        let mut starts = self.starts();
        if starts.count() > most {
            starts.retain(is_there);
        }
    }
}
