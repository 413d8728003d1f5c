//! Converts model types to CRI requests.

use std::collections::BTreeMap;
use std::time::Duration;

use model::ids::PodUid;
use model::image_access::RegistryAuth;
use model::labels;
use model::observed::{ContainerState, SandboxState};
use model::ports::runtime::{ContainerFilter, SandboxFilter};
use model::wanted::{
    ContainerConfig, Device, Mount, MountPropagation, PortMapping, Protocol, SandboxConfig,
};
use proto::runtime_v1 as cri;

use crate::signal;

mod resources;
mod security;

pub(crate) use resources::resources;

fn port_mapping(mapping: &PortMapping) -> cri::PortMapping {
    let protocol = match mapping.protocol {
        Protocol::Tcp => cri::Protocol::Tcp,
        Protocol::Udp => cri::Protocol::Udp,
        Protocol::Sctp => cri::Protocol::Sctp,
    };
    cri::PortMapping {
        protocol: protocol.into(),
        container_port: mapping.container_port,
        host_port: mapping.host_port,
        host_ip: mapping.host_ip.clone(),
    }
}

/// The credentials of a pull.
pub(crate) fn auth(auth: &RegistryAuth) -> cri::AuthConfig {
    cri::AuthConfig {
        username: auth.username.clone(),
        password: auth.password.clone(),
        auth: auth.auth.clone(),
        server_address: auth.server_address.clone(),
        identity_token: auth.identity_token.clone(),
        registry_token: auth.registry_token.clone(),
    }
}

pub(crate) fn sandbox_config(config: &SandboxConfig) -> cri::PodSandboxConfig {
    cri::PodSandboxConfig {
        metadata: Some(cri::PodSandboxMetadata {
            name: config.pod.name.to_string(),
            uid: config.pod_uid.to_string(),
            namespace: config.pod.namespace.to_string(),
            attempt: config.attempt,
        }),
        hostname: config.hostname.clone(),
        log_directory: config.log_directory.clone(),
        labels: config.labels.clone(),
        annotations: config.annotations.clone(),
        dns_config: Some(cri::DnsConfig {
            servers: config.dns.servers.clone(),
            searches: config.dns.searches.clone(),
            options: config.dns.options.clone(),
        }),
        port_mappings: config.port_mappings.iter().map(port_mapping).collect(),
        linux: Some(cri::LinuxPodSandboxConfig {
            cgroup_parent: config.cgroup_parent.clone(),
            security_context: Some(security::sandbox(config)),
            sysctls: config.sysctls.clone(),
            overhead: Some(resources(&config.overhead)),
            resources: Some(resources(&config.resources)),
        }),
    }
}

/// With user namespaces, mounts are id-mapped.
fn mount(mount: &Mount, sandbox: &SandboxConfig) -> cri::Mount {
    let ids = security::id_mappings(sandbox.users);
    cri::Mount {
        container_path: mount.container_path.clone(),
        host_path: mount.host_path.clone(),
        readonly: mount.read_only,
        selinux_relabel: mount.relabel,
        image: (!mount.image.is_empty())
            .then(|| cri::ImageSpec { image: mount.image.clone(), ..cri::ImageSpec::default() }),
        image_sub_path: mount.image_subpath.clone(),
        recursive_read_only: mount.recursive_read_only,
        propagation: match mount.propagation {
            MountPropagation::Private => cri::MountPropagation::PropagationPrivate,
            MountPropagation::HostToContainer => cri::MountPropagation::PropagationHostToContainer,
            MountPropagation::Bidirectional => cri::MountPropagation::PropagationBidirectional,
        }
        .into(),
        uid_mappings: ids.clone(),
        gid_mappings: ids,
    }
}

fn device(device: &Device) -> cri::Device {
    cri::Device {
        container_path: device.container_path.clone(),
        host_path: device.host_path.clone(),
        permissions: device.permissions.clone(),
    }
}

pub(crate) fn container_config(
    config: &ContainerConfig,
    sandbox: &SandboxConfig,
) -> cri::ContainerConfig {
    let envs = config
        .envs
        .iter()
        .map(|(key, value)| cri::KeyValue { key: key.clone(), value: value.clone().into_bytes() });
    cri::ContainerConfig {
        metadata: Some(cri::ContainerMetadata {
            name: config.name.to_string(),
            attempt: config.attempt,
        }),
        image: Some(cri::ImageSpec {
            image: config.image_ref.clone(),
            user_specified_image: config.user_image.clone(),
            ..cri::ImageSpec::default()
        }),
        command: config.command.clone(),
        args: config.args.clone(),
        working_dir: config.working_dir.clone(),
        envs: envs.collect(),
        mounts: config.mounts.iter().map(|each| mount(each, sandbox)).collect(),
        devices: config.devices.iter().map(device).collect(),
        labels: config.labels.clone(),
        annotations: config.annotations.clone(),
        log_path: config.log_path.clone(),
        stop_signal: config.stop_signal.as_deref().map_or(0, signal::number),
        stdin: config.stdin,
        stdin_once: config.stdin_once,
        tty: config.tty,
        linux: Some(cri::LinuxContainerConfig {
            resources: Some(resources(&config.resources)),
            security_context: Some(security::container(config, sandbox)),
        }),
        ..cri::ContainerConfig::default()
    }
}

/// Whole seconds, rounded up: 0 means an immediate kill.
pub(crate) fn grace(grace: Duration) -> i64 {
    let begun = u64::from(grace.subsec_nanos() > 0);
    i64::try_from(grace.as_secs().saturating_add(begun)).unwrap_or(i64::MAX)
}

/// A runtime cannot filter by a missing label: objects without a pod are filtered from the full list.
fn of_pod(uid: Option<&PodUid>) -> BTreeMap<String, String> {
    uid.filter(|uid| !uid.is_empty())
        .map(|uid| (labels::POD_UID.to_owned(), uid.to_string()))
        .into_iter()
        .collect()
}

pub(crate) fn sandbox_filter(filter: &SandboxFilter) -> cri::PodSandboxFilter {
    let state = filter.state.map(|state| match state {
        SandboxState::Ready => cri::PodSandboxState::SandboxReady,
        SandboxState::NotReady => cri::PodSandboxState::SandboxNotready,
    });
    cri::PodSandboxFilter {
        id: filter.id.as_ref().map(ToString::to_string).unwrap_or_default(),
        state: state.map(|state| cri::PodSandboxStateValue { state: state.into() }),
        label_selector: of_pod(filter.pod_uid.as_ref()),
    }
}

pub(crate) fn container_filter(filter: &ContainerFilter) -> cri::ContainerFilter {
    let state = filter.state.map(|state| match state {
        ContainerState::Created => cri::ContainerState::ContainerCreated,
        ContainerState::Running => cri::ContainerState::ContainerRunning,
        ContainerState::Exited => cri::ContainerState::ContainerExited,
        ContainerState::Unknown => cri::ContainerState::ContainerUnknown,
    });
    cri::ContainerFilter {
        id: filter.id.as_ref().map(ToString::to_string).unwrap_or_default(),
        state: state.map(|state| cri::ContainerStateValue { state: state.into() }),
        pod_sandbox_id: filter.sandbox_id.as_ref().map(ToString::to_string).unwrap_or_default(),
        label_selector: of_pod(filter.pod_uid.as_ref()),
    }
}
