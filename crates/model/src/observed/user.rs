//! The user of a container, as the runtime reports it.

/// The user of the first process of a container.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ContainerUser {
    /// On Linux; `None` if the runtime does not report it.
    pub linux: Option<LinuxUser>,
}

/// A Linux user.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LinuxUser {
    /// The UID.
    pub uid: i64,
    /// The primary GID.
    pub gid: i64,
    /// The supplementary GIDs.
    pub supplemental_groups: Vec<i64>,
}
