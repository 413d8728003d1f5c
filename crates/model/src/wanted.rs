//! What the agent asks of the runtime: sandboxes and containers to make.

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

/// Whose namespace of a kind a sandbox or container uses.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum NamespaceMode {
    /// One for the pod.
    #[default]
    Pod,
    /// One for each container.
    Container,
    /// The host's.
    Node,
}

/// Where the processes of a pod look names up: the content of their `resolv.conf`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct DnsConfig {
    /// Addresses of name servers.
    pub servers: Vec<String>,
    /// Domains that short names are looked for in.
    pub searches: Vec<String>,
    /// Options of the resolver: `ndots:5`.
    pub options: Vec<String>,
}

/// What a port speaks.
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

/// A port of a pod, and the port of the host that leads to it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PortMapping {
    /// What it speaks.
    pub protocol: Protocol,
    /// The port inside.
    pub container_port: i32,
    /// The port of the host; 0 maps nothing.
    pub host_port: i32,
    /// The host's address it is on; empty means all.
    pub host_ip: String,
}

/// A file or directory of the host that a container sees.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Mount {
    /// Where the container sees it.
    pub container_path: String,
    /// Where it is on the host.
    pub host_path: String,
    /// Whether the container must not write it.
    pub read_only: bool,
    /// The image that is mounted instead of a path of the host, as the runtime refers to it; empty
    /// for none.
    pub image: String,
    /// The part of the image that is mounted; empty for all of it.
    pub image_subpath: String,
    /// Whether it is given the label of the container, which may use nothing else where `SELinux` is on.
    pub relabel: bool,
    /// Whether mounts below it are read-only too.
    pub recursive_read_only: bool,
    /// Whether mounts made below it later reach the container, or the host.
    pub propagation: MountPropagation,
}

/// How mounts below a mount reach the other side.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum MountPropagation {
    /// Not at all.
    #[default]
    Private,
    /// The container sees mounts of the host.
    HostToContainer,
    /// Each side sees mounts of the other.
    Bidirectional,
}

/// A device of the host that a container uses.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Device {
    /// Where the container sees it.
    pub container_path: String,
    /// Where it is on the host.
    pub host_path: String,
    /// `r` to read, `w` to write, `m` to make it.
    pub permissions: String,
}

/// A sandbox to make.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SandboxConfig {
    /// The pod's uid.
    pub pod_uid: PodUid,
    /// The pod's namespace and name.
    pub pod: PodName,
    /// Counts the sandboxes of the pod from 0; part of the name the runtime reserves.
    pub attempt: u32,
    /// The runtime's handler, from the pod's runtime class; empty means the default one.
    pub runtime_handler: String,
    /// Host name inside the pod; empty on the host's network.
    pub hostname: String,
    /// Absolute path below which the containers' logs go.
    pub log_directory: String,
    /// Labels: the pod's and the agent's.
    pub labels: BTreeMap<String, String>,
    /// Annotations: the pod's and the agent's.
    pub annotations: BTreeMap<String, String>,
    /// Where names are looked up.
    pub dns: DnsConfig,
    /// Ports of its containers.
    pub port_mappings: Vec<PortMapping>,
    /// Whose network.
    pub network: NamespaceMode,
    /// Whose process ids.
    pub pid: NamespaceMode,
    /// Whose inter-process communication.
    pub ipc: NamespaceMode,
    /// Whose user ids.
    pub users: UserNamespace,
    /// What the sandbox itself may do.
    pub security: SandboxSecurity,
    /// Kernel parameters of the pod's namespaces.
    pub sysctls: BTreeMap<String, String>,
    /// What its containers need together.
    pub resources: LinuxResources,
    /// What the sandbox itself costs.
    pub overhead: LinuxResources,
    /// Parent of the pod's cgroups; empty leaves the choice to the runtime.
    pub cgroup_parent: String,
}

impl SandboxConfig {
    /// A sandbox that asks for nothing in particular.
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

/// A container to make. What may have values of secrets in it is not printed: its environment, and its command and
/// arguments, which may refer to that.
#[derive(Clone, PartialEq, Eq)]
pub struct ContainerConfig {
    /// Its name in the pod's specification.
    pub name: Arc<str>,
    /// Counts its restarts; part of the name the runtime reserves.
    pub attempt: u32,
    /// Image to run, as the runtime resolved it.
    pub image_ref: String,
    /// Image as the pod's specification names it.
    pub user_image: String,
    /// Entry point; empty means the image's.
    pub command: Vec<String>,
    /// Arguments; empty with an empty command means the image's.
    pub args: Vec<String>,
    /// Working directory; empty means the image's.
    pub working_dir: String,
    /// Environment, in order.
    pub envs: Environment,
    /// What it sees of the host's files.
    pub mounts: Vec<Mount>,
    /// Block devices of its volumes.
    pub devices: Vec<Device>,
    /// Labels.
    pub labels: BTreeMap<String, String>,
    /// Annotations: what must be known of it after a restart of the agent.
    pub annotations: BTreeMap<String, String>,
    /// Log file, relative to the sandbox's log directory.
    pub log_path: String,
    /// Whether standard input is kept open.
    pub stdin: bool,
    /// Whether standard input closes after the first attach.
    pub stdin_once: bool,
    /// Whether it gets a terminal.
    pub tty: bool,
    /// What it may do.
    pub security: ContainerSecurity,
    /// How much it may use.
    pub resources: LinuxResources,
    /// Whose process ids.
    pub pid: NamespaceMode,
    /// The container whose processes it sees in place of its own.
    pub pid_target: Option<ContainerId>,
    /// The signal that asks it to end, by name; without one the image says.
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
    /// The first instance of a container that asks for nothing in particular.
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
