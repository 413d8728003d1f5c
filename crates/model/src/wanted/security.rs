//! What sandboxes and containers may do.

/// Whose user ids a pod has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum UserNamespace {
    /// The host's.
    #[default]
    Node,
    /// Its own: users and groups both by this mapping.
    Pod(IdMapping),
}

/// Ids inside that are other ids on the host.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct IdMapping {
    /// The first one on the host.
    pub host_id: u32,
    /// The first one inside.
    pub container_id: u32,
    /// How many.
    pub length: u32,
}

/// Where the groups of a container's first process come from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum GroupsPolicy {
    /// The pod's specification and the image.
    #[default]
    Merge,
    /// The pod's specification alone.
    Strict,
}

/// What `SELinux` knows a process as.
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
    /// More.
    pub add: Vec<String>,
    /// Fewer.
    pub drop: Vec<String>,
}

/// What a sandbox itself may do.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SandboxSecurity {
    /// Whether a container in it may do all.
    pub privileged: bool,
    /// The user it runs as.
    pub run_as_user: Option<i64>,
    /// The group it runs as.
    pub run_as_group: Option<i64>,
    /// More groups.
    pub supplemental_groups: Vec<i64>,
    /// Whether the image adds groups.
    pub groups_policy: GroupsPolicy,
    /// What `SELinux` knows it as.
    pub selinux: Option<SelinuxOptions>,
}

/// What a container may do.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ContainerSecurity {
    /// Changes to the runtime's set of capabilities.
    pub capabilities: Option<Capabilities>,
    /// Whether it may do all.
    pub privileged: bool,
    /// What `SELinux` knows it as.
    pub selinux: Option<SelinuxOptions>,
    /// The user it runs as.
    pub run_as_user: Option<i64>,
    /// The user it runs as, by a name that the image knows.
    pub run_as_username: String,
    /// The group it runs as.
    pub run_as_group: Option<i64>,
    /// Whether its root file system is read-only.
    pub read_only_root: bool,
    /// More groups.
    pub supplemental_groups: Vec<i64>,
    /// Whether the image adds groups.
    pub groups_policy: GroupsPolicy,
    /// Whether no program may gain what its caller has not.
    pub no_new_privileges: bool,
    /// Paths that it must not see.
    pub masked_paths: Vec<String>,
    /// Paths that it must not write.
    pub readonly_paths: Vec<String>,
    /// Which system calls it may make.
    pub seccomp: Option<SecurityProfile>,
    /// What `AppArmor` lets it do.
    pub apparmor: Option<SecurityProfile>,
}
