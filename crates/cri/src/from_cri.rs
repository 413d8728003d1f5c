//! Converts CRI responses to model types. An object without an id or name is `None`; one without a pod label
//! has an empty pod uid.

use std::net::IpAddr;
use std::sync::Arc;

use jiff::Timestamp;
use model::ids::{ObjectId, PodName};
use model::labels;
use model::observed::{
    ContainerState, ContainerStatus, ContainerUser, LinuxUser, ReportedResources, SandboxState,
    SandboxStatus,
};
use model::ports::runtime::{
    ContainerEvent, ContainerEventKind, Image, ImageFilesystem, ImageUser, RuntimeCondition,
    RuntimeFeatures, RuntimeHandler, RuntimeStatus, WritableLayer,
};
use model::wanted::{LinuxResources, Mount, MountPropagation};
use proto::runtime_v1 as cri;

use crate::signal;

/// An id, unless it is empty.
fn id<T: From<String>>(id: String) -> Option<T> {
    (!id.is_empty()).then(|| id.into())
}

pub(crate) fn timestamp(nanoseconds: i64) -> Timestamp {
    Timestamp::from_nanosecond(nanoseconds.into())
        .expect("64 bits of nanoseconds are within the range of a timestamp")
}

/// The CRI encodes an unset time as 0.
fn optional_timestamp(nanoseconds: i64) -> Option<Timestamp> {
    (nanoseconds != 0).then(|| timestamp(nanoseconds))
}

pub(crate) fn sandbox_state(state: cri::PodSandboxState) -> SandboxState {
    match state {
        cri::PodSandboxState::SandboxReady => SandboxState::Ready,
        cri::PodSandboxState::SandboxNotready => SandboxState::NotReady,
    }
}

pub(crate) fn container_state(state: cri::ContainerState) -> ContainerState {
    match state {
        cri::ContainerState::ContainerCreated => ContainerState::Created,
        cri::ContainerState::ContainerRunning => ContainerState::Running,
        cri::ContainerState::ContainerExited => ContainerState::Exited,
        cri::ContainerState::ContainerUnknown => ContainerState::Unknown,
    }
}

pub(crate) fn sandbox_status(status: cri::PodSandboxStatus) -> Option<SandboxStatus> {
    let state = sandbox_state(status.state());
    let metadata = status.metadata?;
    let network = status.network.unwrap_or_default();
    let ips = std::iter::once(network.ip)
        .chain(network.additional_ips.into_iter().map(|additional| additional.ip))
        .filter_map(|ip| ip.parse::<IpAddr>().ok())
        .collect();
    let host_network = status
        .linux
        .and_then(|linux| linux.namespaces)
        .and_then(|namespaces| namespaces.options)
        .is_some_and(|options| options.network() == cri::NamespaceMode::Node);
    let given = status.annotations.get(labels::POD_SIZES).map(|text| text.as_str().into());
    Some(SandboxStatus {
        id: id(status.id)?,
        pod_uid: metadata.uid.into(),
        pod: PodName::new(metadata.namespace, metadata.name),
        attempt: metadata.attempt,
        state,
        created_at: timestamp(status.created_at),
        ips,
        host_network,
        given,
    })
}

pub(crate) fn container_status(status: cri::ContainerStatus) -> Option<ContainerStatus> {
    let state = container_state(status.state());
    let metadata = status.metadata?;
    let image = status.image.unwrap_or_default();
    let image = match image.user_specified_image.as_str() {
        "" => image.image,
        _ => image.user_specified_image,
    };
    Some(ContainerStatus {
        id: id(status.id)?,
        sandbox_id: "".into(),
        name: metadata.name.into(),
        state,
        created_at: timestamp(status.created_at),
        started_at: optional_timestamp(status.started_at),
        finished_at: optional_timestamp(status.finished_at),
        exit_code: status.exit_code,
        image: image.into(),
        image_ref: status.image_ref.into(),
        reason: status.reason.into(),
        message: status.message.into(),
        log_path: status.log_path.into(),
        annotations: status.annotations,
        mounts: status.mounts.into_iter().map(mount).collect(),
        resources: status.resources.and_then(|resources| reported(&resources.linux?)),
        user: status.user.map(|user| Arc::new(container_user(user))),
        stop_signal: signal::name(status.stop_signal).map(Into::into),
    })
}

fn container_user(user: cri::ContainerUser) -> ContainerUser {
    let linux = user.linux.map(|linux| LinuxUser {
        uid: linux.uid,
        gid: linux.gid,
        supplemental_groups: linux.supplemental_groups,
    });
    ContainerUser { linux }
}

fn reported(linux: &cri::LinuxContainerResources) -> Option<ReportedResources> {
    ReportedResources::of(&LinuxResources {
        cpu_period: linux.cpu_period,
        cpu_quota: linux.cpu_quota,
        cpu_shares: linux.cpu_shares,
        memory_limit: linux.memory_limit_in_bytes,
        ..LinuxResources::default()
    })
}

