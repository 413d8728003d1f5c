//! Resource usage of a cgroup, as the kernel accounts it.
//!
//! A value without its control file is absent.

use jiff::Timestamp;

use crate::stats::PsiStats;

/// One measurement of a cgroup.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct CgroupSample {
    /// Its path from the root of the hierarchy: `/kubepods/burstable`.
    pub path: String,
    /// When it was measured.
    pub time: Timestamp,
    /// When it was created, as far as its directory shows it.
    pub created: Option<Timestamp>,
    /// CPU.
    pub cpu: Option<CpuSample>,
    /// Memory.
    pub memory: Option<MemorySample>,
    /// Disk I/O; only with [`Detail::All`](crate::ports::cgroup_usage::Detail).
    pub io: Option<IoSample>,
    /// Its processes.
    pub processes: Option<ProcessSample>,
}

/// CPU of a cgroup. Times are nanoseconds.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct CpuSample {
    /// The time used since the creation.
    pub usage: u64,
    /// The part in user mode.
    pub user: u64,
    /// The part in kernel mode.
    pub system: u64,
    /// How often the quota stopped its processes; `None` without the controller.
    pub throttling: Option<Throttling>,
    /// The limits.
    pub limits: CpuLimits,
    /// Pressure stall information.
    pub psi: Option<PsiStats>,
}

/// How often a CPU quota stopped processes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Throttling {
    /// The periods in which processes ran.
    pub periods: u64,
    /// Those in which the quota was used up.
    pub throttled_periods: u64,
    /// For how long processes waited, in nanoseconds.
    pub throttled: u64,
}

/// The CPU limits of a cgroup.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct CpuLimits {
    /// The shares of cgroup v1, computed from the weight of v2.
    pub shares: Option<u64>,
    /// The quota in microseconds; `None` without a limit.
    pub quota: Option<u64>,
    /// The period in microseconds.
    pub period: Option<u64>,
}

/// Memory of a cgroup, in bytes, with all its children.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct MemorySample {
    /// All memory, with caches.
    pub usage: u64,
    /// The largest usage so far.
    pub max_usage: Option<u64>,
    /// The limit; `None` without one.
    pub limit: Option<u64>,
    /// The soft limit; `None` without one.
    pub soft_limit: Option<u64>,
    /// Anonymous memory.
    pub rss: u64,
    /// Pages of files.
    pub cache: u64,
    /// Mapped pages of files.
    pub mapped_file: u64,
    /// Pages of files that the kernel reclaims first.
    pub inactive_file: u64,
    /// Pages of files in use.
    pub active_file: u64,
    /// Memory of the kernel.
    pub kernel: u64,
    /// Page faults since the creation.
    pub page_faults: Option<u64>,
    /// Page faults that read from disk.
    pub major_page_faults: Option<u64>,
    /// How often the limit was reached.
    pub fail_count: Option<u64>,
    /// Swap; `None` where the kernel does not account it.
    pub swap: Option<SwapSample>,
    /// Processes killed because the limit was reached, without those of children; `None` where the kernel does not
    /// count them.
    pub oom_kills: Option<u64>,
    /// Pressure stall information.
    pub psi: Option<PsiStats>,
}

impl MemorySample {
    /// The usage without the file pages that the kernel reclaims first.
    pub fn working_set(&self) -> u64 {
        self.usage.saturating_sub(self.inactive_file)
    }
}

/// Swap of a cgroup, in bytes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct SwapSample {
    /// The usage, without memory.
    pub usage: u64,
    /// The limit, without memory; `None` without one.
    pub limit: Option<u64>,
}

/// Disk I/O of a cgroup.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct IoSample {
    /// By device.
    pub devices: Vec<DeviceIo>,
    /// Pressure stall information.
    pub psi: Option<PsiStats>,
}

/// I/O with a device since the creation of a cgroup.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct DeviceIo {
    /// The major and minor number of the device.
    pub device: (u32, u32),
    /// Bytes read.
    pub read_bytes: u64,
    /// Bytes written.
    pub written_bytes: u64,
    /// Read operations.
    pub reads: u64,
    /// Write operations.
    pub writes: u64,
}

/// The processes in a cgroup, without those of children.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ProcessSample {
    /// Their number.
    pub count: u64,
    /// The first of them, if it is visible from here.
    pub first: Option<i32>,
    /// The number of threads, with those of children; only with [`Detail::All`](crate::ports::cgroup_usage::Detail).
    pub threads: Option<u64>,
    /// The largest number of threads; `None` without a limit.
    pub max_threads: Option<u64>,
}
