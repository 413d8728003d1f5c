//! Removing cgroups with all that is in them.

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

/// How an attempt to remove a cgroup ended.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Attempt {
    /// It is gone.
    Gone(Removed),
    /// These are still in it, as far as they can be named.
    Busy(BTreeSet<i32>),
}

impl Tree {
    /// Kills all that is in a cgroup and removes it from all hierarchies, as far as that goes at once.
    pub(crate) fn try_remove(&self, place: &Place) -> Result<Attempt, CgroupError> {
        let mut there = Vec::new();
        for hierarchy in &self.hierarchies {
            match beneath::directory(&hierarchy.root, &place.directories) {
                Ok(directory) => there.push((hierarchy, directory)),
                Err(error) if error.kind() == ErrorKind::NotFound => {}
                Err(source) => return Err(failed("open", place.path(hierarchy), source)),
            }
        }
        if there.is_empty() {
            return Ok(Attempt::Gone(Removed::Before));
        }
        for (_, directory) in &there {
            visit(directory, &mut |directory| {
                kill(directory);
            });
        }
        let mut busy = None;
        for (hierarchy, directory) in there {
            match self.remove_from(hierarchy, place, &directory) {
                Ok(()) => {}
                Err(source) if source.raw_os_error() == Some(Errno::BUSY.raw_os_error()) => {
                    let left: &mut BTreeSet<i32> = busy.get_or_insert_default();
                    visit(&directory, &mut |directory| left.extend(processes(directory)));
                }
                Err(source) => return Err(failed("remove", place.path(hierarchy), source)),
            }
        }
        Ok(busy.map_or(Attempt::Gone(Removed::Now), Attempt::Busy))
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
        self.remove_below(directory)?;
        let parent = beneath::directory(&hierarchy.root, above)?;
        gone(self.kernel.remove(&parent, own))
    }

    fn remove_below(&self, directory: &OwnedFd) -> std::io::Result<()> {
        for name in beneath::directories(directory)? {
            match beneath::child(directory, &name) {
                Ok(child) => self.remove_below(&child)?,
                Err(error) if error.kind() == ErrorKind::NotFound => continue,
                Err(error) => return Err(error),
            }
            gone(self.kernel.remove(directory, &name))?;
        }
        Ok(())
    }
}

/// Whoever else removes it does as well.
fn gone(removed: std::io::Result<()>) -> std::io::Result<()> {
    match removed {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
        removed => removed,
    }
}

/// Goes through a cgroup and all below it. What vanishes meanwhile is passed over.
fn visit(directory: &OwnedFd, see: &mut dyn FnMut(&OwnedFd)) {
    see(directory);
    for name in beneath::directories(directory).unwrap_or_default() {
        if let Ok(child) = beneath::child(directory, &name) {
            visit(&child, see);
        }
    }
}
