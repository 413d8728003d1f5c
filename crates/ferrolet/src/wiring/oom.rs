//! Builds the OOM watcher.

use std::sync::Arc;

use model::oom::OomKills;
use model::ports::incidents::IncidentRecord;
use model::seq::SeqCounter;
use oom::{OomParts, OomWatcher};
use process::tasks::Tasks;
use status::store::StatusReader;

use super::Ports;
use crate::oom_victims::OomVictims;

/// What it needs of other parts of the agent.
pub(super) struct OomInputs<'a> {
    /// The last known status of every pod.
    pub(super) cache: &'a pleg::cache::Reader,
    /// Requests a new one.
    pub(super) requests: &'a pleg::DirtySet<()>,
    /// The order of observations.
    pub(super) seq: &'a SeqCounter,
    /// The published statuses.
    pub(super) statuses: &'a StatusReader,
    /// Records kills.
    pub(super) incidents: Arc<dyn IncidentRecord>,
}

/// Starts the watcher, if the kernel's log is given. Returns the kills that it finds.
pub(super) fn start_oom_watcher(
    ports: &Ports,
    inputs: OomInputs<'_>,
    tasks: &mut Tasks,
) -> OomKills {
    let kills = OomKills::default();
    let Some(log) = ports.kernel_log.clone() else { return kills };
    let victims = OomVictims {
        cache: inputs.cache.clone(),
        requests: inputs.requests.clone(),
        seq: inputs.seq.clone(),
        statuses: inputs.statuses.clone(),
    };
    let watcher = OomWatcher::new(OomParts {
        log,
        victims: Arc::new(victims),
        events: Arc::clone(&ports.events),
        node_events: Arc::clone(&ports.node_events),
        incidents: inputs.incidents,
        clock: Arc::clone(&ports.clock),
        kills: kills.clone(),
    });
    tasks.spawn("OOM watcher", |stop| watcher.run(stop));
    kills
}
