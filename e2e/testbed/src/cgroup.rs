//! The instance's own cgroup in every hierarchy: create, join, kill, remove.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};

use crate::deadline::Deadline;
use crate::error::{AtPath, PathError};
use crate::mountinfo::{self, Mount};

const PREFIX: &str = "ferrolet-testbed-";

/// Options of a v1 mount that do not name a controller or a hierarchy.
const MOUNT_OPTIONS: [&str; 7] =
    ["rw", "ro", "xattr", "noprefix", "clone_children", "cpuset_v2_mode", "favordynmods"];

/// Why an instance's cgroups could not be made or removed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum CgroupError {
    #[error("cannot look at the cgroup hierarchies")]
    Look(#[source] PathError),
    #[error("cannot make the cgroup")]
    Make(#[source] PathError),
    #[error("processes {pids:?} in the cgroup do not die")]
    Immortal { pids: BTreeSet<i32> },
    #[error("cannot remove the cgroup")]
    Remove(#[source] PathError),
}

/// The name of the cgroup of a slot, the same in every hierarchy.
pub(crate) fn name(slot: u8) -> String {
    format!("{PREFIX}{slot}")
}

/// The slot whose cgroup `path` lies in.
pub(crate) fn slot_of(path: &Path) -> Option<u8> {
    path.iter().find_map(|part| part.to_str()?.strip_prefix(PREFIX)?.parse().ok())
}

/// A mounted cgroup hierarchy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Hierarchy {
    pub(crate) mount: PathBuf,
    root: PathBuf,
    /// Of v1, the mount options that name it (`cpu,cpuacct`, `name=systemd`); of v2, nothing.
    pub(crate) v1: Option<String>,
}

/// Every mounted hierarchy.
pub(crate) fn hierarchies() -> Result<Vec<Hierarchy>, PathError> {
    Ok(mountinfo::mounts()?.iter().filter_map(hierarchy).collect())
}

fn hierarchy(mount: &Mount) -> Option<Hierarchy> {
    let v1 = match mount.fs_type.as_str() {
        "cgroup" => Some(naming_options(&mount.super_options)),
        "cgroup2" => None,
        _ => return None,
    };
    Some(Hierarchy { mount: mount.point.clone(), root: mount.root.clone(), v1 })
}

fn naming_options(super_options: &str) -> String {
    let named: Vec<&str> = super_options
        .split(',')
        .filter(|option| !MOUNT_OPTIONS.contains(option) && !option.starts_with("release_agent="))
        .collect();
    named.join(",")
}

/// Whether there is only a v2 hierarchy, which then has the controllers.
pub(crate) fn only_v2(hierarchies: &[Hierarchy]) -> bool {
    hierarchies.iter().all(|hierarchy| hierarchy.v1.is_none())
}

impl Hierarchy {
    /// The directory of the cgroup this process is in; `memberships` is `/proc/self/cgroup`.
    fn own(&self, memberships: &str) -> Option<PathBuf> {
        let path = memberships.lines().find_map(|line| {
            let mut fields = line.splitn(3, ':').skip(1);
            let (names, path) = (fields.next()?, fields.next()?);
            (sorted(names) == sorted(self.v1.as_deref().unwrap_or_default())).then_some(path)
        })?;
        let below = Path::new(path).strip_prefix(&self.root).ok()?;
        Some(self.mount.join(below))
    }
}

fn sorted(names: &str) -> Vec<&str> {
    let mut names: Vec<&str> = names.split(',').collect();
    names.sort_unstable();
    names
}

fn memberships() -> Result<String, PathError> {
    fs::read_to_string("/proc/self/cgroup").at("read", "/proc/self/cgroup")
}

/// Moves a process out of the instance's v2 cgroup, where a process at the top would prevent the instance from
/// delegating controllers. With v1 it may stay.
pub(crate) fn move_aside(pid: u32) -> Result<(), PathError> {
    let hierarchies = hierarchies()?;
    if !only_v2(&hierarchies) {
        return Ok(());
    }
    let memberships = memberships()?;
    let own = hierarchies.iter().filter_map(|hierarchy| hierarchy.own(&memberships));
    own.into_iter().try_for_each(|dir| join(&dir, pid))
}

/// Makes the cgroup of `slot` in every hierarchy and returns the directories.
///
/// It is below the cgroup of this process, so that our limits hold for the instance. With only v2 that is impossible,
/// because a cgroup with processes cannot delegate controllers; there it is below the root.
pub(crate) fn make(slot: u8) -> Result<Vec<PathBuf>, CgroupError> {
    let memberships = memberships().map_err(CgroupError::Look)?;
    let hierarchies = hierarchies().map_err(CgroupError::Look)?;
    let only_v2 = only_v2(&hierarchies);
    let mut made: Vec<PathBuf> = Vec::new();
    let mut seen = BTreeSet::new();
    for hierarchy in hierarchies {
        if !seen.insert(hierarchy.v1.clone()) {
            continue;
        }
        let own = hierarchy.own(&memberships).filter(|_| !only_v2);
        let parent = own.unwrap_or_else(|| hierarchy.mount.clone());
        let dir = parent.join(name(slot));
        fs::create_dir(&dir).at("make", &dir).map_err(CgroupError::Make)?;
        made.push(dir.clone());
        if hierarchy.v1.is_some() {
            inherit_cpuset(&parent, &dir).map_err(CgroupError::Make)?;
        }
    }
    Ok(made)
}

/// A new v1 cpuset is empty, and nothing may enter it until it has CPUs and memory nodes.
fn inherit_cpuset(parent: &Path, dir: &Path) -> Result<(), PathError> {
    for file in ["cpuset.cpus", "cpuset.mems"] {
        let (from, to) = (parent.join(file), dir.join(file));
        if to.exists() {
            let value = fs::read_to_string(&from).at("read", &from)?;
            fs::write(&to, value.trim()).at("write", &to)?;
        }
    }
    Ok(())
}

/// Moves a process (this one, when `pid` is 0) into the cgroup at `dir`.
pub(crate) fn join(dir: &Path, pid: u32) -> Result<(), PathError> {
    let procs = dir.join("cgroup.procs");
    fs::write(&procs, pid.to_string()).at("write", &procs)
}

/// The cgroup directories of `slot` wherever a supervisor made them.
pub(crate) fn find(slot: u8) -> Result<Vec<PathBuf>, CgroupError> {
    let wanted = name(slot);
    let mut found = Vec::new();
    for hierarchy in hierarchies().map_err(CgroupError::Look)? {
        // A testbed inside an instance has its own slots: never descend into an instance.
        walk(&hierarchy.mount, &mut |dir| {
            let file_name = dir.file_name().and_then(|name| name.to_str()).unwrap_or_default();
            if file_name == wanted {
                found.push(dir.to_owned());
            }
            !file_name.starts_with(PREFIX)
        });
    }
    Ok(found)
}

/// The slots that have a cgroup in some hierarchy.
pub(crate) fn slots() -> Result<BTreeSet<u8>, CgroupError> {
    let mut slots = BTreeSet::new();
    for hierarchy in hierarchies().map_err(CgroupError::Look)? {
        walk(&hierarchy.mount, &mut |dir| {
            let slot = slot_of(dir);
            slots.extend(slot);
            slot.is_none()
        });
    }
    Ok(slots)
}

/// Visits `dir` and, where `visit` says so, its children. A cgroup that vanishes meanwhile is skipped.
pub(crate) fn walk(dir: &Path, visit: &mut dyn FnMut(&Path) -> bool) {
    if !visit(dir) {
        return;
    }
    for entry in fs::read_dir(dir).into_iter().flatten().flatten() {
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            walk(&entry.path(), visit);
        }
    }
}

