//! Configurations for the runtime: sandboxes and containers to create.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use crate::environment::{Environment, Redacted};
use crate::ids::{ContainerId, PodName, PodUid};

mod resources;
mod security;

pub use resources::{HugePageLimit, LinuxResources};
pub use security::{
    Capabilities, ContainerSecurity, GroupsPolicy, IdMapping, SandboxSecurity, SecurityProfile,
    SelinuxOptions, UserNamespace,
};

/// The mode of a Linux namespace of a sandbox or container.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum NamespaceMode {
    /// One per pod.
    #[default]
    Pod,
    /// One per container.
    Container,
    /// The host's.
    Node,
}

/// The DNS configuration of a pod: the content of its `resolv.conf`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct DnsConfig {
    /// The name servers.
    pub servers: Vec<String>,
    /// The search domains.
    pub searches: Vec<String>,
    /// Options of the resolver: `ndots:5`.
    pub options: Vec<String>,
}

/// The protocol of a port.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Protocol {
    /// TCP.
    #[default]
    Tcp,
    /// UDP.
    Udp,
    /// SCTP.
    Sctp,
}

/// A mapping of a port of the pod to a port of the host.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PortMapping {
    /// The protocol.
    pub protocol: Protocol,
    /// The port in the pod.
    pub container_port: i32,
    /// The port of the host; 0 maps nothing.
    pub host_port: i32,
    /// The address of the host; empty means all.
    pub host_ip: String,
}

/// A mount of a container.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Mount {
    /// The path in the container.
    pub container_path: String,
    /// The path on the host.
    pub host_path: String,
    /// Whether it is read-only.
    pub read_only: bool,
    /// The reference of the image that is mounted instead of a path of the host; empty
    /// for none.
    pub image: String,
    /// The part of the image that is mounted; empty for all of it.
    pub image_subpath: String,
    /// Whether to set the `SELinux` label of the container, which can access nothing else with `SELinux`.
    pub relabel: bool,
    /// Whether mounts below it are read-only too.
    pub recursive_read_only: bool,
    /// The mount propagation.
    pub propagation: MountPropagation,
}

/// Mount propagation between host and container.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum MountPropagation {
    /// None.
    #[default]
    Private,
    /// From the host to the container.
    HostToContainer,
    /// In both directions.
    Bidirectional,
}

/// A device of a container.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Device {
    /// The path in the container.
    pub container_path: String,
    /// The path on the host.
    pub host_path: String,
    /// `r` to read, `w` to write, `m` to create it.
    pub permissions: String,
}

/// A sandbox to create.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SandboxConfig {
    /// The pod's UID.
    pub pod_uid: PodUid,
    /// The pod's namespace and name.
    pub pod: PodName,
    /// The attempt number, from 0; part of the name that the runtime reserves.
    pub attempt: u32,
    /// The runtime's handler, from the pod's runtime class; empty means the default one.
    pub runtime_handler: String,
    /// The hostname of the pod; empty on the host network.
    pub hostname: String,
    /// The absolute path of the directory of container logs.
    pub log_directory: String,
    /// Labels: the pod's and the agent's.
    pub labels: BTreeMap<String, String>,
    /// Annotations: the pod's and the agent's.
    pub annotations: BTreeMap<String, String>,
    /// The DNS configuration.
    pub dns: DnsConfig,
    /// The port mappings.
    pub port_mappings: Vec<PortMapping>,
    /// The network namespace.
    pub network: NamespaceMode,
    /// The PID namespace.
    pub pid: NamespaceMode,
    /// The IPC namespace.
    pub ipc: NamespaceMode,
    /// The user namespace.
    pub users: UserNamespace,
    /// The security context of the sandbox.
    pub security: SandboxSecurity,
    /// Kernel parameters of the pod's namespaces.
    pub sysctls: BTreeMap<String, String>,
    /// The sum of its containers' resources.
    pub resources: LinuxResources,
    /// The overhead.
    pub overhead: LinuxResources,
    /// The parent cgroup; empty leaves the choice to the runtime.
    pub cgroup_parent: String,
}

