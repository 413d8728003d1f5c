//! Resource usage of the machine that no cgroup accounts.

use std::collections::BTreeMap;
use std::fmt::Debug;

use async_trait::async_trait;
use jiff::Timestamp;

use crate::ports::files::FileError;

/// The counters of a network interface since its creation.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct InterfaceCounters {
    /// The name: `eth0`.
    pub name: String,
    /// Received.
    pub received: TrafficCounters,
    /// Sent.
    pub sent: TrafficCounters,
}

/// The traffic of an interface in one direction.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct TrafficCounters {
    /// Bytes.
    pub bytes: u64,
    /// Packets.
    pub packets: u64,
    /// Errors.
    pub errors: u64,
    /// Dropped packets.
    pub dropped: u64,
}

/// The processes and threads of the machine.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct TaskCounts {
    /// Their number.
    pub running: Option<i64>,
    /// The largest number; `None` if it cannot be read.
    pub maximum: Option<i64>,
}

/// Counts network traffic and tasks.
#[async_trait]
pub trait NodeUsage: Debug + Send + Sync {
    /// The interfaces in the network namespaces of these processes, by process. A process that has ended is missing.
    async fn interfaces(
        &self,
        processes: &[i32],
    ) -> Result<BTreeMap<i32, Vec<InterfaceCounters>>, FileError>;

    /// The tasks of the machine.
    async fn tasks(&self) -> Result<TaskCounts, FileError>;

    /// The paths of block devices: `/dev/sda`. Unknown ones are missing.
    async fn devices(
        &self,
        numbers: &[(u32, u32)],
    ) -> Result<BTreeMap<(u32, u32), String>, FileError>;

    /// When the machine was booted.
    async fn booted_at(&self) -> Result<Timestamp, FileError>;
}
