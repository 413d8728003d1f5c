//! Pods of the API server.

use std::borrow::Cow;

use async_trait::async_trait;
use http::Method;
use model::cluster::{FailedStatus, PodRecord, PodRemoved, PodTarget, Uid, Version};
use model::ports::cluster::{ApiError, PodFeed, PodWrites, Sink};
use model::verdict::Verdict;
use serde_json::{Value, json};

use crate::call::{Call, decoded};
use crate::decode::Identity;
use crate::decode::pod::{Exclusion, Pod};
use crate::follow::{Follower, Kind, has_slim_metadata};
use crate::{Cluster, urls};

struct Pods<'e> {
    exclusion: &'e Exclusion,
}

has_slim_metadata!(Pod);

impl Kind for Pods<'_> {
    type Object<'a> = Pod<'a>;
    type Record = PodRecord;
    type Key = Uid;
    const NAME: &'static str = "pods";
    const FORGETS: bool = true;

    fn path(&self) -> Cow<'_, str> {
        "/api/v1/pods".into()
    }

    fn key(pod: &Identity<'_>) -> Uid {
        Uid::from(&*pod.uid)
    }

    fn record(&self, object: Pod<'_>) -> PodRecord {
        object.record(self.exclusion)
    }
}

#[async_trait]
impl PodFeed for Cluster {
    async fn follow_pods(&self, sink: &dyn Sink<PodRecord, Uid>) {
        let pods = Pods { exclusion: &self.exclusion };
        Follower::new(&self.caller, pods, sink).run().await;
    }
}

#[async_trait]
impl PodWrites for Cluster {
    async fn fail_pod(&self, pod: &PodTarget, status: &FailedStatus) -> Result<Version, ApiError> {
        let path = urls::pod(&pod.namespace, &pod.name) + "/status";
        let answer = self.caller.read(Call::patch(path, patch(pod, status).to_string())).await?;
        Ok(Version::from(&*decoded::<Pod<'_>>(&answer)?.metadata.resource_version))
    }

    async fn remove_pod(&self, pod: &PodTarget, _: &Verdict) -> Result<PodRemoved, ApiError> {
        let path = urls::pod(&pod.namespace, &pod.name);
        let answer = self.caller.read(Call::json(Method::DELETE, path, &options(pod))).await?;
        // The response is the last state of the pod, or a bare status.
        let read = decoded::<Pod<'_>>(&answer);
        let held = read.is_ok_and(|pod| !pod.metadata.finalizers.is_empty());
        Ok(if held { PodRemoved::Held } else { PodRemoved::Gone })
    }
}

/// The status patch of a pod. The uid makes the server refuse it for another pod of that name, the version for
/// a changed pod.
fn patch(pod: &PodTarget, status: &FailedStatus) -> Value {
    let mut fields = json!({ "phase": "Failed" });
    if let Some(generation) = status.observed_generation {
        fields["observedGeneration"] = generation.into();
    }
    if let Some(disruption) = &status.disruption {
        let since = disruption.since.strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
        fields["conditions"] = json!([{
            "type": "DisruptionTarget",
            "status": "True",
            "reason": disruption.reason,
            "message": disruption.message,
            "observedGeneration": disruption.observed_generation,
            "lastTransitionTime": since,
            "lastProbeTime": null,
        }]);
    }
    let mut metadata = json!({ "uid": pod.uid.to_string() });
    if let Some(version) = pod.version.0 {
        metadata["resourceVersion"] = version.to_string().into();
    }
    json!({ "metadata": metadata, "status": fields })
}

/// Immediate deletion, of exactly this version of this pod.
fn options(pod: &PodTarget) -> Value {
    let mut preconditions = json!({ "uid": pod.uid.to_string() });
    if let Some(version) = pod.version.0 {
        preconditions["resourceVersion"] = version.to_string().into();
    }
    json!({
        "kind": "DeleteOptions",
        "apiVersion": "v1",
        "gracePeriodSeconds": 0,
        "preconditions": preconditions,
    })
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;
    use model::cluster::Disruption;

    use super::*;

    fn target() -> PodTarget {
        let version = Version::from(7);
        PodTarget { namespace: "ns".into(), name: "a".into(), uid: "u1".into(), version }
    }

    // behaviour: PGC-55
    #[test]
    fn patch_contains_uid_version_and_changes_only() {
        let bare = patch(&target(), &FailedStatus::default());
        let metadata = json!({"uid": "u1", "resourceVersion": "7"});
        assert_eq!(bare, json!({"metadata": metadata, "status": {"phase": "Failed"}}));
        let unnumbered = PodTarget { version: Version(None), ..target() };
        let bare = patch(&unnumbered, &FailedStatus::default());
        assert_eq!(bare["metadata"], json!({"uid": "u1"}));
        let disruption = Disruption {
            reason: "DeletionByPodGC",
            message: "PodGC: node no longer exists",
            observed_generation: 2,
            since: Timestamp::constant(1_767_225_600, 5),
        };
        let status = FailedStatus { observed_generation: Some(2), disruption: Some(disruption) };
        let expected = json!({
            "metadata": metadata,
            "status": {
                "phase": "Failed",
                "observedGeneration": 2,
                "conditions": [{
                    "type": "DisruptionTarget",
                    "status": "True",
                    "reason": "DeletionByPodGC",
                    "message": "PodGC: node no longer exists",
                    "observedGeneration": 2,
                    "lastTransitionTime": "2026-01-01T00:00:00Z",
                    "lastProbeTime": null
                }]
            }
        });
        assert_eq!(patch(&target(), &status), expected);
    }

    // behaviour: PGC-56
    #[test]
    fn deletion_has_no_grace_period_and_preconditions() {
        let expected = json!({
            "kind": "DeleteOptions",
            "apiVersion": "v1",
            "gracePeriodSeconds": 0,
            "preconditions": {"uid": "u1", "resourceVersion": "7"}
        });
        assert_eq!(options(&target()), expected);
        let unnumbered = PodTarget { version: Version(None), ..target() };
        assert_eq!(options(&unnumbered)["preconditions"], json!({"uid": "u1"}));
    }
}