/// `dir` and every cgroup below, parents first.
fn tree(dir: &Path) -> Vec<PathBuf> {
    let mut all = Vec::new();
    walk(dir, &mut |dir| {
        all.push(dir.to_owned());
        true
    });
    all
}

/// The processes directly in the cgroup at `dir`.
pub(crate) fn processes(dir: &Path) -> BTreeSet<i32> {
    let text = fs::read_to_string(dir.join("cgroup.procs")).unwrap_or_default();
    // 0 stands for a process of another PID namespace, which has no pid here.
    text.lines().filter_map(|line| line.parse().ok()).filter(|pid| *pid > 0).collect()
}

/// Thaws frozen v1 cgroups, since a frozen process does not die.
pub(crate) fn thaw(dirs: &[PathBuf]) {
    for dir in dirs.iter().flat_map(|dir| tree(dir)) {
        let state = dir.join("freezer.state");
        if fs::read_to_string(&state).is_ok_and(|state| state.trim() != "THAWED") {
            // If a cgroup cannot be thawed, its processes do not die, which is reported.
            fs::write(&state, "THAWED").ok();
        }
    }
}

/// Kills everything in the cgroups and waits until they are empty.
pub(crate) fn kill(slot: u8, dirs: &[PathBuf], deadline: Deadline) -> Result<(), CgroupError> {
    let mut pids = BTreeSet::new();
    let emptied = deadline.poll(|| {
        thaw(dirs);
        pids = dirs.iter().flat_map(|dir| tree(dir)).flat_map(|dir| processes(&dir)).collect();
        for pid in &pids {
            kill_member(slot, *pid);
        }
        pids.is_empty().then_some(())
    });
    emptied.ok_or(CgroupError::Immortal { pids })
}

