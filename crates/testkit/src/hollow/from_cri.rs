//! Translates requests of the CRI for the port.

use std::collections::BTreeMap;
use std::time::Duration;

use model::ids::{PodName, PodUid};
use model::labels;
use model::observed::{ContainerState, SandboxState};
use model::ports::runtime::{ContainerFilter, SandboxFilter};
use model::ports::streaming::{
    AttachRequest, CheckpointRequest, ExecRequest, PortForwardRequest, StdStreams,
};
use model::wanted::{ContainerConfig, ContainerSecurity, NamespaceMode, SandboxConfig};
use proto::runtime_v1 as cri;
use tonic::Status;

fn namespace_mode(mode: cri::NamespaceMode) -> NamespaceMode {
    match mode {
        cri::NamespaceMode::Pod => NamespaceMode::Pod,
        cri::NamespaceMode::Node => NamespaceMode::Node,
        // The runtime has no processes that could be seen from another container.
        cri::NamespaceMode::Container | cri::NamespaceMode::Target => NamespaceMode::Container,
    }
}

pub(super) fn exec(request: cri::ExecRequest) -> ExecRequest {
    let cri::ExecRequest { container_id, cmd: command, tty, stdin, stdout, stderr } = request;
    let streams = StdStreams { stdin, stdout, stderr, tty };
    ExecRequest { container: container_id.into(), command, streams }
}

pub(super) fn attach(request: cri::AttachRequest) -> AttachRequest {
    let cri::AttachRequest { container_id, tty, stdin, stdout, stderr } = request;
    let streams = StdStreams { stdin, stdout, stderr, tty };
    AttachRequest { container: container_id.into(), streams }
}

pub(super) fn port_forward(request: cri::PortForwardRequest) -> Result<PortForwardRequest, Status> {
    let ports: Result<Vec<u16>, _> = request.port.into_iter().map(u16::try_from).collect();
    let ports = ports.map_err(|error| Status::invalid_argument(format!("port: {error}")))?;
    Ok(PortForwardRequest { sandbox: request.pod_sandbox_id.into(), ports })
}

pub(super) fn checkpoint(request: cri::CheckpointContainerRequest) -> CheckpointRequest {
    CheckpointRequest {
        container: request.container_id.into(),
        location: request.location.into(),
        timeout: Some(grace(request.timeout)).filter(|time| !time.is_zero()),
    }
}

pub(super) fn sandbox_config(config: cri::PodSandboxConfig) -> Result<SandboxConfig, Status> {
    let metadata = config.metadata.ok_or_else(|| lacks("sandbox", "metadata"))?;
    let linux = config.linux.unwrap_or_default();
    let namespaces = linux.security_context.and_then(|context| context.namespace_options);
    let namespaces = namespaces.unwrap_or_default();
    Ok(SandboxConfig {
        hostname: config.hostname,
        log_directory: config.log_directory,
        labels: config.labels,
        annotations: config.annotations,
        network: namespace_mode(namespaces.network()),
        pid: namespace_mode(namespaces.pid()),
        ipc: namespace_mode(namespaces.ipc()),
        cgroup_parent: linux.cgroup_parent,
        ..SandboxConfig::new(
            metadata.uid.into(),
            PodName::new(metadata.namespace, metadata.name),
            metadata.attempt,
        )
    })
}

pub(super) fn container_config(config: cri::ContainerConfig) -> Result<ContainerConfig, Status> {
    let metadata = config.metadata.ok_or_else(|| lacks("container", "metadata"))?;
    let image = config.image.ok_or_else(|| lacks("container", "image"))?;
    let context = config.linux.and_then(|linux| linux.security_context).unwrap_or_default();
    let namespaces = context.namespace_options.unwrap_or_default();
    let envs = config.envs.into_iter();
    let envs = envs.map(|env| (env.key, String::from_utf8_lossy(&env.value).into_owned()));
    Ok(ContainerConfig {
        attempt: metadata.attempt,
        user_image: image.user_specified_image,
        command: config.command,
        args: config.args,
        working_dir: config.working_dir,
        envs: envs.collect(),
        labels: config.labels,
        annotations: config.annotations,
        log_path: config.log_path,
        stdin: config.stdin,
        stdin_once: config.stdin_once,
        tty: config.tty,
        pid: namespace_mode(namespaces.pid()),
        pid_target: (!namespaces.target_id.is_empty()).then(|| namespaces.target_id.into()),
        security: ContainerSecurity {
            run_as_user: context.run_as_user.map(|user| user.value),
            run_as_group: context.run_as_group.map(|group| group.value),
            supplemental_groups: context.supplemental_groups,
            ..ContainerSecurity::default()
        },
        ..ContainerConfig::new(&metadata.name, &image.image)
    })
}

fn lacks(what: &str, part: &str) -> Status {
    Status::invalid_argument(format!("the {what} has no {part}"))
}

/// A negative grace counts as zero.
pub(super) fn grace(seconds: i64) -> Duration {
    Duration::from_secs(u64::try_from(seconds).unwrap_or(0))
}

/// An id, unless it is empty.
fn id<T: From<String>>(id: String) -> Option<T> {
    (!id.is_empty()).then(|| id.into())
}

/// A filter: the part that the store supports, and the labels that must match in addition.
#[derive(Debug, Default)]
pub(super) struct Selection<F> {
    pub(super) filter: F,
    labels: BTreeMap<String, String>,
}

impl<F> Selection<F> {
    /// Whether labels match.
    pub(super) fn wants(&self, labels: &BTreeMap<String, String>) -> bool {
        self.labels.iter().all(|(key, value)| labels.get(key) == Some(value))
    }
}

impl<F: Default + PartialEq> Selection<F> {
    /// Whether the filter is restricted.
    pub(super) fn is_partial(&self) -> bool {
        self.filter != F::default() || !self.labels.is_empty()
    }
}

/// The pod UID in the labels. An empty value must be present, as any other.
fn pod_uid(labels: &mut BTreeMap<String, String>) -> Option<PodUid> {
    labels.get(labels::POD_UID).filter(|uid| !uid.is_empty())?;
    labels.remove(labels::POD_UID).map(Into::into)
}

/// Filter of sandboxes: id, state and labels.
pub(super) fn sandboxes(
    sandbox: String,
    state: Option<cri::PodSandboxState>,
    mut labels: BTreeMap<String, String>,
) -> Selection<SandboxFilter> {
    let state = state.map(|state| match state {
        cri::PodSandboxState::SandboxReady => SandboxState::Ready,
        cri::PodSandboxState::SandboxNotready => SandboxState::NotReady,
    });
    let pod_uid = pod_uid(&mut labels);
    Selection { filter: SandboxFilter { id: id(sandbox), state, pod_uid }, labels }
}

/// Filter of containers: id, sandbox, state and labels.
pub(super) fn containers(
    container: String,
    sandbox: String,
    state: Option<cri::ContainerState>,
    mut labels: BTreeMap<String, String>,
) -> Selection<ContainerFilter> {
    let state = state.map(|state| match state {
        cri::ContainerState::ContainerCreated => ContainerState::Created,
        cri::ContainerState::ContainerRunning => ContainerState::Running,
        cri::ContainerState::ContainerExited => ContainerState::Exited,
        cri::ContainerState::ContainerUnknown => ContainerState::Unknown,
    });
    let pod_uid = pod_uid(&mut labels);
    let filter = ContainerFilter { id: id(container), state, sandbox_id: id(sandbox), pod_uid };
    Selection { filter, labels }
}
