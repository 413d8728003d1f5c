//! Writing values to cgroups that are there, and looking at them.

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
    /// The names of the directories that lead to it.
    pub(crate) directories: Vec<String>,
}

impl Place {
    /// Where it is in a hierarchy.
    pub(crate) fn path(&self, hierarchy: &Hierarchy) -> std::path::PathBuf {
        hierarchy.root.join(self.directories.join("/"))
    }

    /// Its directory in a hierarchy, if it is there. Whatever else keeps it from being opened does not
    /// mean that it is not.
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

/// That nothing is missing.
fn none(place: &Place, missing: &[String]) -> Result<(), CgroupError> {
    if missing.is_empty() {
        return Ok(());
    }
    Err(CgroupError::Missing { name: place.name.clone(), missing: missing.join(", ") })
}

impl Tree {
    /// That the cgroup is there as a whole.
    pub(crate) fn check(&self, place: &Place) -> Result<(), CgroupError> {
        let missing = match self.version {
            Version::V1 => self.missing_directories(place)?,
            Version::V2 => self.missing_controllers(place)?,
        };
        none(place, &missing)
    }

    /// That the cgroup is there, with whichever controllers: systemd takes back those that none of its units
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

    /// Writes values to a cgroup that is there. The kernel refuses some as long as others are as they
    /// were (a period that is shorter than the quota allows), so what it refused is tried once more.
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
            // Of huge pages machines may know nothing.
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

    /// The names of the directories in a cgroup, in whichever hierarchy they are.
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
