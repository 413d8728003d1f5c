//! Pods.

use std::borrow::Cow;

use model::cluster::{Deletion, PodPhase, PodRecord, Version};
use model::selector::Selector;
use serde::Deserialize;

use super::{Metadata, second, value};

/// Labels and annotations that exclude pods from Pod GC.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Exclusion {
    /// By their labels.
    pub labels: Selector,
    /// By their annotations.
    pub annotations: Selector,
}

/// A pod.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Pod<'a> {
    #[serde(borrow)]
    pub(crate) metadata: Metadata<'a>,
    #[serde(borrow)]
    spec: Spec<'a>,
    #[serde(borrow)]
    status: Status<'a>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Spec<'a> {
    #[serde(borrow)]
    node_name: Cow<'a, str>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Status<'a> {
    #[serde(borrow)]
    phase: Cow<'a, str>,
    #[serde(borrow)]
    reason: Cow<'a, str>,
    observed_generation: i64,
    #[serde(borrow)]
    conditions: Vec<Condition<'a>>,
    init_container_statuses: Vec<ContainerStatus>,
    container_statuses: Vec<ContainerStatus>,
}

/// A condition of any object.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct Condition<'a> {
    #[serde(borrow, rename = "type")]
    pub(super) kind: Cow<'a, str>,
    #[serde(borrow)]
    pub(super) status: Cow<'a, str>,
    #[serde(deserialize_with = "second")]
    last_transition_time: Option<i64>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct ContainerStatus {
    state: ContainerState,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct ContainerState {
    terminated: Option<Terminated>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Terminated {
    #[serde(deserialize_with = "second")]
    finished_at: Option<i64>,
}

impl Pod<'_> {
    pub(crate) fn record(self, exclusion: &Exclusion) -> PodRecord {
        let Self { metadata, spec, status } = self;
        let deletion = match (metadata.deletion_timestamp, metadata.deletion_grace_period_seconds) {
            (None, _) => Deletion::None,
            (Some(_), Some(0)) => Deletion::Forced,
            (Some(_), _) => Deletion::Graceful,
        };
        let disrupted = status
            .conditions
            .iter()
            .find(|condition| condition.kind == "DisruptionTarget" && condition.status == "True");
        let ends = status.container_statuses.iter().chain(&status.init_container_statuses);
        let finished = ends.filter_map(|one| one.state.terminated.as_ref()?.finished_at).max();
        let is_excluded = exclusion.labels.matches(|key| value(&metadata.labels, key))
            || exclusion.annotations.matches(|key| value(&metadata.annotations, key));
        PodRecord {
            uid: metadata.uid(),
            version: Version::from(&*metadata.resource_version),
            generation: metadata.generation,
            observed_generation: status.observed_generation,
            created: metadata.creation_timestamp.unwrap_or_default(),
            deletion,
            node: spec.node_name.into_owned(),
            phase: PodPhase::named(&status.phase),
            is_evicted: status.reason == "Evicted",
            disrupted_since: disrupted.map(|one| one.last_transition_time.unwrap_or_default()),
            finished: finished.filter(|second| *second > 0),
            is_excluded,
            namespace: metadata.namespace.into_owned(),
            name: metadata.name.into_owned(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(json: &str) -> PodRecord {
        let pod: Pod<'_> = serde_json::from_str(json).unwrap();
        let labels = "keep=yes".parse().unwrap();
        let annotations = "example.com/keep".parse().unwrap();
        pod.record(&Exclusion { labels, annotations })
    }

    #[test]
    fn pod_decodes_only_needed_fields() {
        let json = r#"{"kind":"Pod","apiVersion":"v1","metadata":{"name":"a","namespace":"b",
          "uid":"00112233-4455-6677-8899-aabbccddeeff","resourceVersion":"12","generation":3,
          "creationTimestamp":"2026-01-01T00:00:00Z","deletionTimestamp":"2026-01-01T00:01:00Z",
          "deletionGracePeriodSeconds":0,"labels":{"x":"y"},"managedFields":[{"manager":"m"}]},
          "spec":{"nodeName":"n","containers":[{"name":"c","image":"i"}]},
          "status":{"phase":"Failed","reason":"Evicted","observedGeneration":2,
           "conditions":[{"type":"Ready","status":"False","lastTransitionTime":null},
            {"type":"DisruptionTarget","status":"True","lastTransitionTime":"2026-01-01T00:00:30Z"}],
           "containerStatuses":[{"name":"c","state":{"terminated":{"exitCode":1,
             "finishedAt":"2026-01-01T00:00:50Z"}}},
             {"name":"d","state":{"terminated":{"finishedAt":null}}},{"name":"e","state":{"running":{}}}]}}"#;
        let expected = PodRecord {
            namespace: "b".to_owned(),
            name: "a".to_owned(),
            uid: "00112233-4455-6677-8899-aabbccddeeff".into(),
            version: Version::from(12),
            generation: 3,
            observed_generation: 2,
            created: 1_767_225_600,
            deletion: Deletion::Forced,
            node: "n".to_owned(),
            phase: PodPhase::Failed,
            is_evicted: true,
            disrupted_since: Some(1_767_225_630),
            finished: Some(1_767_225_650),
            is_excluded: false,
        };
        assert_eq!(record(json), expected);
    }

    #[test]
    fn absent_and_null_fields_are_empty() {
        let json = r#"{"metadata":{"name":"a","creationTimestamp":null,"labels":null},"spec":{},"status":{}}"#;
        let record = record(json);
        assert_eq!((record.name.as_str(), record.created, record.phase), ("a", 0, PodPhase::Other));
        assert_eq!((record.deletion, record.finished), (Deletion::None, None));
    }

    #[test]
    fn deletion_with_a_grace_period_is_graceful() {
        let json = r#"{"metadata":{"deletionTimestamp":"2026-01-01T00:01:00Z","deletionGracePeriodSeconds":30}}"#;
        assert_eq!(record(json).deletion, Deletion::Graceful);
    }

    #[test]
    fn pods_are_excluded_by_label_or_annotation() {
        for (json, excluded) in [
            (r#"{"metadata":{"labels":{"keep":"yes"}}}"#, true),
            (r#"{"metadata":{"labels":{"keep":"no"}}}"#, false),
            (r#"{"metadata":{"annotations":{"example.com/keep":"a \"quote\""}}}"#, true),
            (r#"{"metadata":{"annotations":{"keep":"yes"}}}"#, false),
        ] {
            assert_eq!(record(json).is_excluded, excluded, "{json}");
        }
    }
}
