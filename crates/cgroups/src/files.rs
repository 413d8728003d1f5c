//! Writes and reads values of existing cgroups.

use std::collections::BTreeSet;
use std::io::ErrorKind;
use std::os::fd::OwnedFd;

use model::cgroup::{CgroupName, CgroupValues};
use model::machine::Cgroups as Version;
use model::ports::cgroups::CgroupError;

use crate::beneath;
use crate::tree::{Hierarchy, Tree, failed};
use crate::write::{Write, writes};

/// A cgroup in the hierarchies of a machine.
#[derive(Debug, Clone)]
pub(crate) struct Place {
    pub(crate) name: CgroupName,
    /// The directory names of its path.
    pub(crate) directories: Vec<String>,
}

impl Place {
    /// Its path in a hierarchy.
    pub(crate) fn path(&self, hierarchy: &Hierarchy) -> std::path::PathBuf {
        hierarchy.root.join(self.directories.join("/"))
    }

    /// Its directory in a hierarchy, if it exists. Other errors do not count as its absence.
    pub(crate) fn find(&self, hierarchy: &Hierarchy) -> Result<Option<OwnedFd>, CgroupError> {
        match beneath::directory(&hierarchy.root, &self.directories) {
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
            directory => {
                let opened = directory.map(Some);
                opened.map_err(|source| failed("open", self.path(hierarchy), source))
            }
        }
    }

    pub(crate) fn open(&self, hierarchy: &Hierarchy) -> Result<OwnedFd, CgroupError> {
        beneath::directory(&hierarchy.root, &self.directories)
            .map_err(|source| failed("open", self.path(hierarchy), source))
    }
}

/// Returns an error if anything is missing.
fn none(place: &Place, missing: &[String]) -> Result<(), CgroupError> {
    if missing.is_empty() {
        return Ok(());
    }
    Err(CgroupError::Missing { name: place.name.clone(), missing: missing.join(", ") })
}

impl Tree {
    /// Checks that the cgroup exists in all hierarchies, with all controllers.
    pub(crate) fn check(&self, place: &Place) -> Result<(), CgroupError> {
        let missing = match self.version {
            Version::V1 => self.missing_directories(place)?,
            Version::V2 => self.missing_controllers(place)?,
        };
        none(place, &missing)
    }

    /// Checks that the cgroup exists, with any controllers: systemd disables those that none of its units
    /// needs, such as cpuset.
    pub(crate) fn check_directories(&self, place: &Place) -> Result<(), CgroupError> {
        none(place, &self.missing_directories(place)?)
    }

    fn missing_directories(&self, place: &Place) -> Result<Vec<String>, CgroupError> {
        let mut missing = Vec::new();
        for hierarchy in self.hierarchies.iter().filter(|hierarchy| hierarchy.is_used()) {
            if place.find(hierarchy)?.is_none() {
                missing.push(place.path(hierarchy).display().to_string());
            }
        }
        Ok(missing)
    }

    fn missing_controllers(&self, place: &Place) -> Result<Vec<String>, CgroupError> {
        const FILE: &str = "cgroup.controllers";
        let hierarchy = &self.hierarchies[0];
        let Some(directory) = place.find(hierarchy)? else {
            return Ok(vec![place.path(hierarchy).display().to_string()]);
        };
        let read = beneath::read(&directory, FILE)
            .map_err(|source| failed("read", place.path(hierarchy).join(FILE), source))?;
        let enabled: BTreeSet<&str> = read.split_whitespace().collect();
        let missing = self.needed().filter(|controller| !enabled.contains(controller));
        Ok(missing.map(|controller| format!("controller {controller}")).collect())
    }

    /// Writes values to an existing cgroup. The kernel refuses some values until others are written (such as a
    /// period shorter than the quota allows), so refused values are written once more.
    pub(crate) fn update(&self, place: &Place, values: &CgroupValues) -> Result<(), CgroupError> {
        self.check_directories(place)?;
        let all = writes(self.version, values);
        let refused: Vec<&Write> =
            all.iter().filter(|one| self.write(place, one).is_err()).collect();
        let again = refused.into_iter().map(|one| self.write(place, one));
        again.collect::<Vec<_>>().into_iter().collect()
    }

    fn write(&self, place: &Place, write: &Write) -> Result<(), CgroupError> {
        let Some(hierarchy) = self.with(write.controller) else {
            // The machine may not support huge pages.
            if write.controller == "hugetlb" {
                return Ok(());
            }
            let missing = format!("controller {}", write.controller);
            return Err(CgroupError::Missing { name: place.name.clone(), missing });
        };
        let directory = place.open(hierarchy)?;
        match beneath::write(&directory, &write.file, &write.content) {
            Err(error) if write.optional && error.kind() == ErrorKind::NotFound => Ok(()),
            Err(source) => {
                let path = place.path(hierarchy).join(&write.file);
                Err(failed(&format!("write {} to", write.content), path, source))
            }
            Ok(()) => Ok(()),
        }
    }

    /// The names of child cgroups, in any hierarchy.
    pub(crate) fn directories_in(&self, place: &Place) -> Result<BTreeSet<String>, CgroupError> {
        let mut names = BTreeSet::new();
        for hierarchy in &self.hierarchies {
            let Some(directory) = place.find(hierarchy)? else { continue };
            let found = beneath::directories(&directory);
            names.extend(found.map_err(|source| failed("list", place.path(hierarchy), source))?);
        }
        Ok(names)
    }
}
