//! Pods and statuses for the tables of this folder.

use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Container, Pod, PodSpec};
use model::ids::PodName;
use model::labels;
use model::observed::{
    ContainerState, ContainerStatus, RuntimePodStatus, SandboxState, SandboxStatus,
};
use model::probe::{ProbeFailure, ProbeKind};

use super::probe_results::ProbeResult;

pub(crate) fn container(name: &str) -> Container {
    Container { name: name.to_owned(), image: Some("image:1".to_owned()), ..Container::default() }
}

pub(crate) fn sidecar(name: &str) -> Container {
    Container { restart_policy: Some("Always".to_owned()), ..container(name) }
}

pub(crate) fn with_inits(mut pod: Pod, inits: Vec<Container>) -> Pod {
    pod.spec.get_or_insert_default().init_containers = Some(inits);
    pod
}

pub(crate) fn pod(policy: &str, containers: Vec<Container>) -> Pod {
    let spec =
        PodSpec { restart_policy: Some(policy.to_owned()), containers, ..PodSpec::default() };
    let mut pod = Pod { spec: Some(spec), ..Pod::default() };
    pod.metadata.name = Some("web".to_owned());
    pod.metadata.namespace = Some("default".to_owned());
    pod.metadata.uid = Some("uid".to_owned());
    pod
}

pub(crate) fn sandbox(id: &str, attempt: u32, state: SandboxState) -> SandboxStatus {
    SandboxStatus {
        id: id.into(),
        pod_uid: "uid".into(),
        pod: PodName::new("default", "web"),
        attempt,
        state,
        created_at: Timestamp::UNIX_EPOCH,
        ips: vec!["10.0.0.1".parse().unwrap()],
        host_network: false,
        given: None,
    }
}

/// An instance of a container made from [`container`]; `exit_code` counts when it has exited.
pub(crate) fn instance(
    id: &str,
    name: &str,
    state: ContainerState,
    exit_code: i32,
) -> ContainerStatus {
    let hash = podspec::definition_hash_hex(name, "image:1");
    ContainerStatus {
        id: id.into(),
        sandbox_id: "s".into(),
        name: name.into(),
        state,
        created_at: Timestamp::UNIX_EPOCH,
        started_at: None,
        finished_at: None,
        exit_code,
        image: "image:1".into(),
        image_ref: "sha256:1".into(),
        reason: "".into(),
        message: "".into(),
        log_path: "".into(),
        annotations: [(labels::CONTAINER_HASH.to_owned(), hash)].into(),
        mounts: Vec::new(),
        resources: None,
        user: None,
        stop_signal: None,
    }
}

/// The result of a probe that failed three times.
pub(crate) fn failed_probe(kind: ProbeKind) -> ProbeResult {
    ProbeResult::Failure(ProbeFailure {
        kind,
        failures: 3,
        threshold: 3,
        period: Duration::from_secs(10),
        output: "HTTP probe failed with statuscode: 500".to_owned(),
    })
}

pub(crate) fn status(
    sandboxes: Vec<SandboxStatus>,
    containers: Vec<ContainerStatus>,
) -> RuntimePodStatus {
    RuntimePodStatus { sandboxes, containers, ..RuntimePodStatus::empty("uid".into()) }
}
