//! The instance's view of the filesystem, made by pid 1 in its new mount namespace.

use std::ffi::CString;
use std::fs::{self, DirBuilder};
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::path::{Path, PathBuf};

use rustix::mount::{
    MountFlags, MountPropagationFlags, UnmountFlags, mount, mount_bind, mount_change, unmount,
};

use crate::cgroup::{self, Hierarchy};
use crate::error::{AtPath, PathError};
use crate::paths::{InstanceDir, MASKED};

/// The directory of containerd's images and snapshots. Every user may pass all parts of this path, which containers in
/// user namespaces need; the cache below a home directory is not accessible.
pub(crate) const CONTAINERD_ROOT: &str = "/var/lib/containerd";
pub(crate) const CONTAINERD_STATE: &str = "/run/containerd";

/// The mount point of this module's own mounts.
const OWN: &str = "/run/testbed";

/// Settings of the whole kernel that a node agent changes when it starts.
pub(crate) const KERNEL_SETTINGS: [&str; 6] = [
    "/proc/sys/kernel/keys/root_maxbytes",
    "/proc/sys/kernel/keys/root_maxkeys",
    "/proc/sys/kernel/panic",
    "/proc/sys/kernel/panic_on_oops",
    "/proc/sys/vm/overcommit_memory",
    "/proc/sys/vm/panic_on_oom",
];

/// Hides the files of the host and of other instances, and shows the instance's own.
pub(crate) fn isolate(dir: &InstanceDir) -> Result<(), PathError> {
    let recursive = MountPropagationFlags::REC;
    mount_change("/", MountPropagationFlags::PRIVATE | recursive).at("make private", "/")?;
    let resolver = resolver_behind_mask();
    for dir in MASKED {
        tmpfs(dir)?;
    }
    for (dir, mode) in [("/run/netns", 0o755), ("/run/lock", 0o1777), (OWN, 0o700)] {
        fs::create_dir(dir).at("make", dir)?;
        fs::set_permissions(dir, fs::Permissions::from_mode(mode)).at("open up", dir)?;
    }
    if let Some((path, content)) = resolver {
        let parent = path.parent().unwrap_or(Path::new("/"));
        fs::create_dir_all(parent).at("make", parent)?;
        fs::write(&path, content).at("write", &path)?;
    }
    show_own_root(dir)?;
    let hierarchies = cgroup::hierarchies()?;
    for hierarchy in &hierarchies {
        remount(hierarchy)?;
    }
    if cgroup::only_v2(&hierarchies) {
        hierarchies.iter().try_for_each(leave_root)?;
    }
    show_own_links()?;
    show_own_settings()?;
    // A node's mounts are shared, so that volumes can propagate between pods and node. The new peer groups end at this
    // namespace.
    mount_change("/", MountPropagationFlags::SHARED | recursive).at("make shared", "/")
}

fn tmpfs(dir: &str) -> Result<(), PathError> {
    mount("tmpfs", dir, "tmpfs", MountFlags::empty(), c"mode=0755").at("mount a tmpfs on", dir)
}

/// The host's resolver file, if it is a link into a directory that is about to be hidden.
fn resolver_behind_mask() -> Option<(PathBuf, Vec<u8>)> {
    let path = fs::canonicalize("/etc/resolv.conf").ok()?;
    let masked = MASKED.into_iter().any(|mask| path.starts_with(mask));
    let content = fs::read(&path).ok().filter(|_| masked)?;
    Some((path, content))
}

/// Mounts a cgroup hierarchy again: its root is then that of the cgroup namespace.
fn remount(hierarchy: &Hierarchy) -> Result<(), PathError> {
    let point = &hierarchy.mount;
    unmount(point, UnmountFlags::empty()).at("unmount", point)?;
    let (fs_type, options) = match &hierarchy.v1 {
        Some(options) => ("cgroup", options.as_str()),
        None => ("cgroup2", ""),
    };
    let options = CString::new(options).expect("mount options have no zero byte");
    mount(fs_type, point, fs_type, MountFlags::empty(), options.as_c_str()).at("mount", point)
}

/// A v2 cgroup with processes cannot delegate controllers: pid 1 moves aside, and with it everything that it starts, so
/// that the agent can.
fn leave_root(hierarchy: &Hierarchy) -> Result<(), PathError> {
    let aside = hierarchy.mount.join("init");
    fs::create_dir(&aside).at("make", &aside)?;
    cgroup::join(&aside, 0)
}

/// Images and snapshots are on disk in the instance's directory, not in memory.
fn show_own_root(dir: &InstanceDir) -> Result<(), PathError> {
    let source = dir.containerd_root();
    for dir in [source.as_path(), Path::new(CONTAINERD_ROOT)] {
        DirBuilder::new().mode(0o711).create(dir).at("make", dir)?;
    }
    mount_bind(&source, CONTAINERD_ROOT).at("mount", CONTAINERD_ROOT)
}

/// `/sys/class/net` of the host shows the host's links. One mounted here shows ours, which are all
/// virtual; the links in it point to the second directory.
fn show_own_links() -> Result<(), PathError> {
    let whole = whole("sysfs")?;
    for dir in ["class/net", "devices/virtual/net"] {
        let target = Path::new("/sys").join(dir);
        mount_bind(whole.join(dir), &target).at("mount", &target)?;
    }
    Ok(())
}

/// Mounts plain files over settings that would change the host: they can be written and read back, without effect.
fn show_own_settings() -> Result<(), PathError> {
    whole("proc")?;
    for setting in KERNEL_SETTINGS.map(Path::new) {
        let Ok(value) = fs::read(setting) else { continue };
        let name = setting.file_name().expect("a setting is a file");
        let file = Path::new(OWN).join(name);
        fs::write(&file, value).at("write", &file)?;
        mount_bind(&file, setting).at("mount", setting)?;
    }
    Ok(())
}

/// Mounts a whole `proc` or `sysfs` aside. It has to stay: in a user namespace the kernel mounts these only for a
/// process that already sees one without covered parts.
fn whole(fs_type: &str) -> Result<PathBuf, PathError> {
    let point = Path::new(OWN).join(fs_type);
    fs::create_dir(&point).at("make", &point)?;
    mount(fs_type, &point, fs_type, MountFlags::empty(), None).at("mount", &point)?;
    Ok(point)
}
