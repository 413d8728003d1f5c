//! Properties of the machine, which the agent reads once at its start.

/// The cgroup version of the machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Cgroups {
    /// The first: a tree for each controller.
    V1,
    /// The second: one tree.
    #[default]
    V2,
}

/// Huge pages of a size.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HugePages {
    /// Bytes of each.
    pub size: u64,
    /// The number of reserved pages.
    pub count: u64,
}

/// The identity of a machine and of its boot.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Identity {
    /// From `/etc/machine-id`.
    pub machine_id: String,
    /// The system UUID of its firmware.
    pub system_uuid: String,
    /// Changes at every boot.
    pub boot_id: String,
    /// The full version of the kernel.
    pub kernel_version: String,
    /// The name of the operating system.
    pub os_image: String,
    /// Bytes of swap.
    pub swap: u64,
}

/// A machine.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[expect(clippy::struct_excessive_bools, reason = "each is an independent fact")]
pub struct Machine {
    /// Bytes of memory.
    pub memory: u64,
    /// The number of CPUs.
    pub cpus: u32,
    /// The CPUs, as the kernel lists them: `0-3,8`.
    pub cpu_set: String,
    /// The largest number of processes and threads, if known.
    pub most_pids: Option<u64>,
    /// The first two numbers of the kernel's version.
    pub kernel: (u32, u32),
    /// The huge pages, by size.
    pub huge_pages: Vec<HugePages>,
    /// The thermal throttle directories of the CPUs, which are a side channel.
    pub thermal_throttle: Vec<String>,
    /// The cgroup version.
    pub cgroups: Cgroups,
    /// Whether swap is on.
    pub swap: bool,
    /// Bytes of swap.
    pub swap_bytes: u64,
    /// Whether a `tmpfs` can be kept out of swap.
    pub tmpfs_without_swap: bool,
    /// Whether the use of swap can be limited.
    pub swap_controller: bool,
    /// Whether `AppArmor` is enabled.
    pub apparmor: bool,
    /// Whether `SELinux` is enabled.
    pub selinux: bool,
}

impl Machine {
    /// Whether containers can have limits of swap other than zero.
    pub fn limits_swap(&self) -> bool {
        self.swap_controller && self.cgroups == Cgroups::V2
    }
}