fn mount(mount: cri::Mount) -> Mount {
    Mount {
        host_path: mount.host_path,
        container_path: mount.container_path,
        read_only: mount.readonly,
        image: mount.image.map(|image| image.image).unwrap_or_default(),
        relabel: mount.selinux_relabel,
        image_subpath: mount.image_sub_path,
        recursive_read_only: mount.recursive_read_only,
        propagation: match cri::MountPropagation::try_from(mount.propagation) {
            Ok(cri::MountPropagation::PropagationHostToContainer) => {
                MountPropagation::HostToContainer
            }
            Ok(cri::MountPropagation::PropagationBidirectional) => MountPropagation::Bidirectional,
            _ => MountPropagation::Private,
        },
    }
}

pub(crate) fn image(image: cri::Image) -> Option<Image> {
    (!image.id.is_empty()).then(|| listed_image(image))
}

/// An image of a list, which may have no id.
pub(crate) fn listed_image(image: cri::Image) -> Image {
    Image {
        id: image.id,
        repo_tags: image.repo_tags,
        repo_digests: image.repo_digests,
        size: image.size,
        pinned: image.pinned,
        user: match (image.uid, image.username) {
            (Some(uid), _) => Some(ImageUser::Uid(uid.value)),
            (None, name) if !name.is_empty() => Some(ImageUser::Name(name)),
            (None, _) => None,
        },
        runtime_handler: image.spec.map(|spec| spec.runtime_handler).unwrap_or_default(),
    }
}

/// A file system without a mount point cannot be measured.
pub(crate) fn image_filesystem(usage: cri::FilesystemUsage) -> Option<ImageFilesystem> {
    let mount_point: String = id(usage.fs_id?.mountpoint)?;
    Some(ImageFilesystem {
        mount_point: mount_point.into(),
        used_bytes: usage.used_bytes.map(|used| used.value).unwrap_or_default(),
        inodes_used: usage.inodes_used.map(|used| used.value),
        measured_at: timestamp(usage.timestamp),
    })
}

/// The writable layer of a container; none without a measurement.
pub(crate) fn writable_layer(stats: cri::ContainerStats) -> Option<WritableLayer> {
    let container = id(stats.attributes?.id)?;
    let layer = stats.writable_layer.filter(|layer| layer.used_bytes.is_some())?;
    Some(WritableLayer { container, usage: image_filesystem(layer)? })
}

/// An event with the sandbox's id concerns the sandbox. An event of an unknown kind is dropped. One without a
/// sandbox status has no pod, and may concern either; it still signals a change.
pub(crate) fn container_event(event: cri::ContainerEventResponse) -> Option<ContainerEvent> {
    let kind = match cri::ContainerEventType::try_from(event.container_event_type).ok()? {
        cri::ContainerEventType::ContainerCreatedEvent => ContainerEventKind::Created,
        cri::ContainerEventType::ContainerStartedEvent => ContainerEventKind::Started,
        cri::ContainerEventType::ContainerStoppedEvent => ContainerEventKind::Stopped,
        cri::ContainerEventType::ContainerDeletedEvent => ContainerEventKind::Deleted,
    };
    let sandbox = event.pod_sandbox_status.unwrap_or_default();
    let object = if event.container_id == sandbox.id {
        ObjectId::Sandbox(event.container_id.into())
    } else {
        ObjectId::Container(event.container_id.into())
    };
    let pod_uid = sandbox.metadata.unwrap_or_default().uid.into();
    Some(ContainerEvent { pod_uid, object, kind })
}

pub(crate) fn runtime_status(
    status: &cri::RuntimeStatus,
    handlers: Vec<RuntimeHandler>,
    features: cri::RuntimeFeatures,
) -> RuntimeStatus {
    let condition = |kind: &str| {
        let found = status.conditions.iter().find(|condition| condition.r#type == kind);
        found.map(|condition| RuntimeCondition {
            ready: condition.status,
            reason: condition.reason.clone(),
            message: condition.message.clone(),
        })
    };
    let (runtime, network) = (condition("RuntimeReady"), condition("NetworkReady"));
    let features = RuntimeFeatures {
        supplemental_groups_policy: features.supplemental_groups_policy,
        user_namespaces_host_network: features.user_namespaces_host_network,
    };
    RuntimeStatus { runtime, network, handlers, features }
}

pub(crate) fn runtime_handler(handler: cri::RuntimeHandler) -> RuntimeHandler {
    let features = handler.features.unwrap_or_default();
    RuntimeHandler {
        name: handler.name,
        user_namespaces: features.user_namespaces,
        recursive_read_only_mounts: features.recursive_read_only_mounts,
    }
}