impl SandboxConfig {
    /// A sandbox with defaults.
    pub fn new(pod_uid: PodUid, pod: PodName, attempt: u32) -> Self {
        Self {
            pod_uid,
            pod,
            attempt,
            runtime_handler: String::new(),
            hostname: String::new(),
            log_directory: String::new(),
            labels: BTreeMap::new(),
            annotations: BTreeMap::new(),
            dns: DnsConfig::default(),
            port_mappings: Vec::new(),
            network: NamespaceMode::Pod,
            pid: NamespaceMode::Container,
            ipc: NamespaceMode::Pod,
            users: UserNamespace::Node,
            security: SandboxSecurity::default(),
            sysctls: BTreeMap::new(),
            resources: LinuxResources::default(),
            overhead: LinuxResources::default(),
            cgroup_parent: String::new(),
        }
    }
}

/// A container to create. Its environment, command and args may contain secrets and are not printed.
#[derive(Clone, PartialEq, Eq)]
pub struct ContainerConfig {
    /// Its name in the pod spec.
    pub name: Arc<str>,
    /// The restart count; part of the name that the runtime reserves.
    pub attempt: u32,
    /// The image, as the runtime resolved it.
    pub image_ref: String,
    /// The image as in the pod spec.
    pub user_image: String,
    /// Entry point; empty means the image's.
    pub command: Vec<String>,
    /// Arguments; empty with an empty command means the image's.
    pub args: Vec<String>,
    /// Working directory; empty means the image's.
    pub working_dir: String,
    /// Environment, in order.
    pub envs: Environment,
    /// The mounts.
    pub mounts: Vec<Mount>,
    /// Block devices of its volumes.
    pub devices: Vec<Device>,
    /// Labels.
    pub labels: BTreeMap<String, String>,
    /// Annotations: the data that the agent needs after a restart.
    pub annotations: BTreeMap<String, String>,
    /// Log file, relative to the sandbox's log directory.
    pub log_path: String,
    /// Whether standard input is kept open.
    pub stdin: bool,
    /// Whether standard input closes after the first attach.
    pub stdin_once: bool,
    /// Whether it gets a terminal.
    pub tty: bool,
    /// The security context.
    pub security: ContainerSecurity,
    /// The resources.
    pub resources: LinuxResources,
    /// The PID namespace.
    pub pid: NamespaceMode,
    /// The container whose PID namespace it shares.
    pub pid_target: Option<ContainerId>,
    /// The name of the stop signal; by default the stop signal of the image.
    pub stop_signal: Option<String>,
}

impl fmt::Debug for ContainerConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ContainerConfig")
            .field("name", &self.name)
            .field("attempt", &self.attempt)
            .field("image_ref", &self.image_ref)
            .field("user_image", &self.user_image)
            .field("command", &Redacted)
            .field("args", &Redacted)
            .field("envs", &self.envs)
            .field("mounts", &self.mounts)
            .field("labels", &self.labels)
            .field("annotations", &self.annotations)
            .field("log_path", &self.log_path)
            .field("security", &self.security)
            .field("resources", &self.resources)
            .finish_non_exhaustive()
    }
}

impl ContainerConfig {
    /// The first instance of a container with defaults.
    pub fn new(name: &str, image: &str) -> Self {
        Self {
            name: name.into(),
            attempt: 0,
            image_ref: image.to_owned(),
            user_image: image.to_owned(),
            command: Vec::new(),
            args: Vec::new(),
            working_dir: String::new(),
            envs: Environment::default(),
            mounts: Vec::new(),
            devices: Vec::new(),
            labels: BTreeMap::new(),
            annotations: BTreeMap::new(),
            log_path: String::new(),
            stdin: false,
            stdin_once: false,
            tty: false,
            security: ContainerSecurity::default(),
            resources: LinuxResources::default(),
            pid: NamespaceMode::Container,
            pid_target: None,
            stop_signal: None,
        }
    }
}
