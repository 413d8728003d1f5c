//! Pods, observations and statuses for tests.

use std::collections::BTreeMap;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{
    Container, ContainerState, ContainerStateRunning, ContainerStateTerminated,
    ContainerStateWaiting, ContainerStatus, EphemeralContainer, Pod, PodCondition, PodSpec,
    PodStatus,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{OwnerReference, Time};
use model::admission::PendingResize;
use model::ids::PodName;
use model::labels;
use model::observed::{self, SandboxState, SandboxStatus};
use model::pod_failure::PodFailure;
use model::probe::PodProbes;

use crate::decide::{NodeFacts, Resizing, StatusInput, Waiting, pod_status};

pub(crate) const NOW: i64 = 1_000_000;

pub(crate) fn at(second: i64) -> Timestamp {
    Timestamp::from_second(second).unwrap()
}

pub(crate) fn time(second: i64) -> Time {
    Time(at(second))
}

pub(crate) fn container(name: &str) -> Container {
    Container { name: name.to_owned(), image: Some("image:1".to_owned()), ..Container::default() }
}

pub(crate) fn sidecar(name: &str) -> Container {
    Container { restart_policy: Some("Always".to_owned()), ..container(name) }
}

/// A pod with these regular containers.
pub(crate) fn pod(policy: &str, names: &[&str]) -> Pod {
    let spec = PodSpec {
        restart_policy: Some(policy.to_owned()),
        containers: names.iter().map(|name| container(name)).collect(),
        node_name: Some("node-1".to_owned()),
        ..PodSpec::default()
    };
    let mut pod = Pod { spec: Some(spec), ..Pod::default() };
    pod.metadata.name = Some("web".to_owned());
    pod.metadata.namespace = Some("default".to_owned());
    pod.metadata.uid = Some("uid".to_owned());
    pod
}

pub(crate) fn with_init(mut pod: Pod, init: Vec<Container>) -> Pod {
    pod.spec.as_mut().unwrap().init_containers = Some(init);
    pod
}

pub(crate) fn with_ephemeral(mut pod: Pod, names: &[&str]) -> Pod {
    let one = |name: &&str| EphemeralContainer {
        name: (*name).to_owned(),
        ..EphemeralContainer::default()
    };
    pod.spec.as_mut().unwrap().ephemeral_containers = Some(names.iter().map(one).collect());
    pod
}

pub(crate) fn deleted(mut pod: Pod) -> Pod {
    pod.metadata.deletion_timestamp = Some(time(NOW));
    pod
}

/// Gives a pod the owner of a mirror pod.
pub(crate) fn own_by_node(pod: &mut Pod) {
    pod.spec.get_or_insert_default().node_name = Some("node".to_owned());
    let (api_version, kind, name) = ("v1".to_owned(), "Node".to_owned(), "node".to_owned());
    let owner = OwnerReference { api_version, kind, name, ..OwnerReference::default() };
    pod.metadata.owner_references = Some(vec![owner]);
}

pub(crate) fn sandbox(state: SandboxState) -> SandboxStatus {
    SandboxStatus {
        id: "sandbox".into(),
        pod_uid: "uid".into(),
        pod: PodName::new("default", "web"),
        attempt: 0,
        state,
        created_at: at(10),
        ips: vec!["10.0.0.1".parse().unwrap()],
        host_network: false,
        given: None,
    }
}

/// An instance whose id ends with its restart count: `main-3` has 3.
pub(crate) fn instance(
    id: &str,
    state: observed::ContainerState,
    exit_code: i32,
) -> observed::ContainerStatus {
    let (name, count) = id.rsplit_once('-').unwrap();
    let exited = state == observed::ContainerState::Exited;
    let started =
        matches!(state, observed::ContainerState::Running | observed::ContainerState::Exited);
    observed::ContainerStatus {
        id: id.into(),
        sandbox_id: "s".into(),
        name: name.into(),
        state,
        created_at: at(20),
        started_at: started.then(|| at(21)),
        finished_at: exited.then(|| at(30)),
        exit_code,
        image: "image:1".into(),
        image_ref: "sha256:1".into(),
        reason: if !exited {
            ""
        } else if exit_code == 0 {
            "Completed"
        } else {
            "Error"
        }
        .into(),
        message: "".into(),
        log_path: "".into(),
        annotations: [(labels::CONTAINER_RESTART_COUNT.to_owned(), count.to_owned())].into(),
        mounts: Vec::new(),
        resources: None,
        user: None,
        stop_signal: None,
    }
}

pub(crate) fn running(started: i64) -> ContainerState {
    let running = ContainerStateRunning { started_at: Some(time(started)) };
    ContainerState { running: Some(running), ..ContainerState::default() }
}

pub(crate) fn waiting(reason: &str) -> ContainerState {
    let reason = (!reason.is_empty()).then(|| reason.to_owned());
    let waiting = ContainerStateWaiting { reason, message: None };
    ContainerState { waiting: Some(waiting), ..ContainerState::default() }
}

pub(crate) fn ended(exit_code: i32) -> ContainerState {
    let reason = if exit_code == 0 { "Completed" } else { "Error" };
    let end = ContainerStateTerminated {
        exit_code,
        reason: Some(reason.to_owned()),
        finished_at: Some(time(30)),
        ..ContainerStateTerminated::default()
    };
    ContainerState { terminated: Some(end), ..ContainerState::default() }
}

pub(crate) fn status(name: &str, state: ContainerState) -> ContainerStatus {
    ContainerStatus {
        name: name.to_owned(),
        ready: state.running.is_some(),
        started: Some(state.running.is_some()),
        state: Some(state),
        ..ContainerStatus::default()
    }
}

pub(crate) fn condition(type_: &str, says: &str) -> PodCondition {
    PodCondition {
        type_: type_.to_owned(),
        status: says.to_owned(),
        last_transition_time: Some(time(5)),
        ..PodCondition::default()
    }
}

pub(crate) fn find<'a>(status: &'a PodStatus, type_: &str) -> Option<&'a PodCondition> {
    status.conditions.iter().flatten().find(|one| one.type_ == type_)
}

