//! Security contexts of sandboxes and containers.

/// The user namespace of a pod.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum UserNamespace {
    /// The host's.
    #[default]
    Node,
    /// Its own: users and groups both by this mapping.
    Pod(IdMapping),
}

/// A mapping of IDs in the pod to IDs on the host.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct IdMapping {
    /// The first ID on the host.
    pub host_id: u32,
    /// The first ID in the pod.
    pub container_id: u32,
    /// The number of IDs.
    pub length: u32,
}

/// The source of the groups of a container's first process.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum GroupsPolicy {
    /// The pod spec and the image.
    #[default]
    Merge,
    /// Only the pod spec.
    Strict,
}

/// The `SELinux` label of a process.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[allow(missing_docs, reason = "SELinux defines these words")]
pub struct SelinuxOptions {
    pub user: String,
    pub role: String,
    pub kind: String,
    pub level: String,
}

/// A seccomp or `AppArmor` profile.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SecurityProfile {
    /// The runtime's own.
    RuntimeDefault,
    /// None.
    Unconfined,
    /// One of the node: for seccomp a path, for `AppArmor` a name.
    Localhost(String),
}

/// Capabilities beyond and below the runtime's own set, without the prefix `CAP_`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Capabilities {
    /// To add.
    pub add: Vec<String>,
    /// To drop.
    pub drop: Vec<String>,
}

/// The security context of a sandbox.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SandboxSecurity {
    /// Whether a container in it is privileged.
    pub privileged: bool,
    /// The UID.
    pub run_as_user: Option<i64>,
    /// The GID.
    pub run_as_group: Option<i64>,
    /// The supplementary groups.
    pub supplemental_groups: Vec<i64>,
    /// The policy for groups of the image.
    pub groups_policy: GroupsPolicy,
    /// The `SELinux` label.
    pub selinux: Option<SelinuxOptions>,
}

/// The security context of a container.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ContainerSecurity {
    /// Changes to the runtime's set of capabilities.
    pub capabilities: Option<Capabilities>,
    /// Whether it is privileged.
    pub privileged: bool,
    /// The `SELinux` label.
    pub selinux: Option<SelinuxOptions>,
    /// The UID.
    pub run_as_user: Option<i64>,
    /// The user, by a name in the image.
    pub run_as_username: String,
    /// The GID.
    pub run_as_group: Option<i64>,
    /// Whether its root file system is read-only.
    pub read_only_root: bool,
    /// The supplementary groups.
    pub supplemental_groups: Vec<i64>,
    /// The policy for groups of the image.
    pub groups_policy: GroupsPolicy,
    /// Whether privilege escalation is disabled (`no_new_privs`).
    pub no_new_privileges: bool,
    /// The masked paths.
    pub masked_paths: Vec<String>,
    /// The read-only paths.
    pub readonly_paths: Vec<String>,
    /// The seccomp profile.
    pub seccomp: Option<SecurityProfile>,
    /// The `AppArmor` profile.
    pub apparmor: Option<SecurityProfile>,
}
