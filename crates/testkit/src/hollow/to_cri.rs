//! Translates objects of the runtime for the CRI.

use jiff::Timestamp;
use model::observed::{ContainerState, ContainerStatus, ContainerUser, Sandbox, SandboxState};
use model::ports::runtime::{
    Code, Image, ImageUser, RuntimeCondition, RuntimeError, RuntimeHandler,
};
use model::wanted::{NamespaceMode, SandboxConfig};
use proto::runtime_v1 as cri;
use tonic::Status;

use super::kept::KeptContainer;
use crate::runtime::look::{ContainerRecord, SandboxRecord};

/// Nanoseconds since the epoch.
pub(super) fn nanoseconds(at: Timestamp) -> i64 {
    i64::try_from(at.as_nanosecond()).unwrap_or(i64::MAX)
}

fn namespace_mode(mode: NamespaceMode) -> i32 {
    let mode = match mode {
        NamespaceMode::Pod => cri::NamespaceMode::Pod,
        NamespaceMode::Container => cri::NamespaceMode::Container,
        NamespaceMode::Node => cri::NamespaceMode::Node,
    };
    mode.into()
}

fn sandbox_state(state: SandboxState) -> i32 {
    let state = match state {
        SandboxState::Ready => cri::PodSandboxState::SandboxReady,
        SandboxState::NotReady => cri::PodSandboxState::SandboxNotready,
    };
    state.into()
}

fn container_state(state: ContainerState) -> i32 {
    let state = match state {
        ContainerState::Created => cri::ContainerState::ContainerCreated,
        ContainerState::Running => cri::ContainerState::ContainerRunning,
        ContainerState::Exited => cri::ContainerState::ContainerExited,
        ContainerState::Unknown => cri::ContainerState::ContainerUnknown,
    };
    state.into()
}

pub(super) fn sandbox_metadata(config: &SandboxConfig) -> cri::PodSandboxMetadata {
    cri::PodSandboxMetadata {
        name: config.pod.name.to_string(),
        uid: config.pod_uid.to_string(),
        namespace: config.pod.namespace.to_string(),
        attempt: config.attempt,
    }
}

pub(super) fn container_metadata(record: &ContainerRecord) -> cri::ContainerMetadata {
    cri::ContainerMetadata { name: record.config.name.to_string(), attempt: record.config.attempt }
}

pub(super) fn sandbox(record: &SandboxRecord, runtime_handler: String) -> cri::PodSandbox {
    cri::PodSandbox {
        id: record.id.to_string(),
        metadata: Some(sandbox_metadata(&record.config)),
        state: sandbox_state(record.state),
        created_at: nanoseconds(record.created_at),
        labels: record.config.labels.clone(),
        annotations: record.config.annotations.clone(),
        runtime_handler,
    }
}

pub(super) fn sandbox_status(
    record: &SandboxRecord,
    runtime_handler: String,
) -> cri::PodSandboxStatus {
    let mut ips = record.ips.iter().map(ToString::to_string);
    let network = cri::PodSandboxNetworkStatus {
        ip: ips.next().unwrap_or_default(),
        additional_ips: ips.map(|ip| cri::PodIp { ip }).collect(),
    };
    let options = cri::NamespaceOption {
        network: namespace_mode(record.config.network),
        pid: namespace_mode(record.config.pid),
        ipc: namespace_mode(record.config.ipc),
        ..cri::NamespaceOption::default()
    };
    let namespaces = cri::Namespace { options: Some(options) };
    cri::PodSandboxStatus {
        id: record.id.to_string(),
        metadata: Some(sandbox_metadata(&record.config)),
        state: sandbox_state(record.state),
        created_at: nanoseconds(record.created_at),
        network: Some(network),
        linux: Some(cri::LinuxPodSandboxStatus { namespaces: Some(namespaces) }),
        labels: record.config.labels.clone(),
        annotations: record.config.annotations.clone(),
        runtime_handler,
    }
}

/// The status of a removed sandbox, with the values that are still known.
pub(super) fn gone_sandbox_status(sandbox: &Sandbox) -> cri::PodSandboxStatus {
    cri::PodSandboxStatus {
        id: sandbox.id.to_string(),
        metadata: Some(cri::PodSandboxMetadata {
            name: sandbox.pod.name.to_string(),
            uid: sandbox.pod_uid.to_string(),
            namespace: sandbox.pod.namespace.to_string(),
            attempt: sandbox.attempt,
        }),
        state: sandbox_state(sandbox.state),
        created_at: nanoseconds(sandbox.created_at),
        ..cri::PodSandboxStatus::default()
    }
}