/// Kills `pid` if it is in the cgroup of `slot`. The descriptor is opened before the check, so that another process
/// that gets the pid meanwhile is never killed.
fn kill_member(slot: u8, pid: i32) {
    let Some(process) = Pid::from_raw(pid) else { return };
    let Ok(handle) = pidfd_open(process, PidfdFlags::empty()) else { return };
    let memberships = fs::read_to_string(format!("/proc/{pid}/cgroup")).unwrap_or_default();
    let member = memberships.lines().any(|line| {
        line.splitn(3, ':').nth(2).is_some_and(|path| slot_of(Path::new(path)) == Some(slot))
    });
    if member {
        // It may have ended already; the caller checks again.
        pidfd_send_signal(handle, Signal::KILL).ok();
    }
}

/// Removes the cgroups and all below them; retries until the kernel releases them.
pub(crate) fn remove(dirs: &[PathBuf], deadline: Deadline) -> Result<(), CgroupError> {
    let mut last = None;
    let removed = deadline.poll(|| {
        last = dirs.iter().find_map(|dir| remove_tree(dir).err());
        last.is_none().then_some(())
    });
    match (removed, last) {
        (None, Some(error)) => Err(CgroupError::Remove(error)),
        _ => Ok(()),
    }
}

fn remove_tree(dir: &Path) -> Result<(), PathError> {
    for dir in tree(dir).iter().rev() {
        match fs::remove_dir(dir) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            other => other.at("remove", dir)?,
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn v1(mount: &str, root: &str, options: &str) -> Hierarchy {
        let mount = Mount {
            root: root.into(),
            point: mount.into(),
            fs_type: "cgroup".to_owned(),
            super_options: options.to_owned(),
        };
        hierarchy(&mount).unwrap()
    }

    #[test]
    fn own_cgroup_is_found_by_controllers_in_any_order() {
        let memberships = "5:cpuacct,cpu:/a/b\n4:name=systemd:/c\n0::/d\n";
        let cpu = v1("/cg/cpu", "/", "rw,cpu,cpuacct");
        assert_eq!(cpu.own(memberships), Some("/cg/cpu/a/b".into()));
        let systemd = v1("/cg/systemd", "/", "rw,xattr,release_agent=/x,name=systemd");
        assert_eq!(systemd.v1.as_deref(), Some("name=systemd"));
        assert_eq!(systemd.own(memberships), Some("/cg/systemd/c".into()));
        let unified = Hierarchy { mount: "/cg".into(), root: "/".into(), v1: None };
        assert_eq!(unified.own(memberships), Some("/cg/d".into()));
    }

    #[test]
    fn own_cgroup_outside_of_the_mounted_ones_is_not_found() {
        let memberships = "5:cpu:/a/b\n";
        assert_eq!(v1("/cg", "/a", "cpu").own(memberships), Some("/cg/b".into()));
        assert_eq!(v1("/cg", "/z", "cpu").own(memberships), None);
    }

    #[test]
    fn slot_is_read_from_the_outermost_instance() {
        assert_eq!(slot_of(Path::new("/x/ferrolet-testbed-12/k8s.io/1")), Some(12));
        assert_eq!(slot_of(Path::new("/ferrolet-testbed-3/ferrolet-testbed-4")), Some(3));
        assert_eq!(slot_of(Path::new("/ferrolet-testbed-x/y")), None);
    }
}
