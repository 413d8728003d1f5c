//! A fake kernel in a plain directory: control files are created and removed with cgroups.

use std::fs;
use std::io;
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustix::io::Errno;
use rustix::process::{Pid, Signal, kill_process};

use crate::kernel::Kernel;
use crate::tree::Tree;

/// The control files of cgroup v1, by controller.
const V1: [(&str, &[(&str, &str)]); 5] = [
    ("cpu", &[("cpu.shares", "1024"), ("cpu.cfs_quota_us", "-1"), ("cpu.cfs_period_us", "100000")]),
    ("cpuset", &[("cpuset.cpus", ""), ("cpuset.mems", "")]),
    (
        "memory",
        &[("memory.limit_in_bytes", "9223372036854771712"), ("memory.usage_in_bytes", "8192")],
    ),
    ("pids", &[("pids.max", "max")]),
    ("hugetlb", &[("hugetlb.2MB.limit_in_bytes", "9223372036854771712")]),
];

/// The control files of cgroup v2.
const V2: [(&str, &[(&str, &str)]); 5] = [
    ("cpu", &[("cpu.weight", "100"), ("cpu.max", "max 100000")]),
    ("cpuset", &[("cpuset.cpus", "")]),
    ("memory", &[("memory.max", "max"), ("memory.current", "8192")]),
    ("pids", &[("pids.max", "max")]),
    ("hugetlb", &[("hugetlb.2MB.max", "max"), ("hugetlb.2MB.rsvd.max", "max")]),
];

/// A kernel of either version.
#[derive(Debug)]
pub(crate) struct FakeKernel {
    is_v2: bool,
}

/// A v1 tree, in which two controllers share a hierarchy.
pub(crate) fn v1(root: &Path) -> Tree {
    let controllers: [&[&str]; 6] =
        [&["cpu", "cpuacct"], &["cpuset"], &["memory"], &["pids"], &["hugetlb"], &["systemd"]];
    let hierarchies: Vec<(PathBuf, Vec<String>)> = controllers
        .iter()
        .map(|names| {
            let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
            (root.join(names.join(",")), names)
        })
        .collect();
    let kernel = FakeKernel { is_v2: false };
    for (path, _) in &hierarchies {
        fs::create_dir(path).unwrap();
        kernel.fill(path).unwrap();
    }
    let cpus = root.join("cpuset");
    fs::write(cpus.join("cpuset.cpus"), "0-3\n").unwrap();
    fs::write(cpus.join("cpuset.mems"), "0\n").unwrap();
    Tree::v1(hierarchies, Arc::new(kernel))
}

/// A v2 tree with these controllers.
pub(crate) fn v2(root: &Path, controllers: &str) -> Tree {
    fs::write(root.join("cgroup.controllers"), controllers).unwrap();
    fs::write(root.join("cgroup.subtree_control"), "").unwrap();
    fs::write(root.join("cgroup.procs"), "").unwrap();
    Tree::v2(root.to_owned(), Arc::new(FakeKernel { is_v2: true })).unwrap()
}

fn path_of(directory: &OwnedFd) -> PathBuf {
    fs::read_link(format!("/proc/self/fd/{}", directory.as_raw_fd())).unwrap()
}

fn text(path: PathBuf) -> String {
    fs::read_to_string(path).unwrap_or_default()
}

impl FakeKernel {
    fn fill(&self, path: &Path) -> io::Result<()> {
        fs::write(path.join("cgroup.procs"), "")?;
        let controllers = if self.is_v2 {
            let down = text(path.parent().unwrap().join("cgroup.subtree_control"));
            let down = down.replace('+', "");
            fs::write(path.join("cgroup.controllers"), &down)?;
            fs::write(path.join("cgroup.subtree_control"), "")?;
            fs::write(path.join("cgroup.kill"), "")?;
            fs::write(path.join("cgroup.type"), "domain\n")?;
            down
        } else {
            Self::hierarchy(path)
        };
        for (controller, files) in if self.is_v2 { V2 } else { V1 } {
            if controllers.split([' ', ',']).any(|name| name == controller) {
                for (file, content) in files {
                    fs::write(path.join(file), content)?;
                }
            }
        }
        Ok(())
    }

    /// The directory name of a v1 hierarchy.
    fn hierarchy(path: &Path) -> String {
        let mut names = path.iter().filter_map(|part| part.to_str());
        let known =
            |name: &&str| V1.iter().any(|(one, _)| name.split(',').any(|part| part == *one));
        names.find(known).unwrap_or_default().to_owned()
    }

    /// Applies a write to the kill file of the cgroup.
    fn apply_kill_file(path: &Path) {
        if text(path.join("cgroup.kill")) != "1" {
            return;
        }
        for pid in text(path.join("cgroup.procs")).lines() {
            let pid = pid.parse().ok().and_then(Pid::from_raw).expect("a process of a test");
            kill_process(pid, Signal::KILL).ok();
        }
    }

    fn is_busy(path: &Path) -> bool {
        let processes = text(path.join("cgroup.procs"));
        let mut alive = processes.lines().filter(|pid| is_alive(pid));
        let has_children = fs::read_dir(path).unwrap().flatten().any(|entry| entry.path().is_dir());
        alive.next().is_some() || has_children
    }
}

/// A zombie is in no cgroup any more.
fn is_alive(pid: &str) -> bool {
    // A process that is not visible from here.
    if pid == "0" {
        return true;
    }
    let stat = text(format!("/proc/{pid}/stat").into());
    let state = stat.rsplit_once(") ").map(|(_, rest)| rest.chars().next());
    !matches!(state, None | Some(None | Some('Z' | 'X')))
}

impl Kernel for FakeKernel {
    fn make(&self, parent: &OwnedFd, name: &str) -> io::Result<()> {
        let path = path_of(parent).join(name);
        fs::create_dir(&path)?;
        self.fill(&path)
    }

    fn remove(&self, parent: &OwnedFd, name: &str) -> io::Result<()> {
        let path = path_of(parent).join(name);
        if !path.exists() {
            return Err(io::ErrorKind::NotFound.into());
        }
        Self::apply_kill_file(&path);
        if Self::is_busy(&path) {
            return Err(Errno::BUSY.into());
        }
        fs::remove_dir_all(path)
    }
}