pub(super) fn container(record: &ContainerRecord) -> cri::Container {
    cri::Container {
        id: record.id.to_string(),
        pod_sandbox_id: record.sandbox_id.to_string(),
        metadata: Some(container_metadata(record)),
        image: Some(cri::ImageSpec {
            image: record.config.image_ref.clone(),
            user_specified_image: record.config.user_image.clone(),
            ..cri::ImageSpec::default()
        }),
        image_ref: record.image_id.clone(),
        state: container_state(record.state()),
        created_at: nanoseconds(record.created_at),
        labels: record.config.labels.clone(),
        annotations: record.config.annotations.clone(),
        image_id: record.image_id.clone(),
    }
}

pub(super) fn container_status(
    record: &ContainerRecord,
    status: ContainerStatus,
    kept: Option<&KeptContainer>,
) -> cri::ContainerStatus {
    let resources = kept.and_then(|kept| kept.resources.clone());
    cri::ContainerStatus {
        id: status.id.to_string(),
        metadata: Some(container_metadata(record)),
        state: container_state(status.state),
        created_at: nanoseconds(status.created_at),
        started_at: status.started_at.map_or(0, nanoseconds),
        finished_at: status.finished_at.map_or(0, nanoseconds),
        exit_code: status.exit_code,
        image: Some(cri::ImageSpec {
            image: status.image.to_string(),
            ..cri::ImageSpec::default()
        }),
        image_ref: status.image_ref.to_string(),
        reason: status.reason.to_string(),
        message: status.message.to_string(),
        labels: record.config.labels.clone(),
        annotations: status.annotations,
        mounts: kept.map(|kept| kept.mounts.clone()).unwrap_or_default(),
        log_path: status.log_path.to_string(),
        resources: resources.map(|linux| cri::ContainerResources { linux: Some(linux) }),
        image_id: record.image_id.clone(),
        user: status.user.map(|user| container_user(&user)),
        stop_signal: kept.map_or(0, |kept| kept.stop_signal),
    }
}

fn container_user(user: &ContainerUser) -> cri::ContainerUser {
    let linux = user.linux.as_ref().map(|linux| cri::LinuxContainerUser {
        uid: linux.uid,
        gid: linux.gid,
        supplemental_groups: linux.supplemental_groups.clone(),
    });
    cri::ContainerUser { linux }
}

pub(super) fn image(image: Image) -> cri::Image {
    let (uid, username) = match image.user {
        Some(ImageUser::Uid(uid)) => (Some(uid), String::new()),
        Some(ImageUser::Name(name)) => (None, name),
        // An image without a user runs as root.
        None => (Some(0), String::new()),
    };
    cri::Image {
        id: image.id,
        repo_tags: image.repo_tags,
        repo_digests: image.repo_digests,
        size: image.size,
        uid: uid.map(|value| cri::Int64Value { value }),
        username,
        pinned: image.pinned,
        ..cri::Image::default()
    }
}

pub(super) fn condition(kind: &str, condition: RuntimeCondition) -> cri::RuntimeCondition {
    cri::RuntimeCondition {
        r#type: kind.to_owned(),
        status: condition.ready,
        reason: condition.reason,
        message: condition.message,
    }
}

pub(super) fn runtime_handler(handler: RuntimeHandler) -> cri::RuntimeHandler {
    let features = cri::RuntimeHandlerFeatures {
        recursive_read_only_mounts: handler.recursive_read_only_mounts,
        user_namespaces: handler.user_namespaces,
    };
    cri::RuntimeHandler { name: handler.name, features: Some(features) }
}

pub(super) fn code(code: Code) -> tonic::Code {
    match code {
        Code::Cancelled => tonic::Code::Cancelled,
        Code::Unknown => tonic::Code::Unknown,
        Code::InvalidArgument => tonic::Code::InvalidArgument,
        Code::DeadlineExceeded => tonic::Code::DeadlineExceeded,
        Code::NotFound => tonic::Code::NotFound,
        Code::AlreadyExists => tonic::Code::AlreadyExists,
        Code::PermissionDenied => tonic::Code::PermissionDenied,
        Code::ResourceExhausted => tonic::Code::ResourceExhausted,
        Code::FailedPrecondition => tonic::Code::FailedPrecondition,
        Code::Aborted => tonic::Code::Aborted,
        Code::OutOfRange => tonic::Code::OutOfRange,
        Code::Unimplemented => tonic::Code::Unimplemented,
        Code::Internal => tonic::Code::Internal,
        Code::Unavailable => tonic::Code::Unavailable,
        Code::DataLoss => tonic::Code::DataLoss,
        Code::Unauthenticated => tonic::Code::Unauthenticated,
    }
}

pub(super) fn status(error: RuntimeError) -> Status {
    Status::new(code(error.code), error.message)
}
