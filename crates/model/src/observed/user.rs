//! Whom a container runs as, as its runtime says.

/// Whom the first process of a container was started as.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ContainerUser {
    /// On Linux; none where the runtime could not tell.
    pub linux: Option<LinuxUser>,
}

/// A user of Linux.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LinuxUser {
    /// The user.
    pub uid: i64,
    /// The first group.
    pub gid: i64,
    /// All further groups.
    pub supplemental_groups: Vec<i64>,
}