/// Modifiable inputs of a status.
#[derive(Debug, Clone)]
#[expect(clippy::struct_excessive_bools, reason = "facts that have nothing to do with one another")]
pub(crate) struct Harness {
    pub(crate) pod: Pod,
    pub(crate) observed: observed::RuntimePodStatus,
    pub(crate) previous: Option<PodStatus>,
    pub(crate) start_failures: BTreeMap<String, Waiting>,
    pub(crate) has_new_sandbox: bool,
    pub(crate) failure: Option<PodFailure>,
    pub(crate) stopped_for_good: bool,
    pub(crate) pending: Option<PendingResize>,
    pub(crate) resizes: bool,
    /// The last error of a resize.
    pub(crate) resize_error: Option<&'static str>,
    pub(crate) cgroup: Option<model::cgroup::CgroupValues>,
    pub(crate) recursive_read_only: bool,
    pub(crate) probes: PodProbes,
    pub(crate) node: NodeFacts,
    pub(crate) now: Timestamp,
}

impl Harness {
    /// A pod with a ready sandbox.
    pub(crate) fn new(pod: Pod, instances: Vec<observed::ContainerStatus>) -> Self {
        let observed = observed::RuntimePodStatus {
            ips: vec!["10.0.0.1".parse().unwrap()],
            sandboxes: vec![sandbox(SandboxState::Ready)],
            containers: instances,
            ..observed::RuntimePodStatus::empty("uid".into())
        };
        let node = NodeFacts {
            runtime_name: "containerd".to_owned(),
            stop_signals: true,
            ..NodeFacts::default()
        };
        Self {
            pod,
            observed,
            previous: None,
            start_failures: BTreeMap::new(),
            has_new_sandbox: false,
            failure: None,
            stopped_for_good: false,
            pending: None,
            resizes: false,
            resize_error: None,
            cgroup: None,
            recursive_read_only: false,
            probes: PodProbes::default(),
            node,
            now: at(NOW),
        }
    }

    pub(crate) fn with_previous(mut self, previous: PodStatus) -> Self {
        self.previous = Some(previous);
        self
    }

    /// Sets the previous statuses of the regular containers.
    pub(crate) fn with_old(self, old: Vec<ContainerStatus>) -> Self {
        self.with_previous(PodStatus { container_statuses: Some(old), ..PodStatus::default() })
    }

    pub(crate) fn with_start_failure(mut self, name: &str, reason: &'static str) -> Self {
        let failure = Waiting { reason, message: format!("{name} did not start") };
        self.start_failures.insert(name.to_owned(), failure);
        self
    }

    pub(crate) fn input(&self) -> StatusInput<'_> {
        StatusInput {
            pod: &self.pod,
            observed: &self.observed,
            previous: self.previous.as_ref(),
            start_failures: &self.start_failures,
            has_new_sandbox: self.has_new_sandbox,
            failure: self.failure.as_ref(),
            stopped_for_good: self.stopped_for_good,
            resizing: Resizing {
                pending: self.pending.as_ref(),
                in_progress: self.resizes,
                error: self.resize_error,
                cgroup: self.cgroup.as_ref(),
                memory_requests: None,
            },
            recursive_read_only: self.recursive_read_only,
            probes: &self.probes,
            node: &self.node,
            now: self.now,
        }
    }

    pub(crate) fn status(&self) -> PodStatus {
        pod_status(&self.input())
    }

    /// The status of the first regular container.
    pub(crate) fn first(&self) -> ContainerStatus {
        self.status().container_statuses.unwrap().remove(0)
    }
}
