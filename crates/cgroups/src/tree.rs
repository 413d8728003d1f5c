//! The hierarchies of a machine.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use model::machine::Cgroups as Version;
use model::ports::cgroups::CgroupError;

use crate::beneath;
use crate::kernel::{Kernel, ThisKernel};
use crate::mountinfo;

/// The file system type of cgroup v2.
const CGROUP2_MAGIC: rustix::fs::FsWord = 0x6367_7270;

const ROOT: &str = "/sys/fs/cgroup";

/// The controllers that the agent uses if they exist.
const USED: [&str; 5] = ["cpu", "cpuset", "memory", "hugetlb", "pids"];
/// Additional hierarchies of cgroup v1.
const USED_IN_V1: [&str; 2] = ["cpuacct", "systemd"];

/// A mounted hierarchy.
#[derive(Debug, Clone)]
pub(crate) struct Hierarchy {
    /// Its mount point.
    pub(crate) root: PathBuf,
    /// Its controllers; for v2 all controllers of the machine.
    pub(crate) controllers: BTreeSet<String>,
}

impl Hierarchy {
    pub(crate) fn has(&self, controller: &str) -> bool {
        self.controllers.contains(controller)
    }

    /// Whether each cgroup must exist in this hierarchy.
    pub(crate) fn is_used(&self) -> bool {
        USED.iter().chain(&USED_IN_V1).any(|controller| self.has(controller))
    }
}

/// All hierarchies.
#[derive(Debug, Clone)]
pub struct Tree {
    pub(crate) version: Version,
    pub(crate) hierarchies: Vec<Hierarchy>,
    pub(crate) kernel: Arc<dyn Kernel>,
}

impl Tree {
    /// The hierarchies of this machine.
    pub fn of_machine() -> Result<Self, CgroupError> {
        if is_v2(Path::new(ROOT)) {
            return Self::v2(ROOT.into(), Arc::new(ThisKernel));
        }
        let path = PathBuf::from("/proc/self/mountinfo");
        let mounts = fs::read(&path).map_err(|source| failed("read", path, source))?;
        let mut hierarchies = mountinfo::hierarchies(&mounts);
        if hierarchies.is_empty() {
            let problem = std::io::Error::other("no cgroup hierarchy is mounted");
            return Err(failed("look for hierarchies at", ROOT.into(), problem));
        }
        // v2 may be mounted in addition to v1, to track processes.
        let unified = Path::new(ROOT).join("unified");
        if is_v2(&unified) {
            hierarchies.push((unified, Vec::new()));
        }
        Ok(Self::v1(hierarchies, Arc::new(ThisKernel)))
    }

    /// The v1 hierarchies at these paths.
    pub(crate) fn v1(hierarchies: Vec<(PathBuf, Vec<String>)>, kernel: Arc<dyn Kernel>) -> Self {
        let hierarchies = hierarchies.into_iter().map(|(root, controllers)| Hierarchy {
            root,
            controllers: controllers.into_iter().collect(),
        });
        Self { version: Version::V1, hierarchies: hierarchies.collect(), kernel }
    }

    /// The v2 hierarchy at this path.
    pub(crate) fn v2(root: PathBuf, kernel: Arc<dyn Kernel>) -> Result<Self, CgroupError> {
        let read = beneath::directory(&root, &[])
            .and_then(|directory| beneath::read(&directory, "cgroup.controllers"));
        let file = root.join("cgroup.controllers");
        let read = read.map_err(|source| failed("read", file, source))?;
        let controllers = read.split_whitespace().map(str::to_owned).collect();
        let hierarchies = vec![Hierarchy { root, controllers }];
        Ok(Self { version: Version::V2, hierarchies, kernel })
    }

    /// The mount points of the hierarchies.
    pub fn roots(&self) -> impl Iterator<Item = &Path> {
        self.hierarchies.iter().map(|hierarchy| hierarchy.root.as_path())
    }

    /// The hierarchy with a controller.
    pub(crate) fn with(&self, controller: &str) -> Option<&Hierarchy> {
        self.hierarchies.iter().find(|hierarchy| hierarchy.has(controller))
    }

    /// The v2 controllers that each cgroup must have.
    pub(crate) fn needed(&self) -> impl Iterator<Item = &'static str> + '_ {
        USED.into_iter().filter(|controller| self.with(controller).is_some())
    }
}

fn is_v2(path: &Path) -> bool {
    rustix::fs::statfs(path).is_ok_and(|found| found.f_type == CGROUP2_MAGIC)
}

pub(crate) fn failed(operation: &str, path: PathBuf, source: std::io::Error) -> CgroupError {
    CgroupError::File { operation: operation.to_owned(), path, source }
}
