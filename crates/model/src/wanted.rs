//! What the agent asks of the runtime: sandboxes and containers to make.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::ids::{ContainerId, PodName, PodUid};

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

/// A sandbox to make.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SandboxConfig {
    /// The pod's uid.
    pub pod_uid: PodUid,
    /// The pod's namespace and name.
    pub pod: PodName,
    /// Counts the sandboxes of the pod from 0; part of the name the runtime reserves.
    pub attempt: u32,
    /// Host name inside the pod; empty on the host's network.
    pub hostname: String,
    /// Absolute path below which the containers' logs go.
    pub log_directory: String,
    /// Labels: the pod's and the agent's.
    pub labels: BTreeMap<String, String>,
    /// Annotations: the pod's and the agent's.
    pub annotations: BTreeMap<String, String>,
    /// Whose network.
    pub network: NamespaceMode,
    /// Whose process ids.
    pub pid: NamespaceMode,
    /// Whose inter-process communication.
    pub ipc: NamespaceMode,
    /// Parent of the pod's cgroups; empty leaves the choice to the runtime.
    pub cgroup_parent: String,
}

/// A file or directory of the host that a container sees.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mount {
    /// Where it is on the host.
    pub host_path: String,
    /// Where the container sees it.
    pub container_path: String,
    /// Whether the container may only read it.
    pub read_only: bool,
}

/// A container to make.
#[derive(Debug, Clone, PartialEq, Eq)]
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
    pub envs: Vec<(String, String)>,
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
    /// Paths that it must not see.
    pub masked_paths: Vec<String>,
    /// Paths that it must not write.
    pub readonly_paths: Vec<String>,
    /// Whose process ids.
    pub pid: NamespaceMode,
    /// The container whose processes it sees, whatever `pid` says.
    pub pid_target: Option<ContainerId>,
    /// Files and directories of the host that it sees.
    pub mounts: Vec<Mount>,
    /// The signal that asks it to end, by name; without one the image says.
    pub stop_signal: Option<String>,
}
