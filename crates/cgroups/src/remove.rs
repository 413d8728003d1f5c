//! Removes cgroups with their processes and children.

use std::collections::BTreeSet;
use std::io::ErrorKind;
use std::os::fd::OwnedFd;

use model::ports::cgroups::CgroupError;
use model::ports::files::Removed;
use rustix::io::Errno;

use crate::beneath;
use crate::files::Place;
use crate::kill::{kill, processes};
use crate::tree::{Hierarchy, Tree, failed};

/// The supported depth of cgroups in a container.
const DEEPEST: usize = 256;

/// The result of a removal attempt.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Attempt {
    /// The cgroup is removed.
    Gone(Removed),
    /// These processes remain; invisible ones are not listed.
    Busy(BTreeSet<i32>),
}

impl Tree {
    /// Kills all processes of a cgroup and removes it from all hierarchies, without waiting; some may remain.
    pub(crate) fn try_remove(&self, place: &Place) -> Result<Attempt, CgroupError> {
        let there = self.there(place)?;
        if there.is_empty() {
            return Ok(Attempt::Gone(Removed::Before));
        }
        kill_all(&there);
        let mut busy = None;
        for (hierarchy, directory) in there {
            match self.remove_from(hierarchy, place, &directory) {
                Ok(()) => {}
                Err(source) if source.raw_os_error() == Some(Errno::BUSY.raw_os_error()) => {
                    let left: &mut BTreeSet<i32> = busy.get_or_insert_default();
                    visit(&directory, 0, &mut |directory| left.extend(processes(directory)));
                }
                Err(source) => return Err(failed("remove", place.path(hierarchy), source)),
            }
        }
        Ok(busy.map_or(Attempt::Gone(Removed::Now), Attempt::Busy))
    }

    /// Whether a part of a cgroup exists, or cannot be checked.
    pub(crate) fn is_left(&self, place: &Place) -> bool {
        self.there(place).map_or(true, |there| !there.is_empty())
    }

    /// Kills the processes of a cgroup and below it.
    pub(crate) fn kill(&self, place: &Place) -> Result<(), CgroupError> {
        kill_all(&self.there(place)?);
        Ok(())
    }

    /// The existing directories of a cgroup. Never that of the root, which has all processes.
    fn there(&self, place: &Place) -> Result<Vec<(&Hierarchy, OwnedFd)>, CgroupError> {
        if place.directories.is_empty() {
            let problem = std::io::Error::new(ErrorKind::InvalidInput, "it is the root");
            return Err(failed("remove", "/".into(), problem));
        }
        let mut there = Vec::new();
        for hierarchy in &self.hierarchies {
            there.extend(place.find(hierarchy)?.map(|directory| (hierarchy, directory)));
        }
        Ok(there)
    }

    fn remove_from(
        &self,
        hierarchy: &Hierarchy,
        place: &Place,
        directory: &OwnedFd,
    ) -> std::io::Result<()> {
        let Some((own, above)) = place.directories.split_last() else {
            return Err(ErrorKind::InvalidInput.into());
        };
        self.remove_below(directory, 0)?;
        let parent = beneath::directory(&hierarchy.root, above)?;
        gone(self.kernel.remove(&parent, own))
    }

    fn remove_below(&self, directory: &OwnedFd, depth: usize) -> std::io::Result<()> {
        if depth > DEEPEST {
            return Err(std::io::Error::other("cgroups lie too deep in it"));
        }
        for name in beneath::directories(directory)? {
            match beneath::child(directory, &name) {
                Ok(child) => self.remove_below(&child, depth + 1)?,
                Err(error) if error.kind() == ErrorKind::NotFound => continue,
                Err(error) => return Err(error),
            }
            gone(self.kernel.remove(directory, &name))?;
        }
        Ok(())
    }
}

fn kill_all(there: &[(&Hierarchy, OwnedFd)]) {
    for (_, directory) in there {
        visit(directory, 0, &mut |directory| {
            kill(directory);
        });
    }
}

/// A removal by another process counts as well.
fn gone(removed: std::io::Result<()>) -> std::io::Result<()> {
    match removed {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
        removed => removed,
    }
}

/// Visits a cgroup and all its descendants. Directories that vanish are skipped.
fn visit(directory: &OwnedFd, depth: usize, see: &mut dyn FnMut(&OwnedFd)) {
    see(directory);
    if depth == DEEPEST {
        return;
    }
    for name in beneath::directories(directory).unwrap_or_default() {
        if let Ok(child) = beneath::child(directory, &name) {
            visit(&child, depth + 1, see);
        }
    }
}
