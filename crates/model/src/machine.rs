//! What the agent finds out about its machine once, at its start.

/// Which version of cgroups the machine has.
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
    /// How many are set aside.
    pub count: u64,
}

/// What tells a machine from others, and one start of it from the next.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Identity {
    /// From `/etc/machine-id`.
    pub machine_id: String,
    /// What its firmware says.
    pub system_uuid: String,
    /// Another one after every start.
    pub boot_id: String,
    /// The kernel's whole version.
    pub kernel_version: String,
    /// The name of the operating system, for people.
    pub os_image: String,
    /// Bytes of swap.
    pub swap: u64,
}

/// A machine.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[expect(clippy::struct_excessive_bools, reason = "each is a fact of its own")]
pub struct Machine {
    /// Bytes of memory.
    pub memory: u64,
    /// How many processors there are.
    pub cpus: u32,
    /// Which ones, as the kernel lists them: `0-3,8`.
    pub cpu_set: String,
    /// How many processes and threads there can be, if the kernel tells.
    pub most_pids: Option<u64>,
    /// The first two numbers of the kernel's version.
    pub kernel: (u32, u32),
    /// Which huge pages there are, by size.
    pub huge_pages: Vec<HugePages>,
    /// Directories that tell how hot each processor is; which programs run can be read from that.
    pub thermal_throttle: Vec<String>,
    /// Which version of cgroups there is.
    pub cgroups: Cgroups,
    /// Whether swap is on.
    pub swap: bool,
    /// Whether the use of swap can be limited.
    pub swap_controller: bool,
    /// Whether `AppArmor` is there and on.
    pub apparmor: bool,
    /// Whether `SELinux` is there and on.
    pub selinux: bool,
}
