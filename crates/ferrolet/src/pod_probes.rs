//! Connects the probe manager with statuses and pod workers.

use std::sync::Arc;

use model::probe::{PodProbes, ProbeKind};
use pods::decide::worker::Update;
use pods::workers::WorkersHandle;
use probes::ProbeManager;
use runtime::decide::{ProbeResult, ProbeResults};
use status::manager::PodStatusManager;

/// Results for kills, and for starts of the containers after a sidecar.
pub(crate) fn probe_results(probes: PodProbes) -> ProbeResults {
    let mut results = ProbeResults::default();
    for (id, instance) in probes.instances {
        if instance.startup == Some(true) {
            results.startup.insert(id.clone(), ProbeResult::Success);
        }
        if let Some(failure) = instance.failure {
            let of_kind = match failure.kind {
                ProbeKind::Startup => &mut results.startup,
                ProbeKind::Liveness | ProbeKind::Readiness => &mut results.liveness,
            };
            of_kind.insert(id, ProbeResult::Failure(failure));
        }
    }
    results
}

/// Publishes results that changed and has their pods synced. Never returns. The status comes first: a worker may be
/// busy with another container for minutes.
pub(crate) async fn follow_probes(
    probes: ProbeManager,
    status: Arc<PodStatusManager>,
    workers: WorkersHandle,
) {
    loop {
        let changed = probes.changed().await;
        for uid in &changed {
            if let Some(published) = status.probed(uid, &probes.results(uid)) {
                probes.observe(uid, &published.status);
            }
        }
        for uid in changed {
            workers.update(uid, Update::Sync).await;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use model::probe::{InstanceProbes, ProbeFailure};

    use super::*;

    #[test]
    fn failures_kill_and_startup_success_lets_the_next_container_start() {
        let failure = |kind| ProbeFailure {
            kind,
            failures: 3,
            threshold: 3,
            period: Duration::from_secs(10),
            output: String::new(),
        };
        let instance = |startup, failure| InstanceProbes { startup, readiness: None, failure };
        let (startup, liveness) = (failure(ProbeKind::Startup), failure(ProbeKind::Liveness));
        let instances = [
            ("new".into(), instance(None, None)),
            ("failed-once".into(), instance(Some(false), None)),
            ("started".into(), instance(Some(true), None)),
            ("not-started".into(), instance(Some(false), Some(startup.clone()))),
            ("stuck".into(), instance(Some(true), Some(liveness.clone()))),
        ];
        let probes = PodProbes { resets_before: None, instances: instances.into() };
        let expected = ProbeResults {
            startup: [
                ("started".into(), ProbeResult::Success),
                ("not-started".into(), ProbeResult::Failure(startup)),
                ("stuck".into(), ProbeResult::Success),
            ]
            .into(),
            liveness: [("stuck".into(), ProbeResult::Failure(liveness))].into(),
        };
        assert_eq!(probe_results(probes), expected);
    }
}
