//! Creates cgroups.

use std::io::ErrorKind;
use std::os::fd::OwnedFd;

use model::machine::Cgroups as Version;
use model::ports::cgroups::CgroupError;

use crate::beneath;
use crate::files::Place;
use crate::tree::{Hierarchy, Tree, failed};

impl Tree {
    /// Creates a cgroup and its ancestors in all hierarchies.
    pub(crate) fn make(&self, place: &Place) -> Result<(), CgroupError> {
        for hierarchy in &self.hierarchies {
            self.make_in(hierarchy, place)?;
        }
        Ok(())
    }

    fn make_in(&self, hierarchy: &Hierarchy, place: &Place) -> Result<(), CgroupError> {
        let root = beneath::directory(&hierarchy.root, &[]);
        let mut directory =
            root.map_err(|source| failed("open", hierarchy.root.clone(), source))?;
        for (depth, name) in place.directories.iter().enumerate() {
            if self.version == Version::V2 {
                enable_controllers(hierarchy, &directory);
            }
            let path = || hierarchy.root.join(place.directories[..=depth].join("/"));
            match self.kernel.make(&directory, name) {
                Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
                made => made.map_err(|source| failed("make", path(), source))?,
            }
            let parent = directory;
            directory =
                beneath::child(&parent, name).map_err(|source| failed("open", path(), source))?;
            if hierarchy.has("cpuset") && self.version == Version::V1 {
                inherit_cpuset(&parent, &directory)
                    .map_err(|source| failed("set up the processors of", path(), source))?;
            }
        }
        if self.version == Version::V2 {
            check_mode(place, &directory)?;
        }
        Ok(())
    }
}

/// Enables all controllers of the machine for child cgroups. Some cannot be enabled everywhere; a later write
/// of a value fails if a needed one is missing.
fn enable_controllers(hierarchy: &Hierarchy, directory: &OwnedFd) {
    const FILE: &str = "cgroup.subtree_control";
    let each: Vec<String> = hierarchy.controllers.iter().map(|name| format!("+{name}")).collect();
    let down = beneath::read(directory, FILE).unwrap_or_default();
    let is_down = |name: &String| down.split_whitespace().any(|one| one == name);
    if hierarchy.controllers.iter().all(is_down)
        || beneath::write(directory, FILE, &each.join(" ")).is_ok()
    {
        return;
    }
    for one in &each {
        if let Err(error) = beneath::write(directory, FILE, one) {
            tracing::debug!(root = %hierarchy.root.display(), controller = one, %error, "Cannot enable controller for child cgroups");
        }
    }
}

/// In a tree with processes between cgroups no limits can be set.
fn check_mode(place: &Place, directory: &OwnedFd) -> Result<(), CgroupError> {
    let mode = beneath::read(directory, "cgroup.type").unwrap_or_default();
    match mode.trim() {
        "domain invalid" | "domain threaded" | "threaded" => {
            let mode = mode.trim().to_owned();
            Err(CgroupError::Mode { name: place.name.clone(), mode })
        }
        _ => Ok(()),
    }
}

/// A new v1 cgroup has no CPUs and no memory nodes, and accepts no process until it has.
fn inherit_cpuset(parent: &OwnedFd, directory: &OwnedFd) -> std::io::Result<()> {
    for file in ["cpuset.cpus", "cpuset.mems"] {
        if beneath::read(directory, file)?.trim().is_empty() {
            let inherited = beneath::read(parent, file)?;
            beneath::write(directory, file, inherited.trim())?;
        }
    }
    Ok(())
}
