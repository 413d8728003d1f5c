//! Facts of the machine that the configuration depends on.

use config::CgroupVersion;

/// The file system type of a cgroup tree of version 2.
const CGROUP2: u64 = 0x6367_7270;

/// The cgroup version: 2 only when the whole tree is v2.
pub fn cgroup_version() -> CgroupVersion {
    let unified = rustix::fs::statfs("/sys/fs/cgroup")
        .is_ok_and(|system| u64::try_from(system.f_type) == Ok(CGROUP2));
    if unified { CgroupVersion::V2 } else { CgroupVersion::V1 }
}
