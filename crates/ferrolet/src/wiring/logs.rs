//! Builds the rotation of container logs.

use std::sync::Arc;

use logs::{LogMetrics, LogParts, LogRotation, log_rotation};
use model::panics::PanicGuard;
use process::tasks::Tasks;

use super::{Ports, Settings};

/// Starts the rotation; returns the handle through which the sync loop reports pods. None without log files.
pub(super) fn start_log_rotation(
    settings: &Settings,
    ports: &Ports,
    panics: &PanicGuard,
    tasks: &mut Tasks,
) -> Option<LogRotation> {
    let log_parts = LogParts {
        files: Arc::clone(ports.log_files.as_ref()?),
        removals: Arc::clone(&ports.files),
        runtime: Arc::new(ports.runtime.clone()),
        clock: Arc::clone(&ports.clock),
        pod_logs: settings.pod_logs.clone(),
        metrics: LogMetrics::new(&ports.metrics).expect("no other part counts rotations"),
        panics: panics.clone(),
    };
    let rotation = log_rotation(log_parts, settings.log_rotation.clone());
    let (task, handle) = rotation.expect("no other part measures container logs");
    tasks.spawn("log rotation", |stop| task.run(stop));
    Some(handle)
}
