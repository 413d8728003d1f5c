//! What a signal stands for.

use std::fmt;

pub use config::EvictionSignal as Signal;

/// The resource that a signal measures, as messages name it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Resource {
    /// Memory.
    Memory,
    /// Disk space.
    EphemeralStorage,
    /// Inodes.
    Inodes,
    /// Process ids.
    Pids,
}

impl Resource {
    /// The resource of a signal.
    pub fn of(signal: Signal) -> Self {
        match signal {
            Signal::MemoryAvailable | Signal::AllocatableMemoryAvailable => Self::Memory,
            Signal::NodeFsAvailable | Signal::ImageFsAvailable | Signal::ContainerFsAvailable => {
                Self::EphemeralStorage
            }
            Signal::NodeFsInodesFree
            | Signal::ImageFsInodesFree
            | Signal::ContainerFsInodesFree => Self::Inodes,
            Signal::PidAvailable => Self::Pids,
        }
    }

    /// Its name.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Memory => "memory",
            Self::EphemeralStorage => "ephemeral-storage",
            Self::Inodes => "inodes",
            Self::Pids => "pids",
        }
    }
}

impl fmt::Display for Resource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// A node condition.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Condition {
    /// `MemoryPressure`.
    Memory,
    /// `DiskPressure`.
    Disk,
    /// `PIDPressure`.
    Pid,
}

impl Condition {
    /// The condition of a signal.
    pub fn of(signal: Signal) -> Self {
        match Resource::of(signal) {
            Resource::Memory => Self::Memory,
            Resource::EphemeralStorage | Resource::Inodes => Self::Disk,
            Resource::Pids => Self::Pid,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // behaviour: EVI-1
    #[test]
    fn signal_has_upstream_resource_and_condition() {
        let rows = [
            ("memory.available", "memory", Condition::Memory),
            ("allocatableMemory.available", "memory", Condition::Memory),
            ("nodefs.available", "ephemeral-storage", Condition::Disk),
            ("nodefs.inodesFree", "inodes", Condition::Disk),
            ("imagefs.available", "ephemeral-storage", Condition::Disk),
            ("imagefs.inodesFree", "inodes", Condition::Disk),
            ("containerfs.available", "ephemeral-storage", Condition::Disk),
            ("containerfs.inodesFree", "inodes", Condition::Disk),
            ("pid.available", "pids", Condition::Pid),
        ];
        assert_eq!(rows.len(), Signal::ALL.len());
        for (name, resource, condition) in rows {
            let signal: Signal = name.parse().unwrap();
            assert_eq!(Resource::of(signal).as_str(), resource, "{name}");
            assert_eq!(Condition::of(signal), condition, "{name}");
        }
    }
}
