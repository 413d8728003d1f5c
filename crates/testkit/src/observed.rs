//! Container and sandbox statuses for tests of decisions.

use jiff::Timestamp;
use model::ids::{PodName, PodUid};
use model::observed::{
    Container, ContainerState, ContainerStatus, RuntimePodStatus, SandboxState, SandboxStatus,
};

/// A container with these values only.
pub fn container_status(id: &str, name: &str, state: ContainerState) -> ContainerStatus {
    ContainerStatus {
        id: id.into(),
        sandbox_id: "s".into(),
        name: name.into(),
        state,
        created_at: Timestamp::UNIX_EPOCH,
        started_at: None,
        finished_at: None,
        exit_code: 0,
        image: "".into(),
        image_ref: "".into(),
        reason: "".into(),
        message: "".into(),
        log_path: "".into(),
        annotations: <_>::default(),
        mounts: Vec::new(),
        resources: None,
        user: None,
        stop_signal: None,
    }
}

/// A sandbox with these values only.
pub fn sandbox_status(id: &str, state: SandboxState) -> SandboxStatus {
    SandboxStatus {
        id: id.into(),
        pod_uid: "uid".into(),
        pod: PodName::new("default", "web"),
        attempt: 0,
        state,
        created_at: Timestamp::UNIX_EPOCH,
        ips: Vec::new(),
        host_network: false,
        given: None,
    }
}

/// A pod with sandboxes and containers in these states.
pub fn pod_status(sandboxes: &[SandboxState], containers: &[ContainerState]) -> RuntimePodStatus {
    let sandbox = |(at, state): (usize, &SandboxState)| sandbox_status(&format!("s{at}"), *state);
    let container =
        |(at, state): (usize, &ContainerState)| container_status(&format!("c{at}"), "main", *state);
    RuntimePodStatus {
        sandboxes: sandboxes.iter().enumerate().map(sandbox).collect(),
        containers: containers.iter().enumerate().map(container).collect(),
        ..RuntimePodStatus::empty(PodUid::from("uid"))
    }
}

/// A list entry of a container of pod `default/web`.
pub fn listed_container(id: &str, name: &str, state: ContainerState) -> Container {
    Container {
        id: id.into(),
        sandbox_id: "s".into(),
        pod_uid: PodUid::from("uid"),
        pod: PodName::new("default", "web"),
        name: name.into(),
        attempt: 0,
        state,
        created_at: Timestamp::UNIX_EPOCH,
        image_ref: "image".into(),
    }
}
