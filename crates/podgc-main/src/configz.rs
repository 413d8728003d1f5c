//! The settings in the format of upstream's controller manager.

use std::time::Duration;

use config::GoDuration;
use config::pod_gc::{Election, PodGcArguments};
use serde_json::{Value, json};

/// The name and the group of upstream's configuration.
const GROUP: &str = "kubecontrollermanager.config.k8s.io";
/// The name of our settings in the same object.
const OURS: &str = "ferrolet";

/// The settings in effect, as JSON.
pub(crate) fn configz(args: &PodGcArguments) -> Value {
    let PodGcArguments { server, terminated, serving, .. } = args;
    let kubeconfig = server.kubeconfig.as_ref().map(|path| path.display().to_string());
    json!({
        GROUP: {
            "kind": "KubeControllerManagerConfiguration",
            "apiVersion": format!("{GROUP}/v1alpha1"),
            "Generic": {
                "Port": serving.port,
                "Address": serving.address,
                "ClientConnection": {
                    "kubeconfig": kubeconfig.unwrap_or_default(),
                    "contentType": "application/json",
                    "qps": server.qps,
                    "burst": server.burst,
                },
                "ControllerStartInterval": span(args.start_interval),
                "LeaderElection": election(args.election.as_ref()),
                "Controllers": ["pod-garbage-collector-controller"],
            },
            "PodGCController": { "TerminatedPodGCThreshold": terminated.threshold },
        },
        OURS: {
            "gcCheckPeriod": span(args.check_period),
            "quarantineTime": span(args.quarantine),
            "terminatedPodTTL": terminated.ttl.map(span),
            "terminatedPodsPerNamespace": terminated.per_namespace,
            "terminatedPodsPerNode": terminated.per_node,
            "terminatedPodOrder": if terminated.by_finish { "finish" } else { "creation" },
            "excludesByLabels": !args.exclude_labels.is_empty(),
            "excludesByAnnotations": !args.exclude_annotations.is_empty(),
            "maxDeletionPercent": args.max_deletion_percent,
            "concurrentDeletions": args.concurrency,
            "dryRun": args.dry_run,
            "deletionEvents": args.events,
            "stateDir": args.state_dir.display().to_string(),
            "journalMaxBytes": args.journal_bytes,
        },
    })
}

fn election(election: Option<&Election>) -> Value {
    let Some(election) = election else { return json!({ "leaderElect": false }) };
    json!({
        "leaderElect": true,
        "leaseDuration": span(election.lease_duration),
        "renewDeadline": span(election.renew_deadline),
        "retryPeriod": span(election.retry_period),
        "resourceLock": "leases",
        "resourceName": election.name,
        "resourceNamespace": election.namespace,
    })
}

/// A duration in Go's notation.
fn span(time: Duration) -> String {
    GoDuration::from_nanos(i64::try_from(time.as_nanos()).unwrap_or(i64::MAX)).to_string()
}

#[cfg(test)]
mod tests {
    use config::pod_gc::{Invocation, parse};

    use super::*;

    // behaviour: PGC-106
    #[test]
    fn configz_uses_upstream_names() {
        let args = ["--terminated-pod-gc-threshold=-1", "--terminated-pod-ttl=1h", "--dry-run"];
        let Ok(Invocation::Run(args)) = parse(args) else {
            panic!("these flags run the controller")
        };
        let shown = configz(&args);
        let theirs = &shown["kubecontrollermanager.config.k8s.io"];
        assert_eq!(theirs["PodGCController"], json!({ "TerminatedPodGCThreshold": -1 }));
        assert_eq!(theirs["Generic"]["LeaderElection"]["leaseDuration"], "15s");
        assert_eq!(theirs["Generic"]["ClientConnection"]["qps"], 20.0);
        assert_eq!(shown["ferrolet"]["terminatedPodTTL"], "1h0m0s");
        assert_eq!(shown["ferrolet"]["dryRun"], true);
        assert_eq!(shown["ferrolet"]["gcCheckPeriod"], "20s");
        assert_eq!(shown["ferrolet"]["quarantineTime"], "40s");
        let Ok(Invocation::Run(args)) = parse(["--leader-elect=false"]) else {
            panic!("not a run")
        };
        let shown = configz(&args);
        let generic = &shown["kubecontrollermanager.config.k8s.io"]["Generic"];
        assert_eq!(generic["LeaderElection"], json!({ "leaderElect": false }));
    }
}
