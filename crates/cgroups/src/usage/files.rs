//! The control files of one cgroup, in all its hierarchies.

use std::collections::BTreeMap;
use std::os::fd::OwnedFd;
use std::path::Path;

use jiff::Timestamp;
use model::cgroup::usage::ProcessSample;
use model::machine::Cgroups as Version;
use model::ports::cgroup_usage::Detail;
use rustix::fs::fstat;

use crate::beneath;
use crate::tree::{Hierarchy, Tree};

/// The control files of a cgroup. Directories are opened once, on first use.
pub(super) struct Files<'a> {
    tree: &'a Tree,
    names: &'a [String],
    open: BTreeMap<&'a Path, Option<OwnedFd>>,
}

impl<'a> Files<'a> {
    pub(super) fn new(tree: &'a Tree, names: &'a [String]) -> Self {
        Self { tree, names, open: BTreeMap::new() }
    }

    fn hierarchy(&self, controller: &str) -> Option<&'a Hierarchy> {
        match self.tree.version {
            // Some files exist without their controller.
            Version::V2 => self.tree.hierarchies.first(),
            Version::V1 => self.tree.with(controller),
        }
    }

    fn directory(&mut self, controller: &str) -> Option<&OwnedFd> {
        let (root, names) = (self.hierarchy(controller)?.root.as_path(), self.names);
        let open = || beneath::directory(root, names).ok();
        self.open.entry(root).or_insert_with(open).as_ref()
    }

    /// The content of a file; `None` if it is missing or cannot be read.
    pub(super) fn text(&mut self, controller: &str, file: &str) -> Option<String> {
        beneath::read(self.directory(controller)?, file).ok()
    }

    /// A file with one number.
    pub(super) fn number(&mut self, controller: &str, file: &str) -> Option<u64> {
        self.text(controller, file)?.trim().parse().ok()
    }

    /// The time of the oldest directory; `None` if there is no directory.
    pub(super) fn created(&mut self) -> Option<Timestamp> {
        let controllers = ["memory", "cpuacct", "cpu"];
        let times = controllers.into_iter().filter_map(|controller| {
            let found = fstat(self.directory(controller)?).ok()?;
            let nanoseconds = i32::try_from(found.st_mtime_nsec).unwrap_or(0);
            Timestamp::new(found.st_mtime, nanoseconds).ok()
        });
        times.min()
    }

    /// The processes; threads are counted with all details.
    pub(super) fn processes(&mut self, detail: Detail) -> Option<ProcessSample> {
        let text =
            self.text("memory", "cgroup.procs").or_else(|| self.text("cpu", "cgroup.procs"))?;
        // Processes that are not visible from here have the id 0.
        let first = text.lines().filter_map(|line| line.trim().parse().ok()).find(|pid| *pid > 0);
        let mut found =
            ProcessSample { count: text.lines().count() as u64, first, ..ProcessSample::default() };
        if detail == Detail::All {
            found.threads = self.number("pids", "pids.current");
            found.max_threads = self.number("pids", "pids.max");
        }
        Some(found)
    }
}
