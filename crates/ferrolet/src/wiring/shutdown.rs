//! Builds the shutdown manager.

use std::sync::Arc;

use process::tasks::Tasks;
use shutdown::{ShutdownManager, ShutdownMetrics, ShutdownParts};

use super::{Ports, Settings};
use crate::node_shutdown::PodsAtShutdown;

/// Starts the manager, if shutdowns are to be delayed.
pub(super) fn start_shutdown_manager(
    settings: &Settings,
    ports: &Ports,
    pods: PodsAtShutdown,
    tasks: &mut Tasks,
) {
    let metrics = ShutdownMetrics::new(&ports.metrics).expect("no other part times shutdowns");
    let Some(login) = ports.login.clone().filter(|_| !settings.shutdown.is_empty()) else { return };
    let shutdown_parts = ShutdownParts {
        login,
        files: Arc::clone(&ports.files),
        root_dir: settings.node.root_dir.clone(),
        pods: Arc::new(pods),
        node_events: Arc::clone(&ports.node_events),
        clock: Arc::clone(&ports.clock),
        metrics,
    };
    let manager = ShutdownManager::new(shutdown_parts, settings.shutdown.clone());
    tasks.spawn("shutdown manager", |stop| manager.run(stop));
}
