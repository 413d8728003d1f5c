//! Builds the probe manager.

use std::sync::Arc;

use model::panics::PanicGuard;
use pods::workers::WorkersHandle;
use probes::{ManagerParts, Metrics, ProbeManager};
use process::tasks::Tasks;
use status::manager::PodStatusManager;

use crate::pod_probes::follow_probes;
use crate::wiring::{Ports, Settings};

/// The probe manager, without tasks.
pub(super) fn probe_manager(
    settings: &Settings,
    ports: &Ports,
    panics: &PanicGuard,
) -> ProbeManager {
    ProbeManager::new(ManagerParts {
        containers: Arc::clone(&ports.runtime.containers),
        network: Arc::clone(&ports.probes),
        events: Arc::clone(&ports.events),
        clock: Arc::clone(&ports.clock),
        files: Arc::clone(&ports.files),
        state: settings.state(),
        metrics: Metrics::new(&ports.probe_metrics).expect("no other part counts probes"),
        panics: panics.clone(),
        resets_on_restart: settings.resets_on_restart,
        jitter: model::jitter::fraction,
    })
}

/// Starts its tasks.
pub(super) fn start_probes(
    probes: &ProbeManager,
    status: &Arc<PodStatusManager>,
    workers: &WorkersHandle,
    tasks: &mut Tasks,
) {
    let manager = probes.clone();
    tasks.spawn("probes", |stop| manager.run(stop));
    let manager = probes.clone();
    tasks.spawn("probe results", |stop| manager.keep(stop));
    let follow = follow_probes(probes.clone(), Arc::clone(status), workers.clone());
    tasks.spawn("changed probe results", |stop| async move {
        stop.run_until_cancelled(follow).await;
    });
}
