//! Names of cgroups, and their paths with each of the two drivers.

use std::fmt;

/// How cgroups are created.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum CgroupDriver {
    /// The agent itself, as directories.
    #[default]
    Cgroupfs,
    /// systemd, as slices.
    Systemd,
}

impl fmt::Display for CgroupDriver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Cgroupfs => "cgroupfs",
            Self::Systemd => "systemd",
        })
    }
}

/// The name of a cgroup: the names of all cgroups from the root to it; empty for the root. It does not depend
/// on the driver; the path does.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CgroupName(Vec<String>);

/// An invalid cgroup name.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} cannot be the name of a cgroup")]
pub struct CgroupNameError(String);

/// The suffix of slices.
const SLICE: &str = ".slice";

impl CgroupName {
    /// The root.
    pub fn root() -> Self {
        Self::default()
    }

    /// The cgroup at a path from the root: `/kubepods/burstable`.
    pub fn parse(path: &str) -> Result<Self, CgroupNameError> {
        let parts = path.split('/').filter(|part| !part.is_empty());
        parts.into_iter().try_fold(Self::root(), |name, part| name.child(part))
    }

    /// The cgroup at a path of a driver. The last part of a slice path is enough.
    pub fn at(driver: CgroupDriver, path: &str) -> Result<Self, CgroupNameError> {
        if driver == CgroupDriver::Cgroupfs {
            return Self::parse(path);
        }
        let last = path.rsplit('/').find(|part| !part.is_empty()).unwrap_or_default();
        let parts = last.strip_suffix(SLICE).unwrap_or(last).split('-').map(unescaped);
        let name: Option<Vec<String>> = parts.collect();
        let name = name.ok_or_else(|| CgroupNameError(path.to_owned()))?;
        name.iter().try_fold(Self::root(), |name, part| name.child(part))
    }

    /// A child cgroup.
    pub fn child(&self, name: &str) -> Result<Self, CgroupNameError> {
        if matches!(name, "" | "." | "..") || name.contains(['/', '\0']) {
            return Err(CgroupNameError(name.to_owned()));
        }
        let mut parts = self.0.clone();
        parts.push(name.to_owned());
        Ok(Self(parts))
    }

    /// Whether it is the root.
    pub fn is_root(&self) -> bool {
        self.0.is_empty()
    }

    /// Its name within its parent; empty for the root.
    pub fn last(&self) -> &str {
        self.0.last().map(String::as_str).unwrap_or_default()
    }

    /// Its parent, unless it is the root.
    pub fn parent(&self) -> Option<Self> {
        let (_, above) = self.0.split_last()?;
        Some(Self(above.to_vec()))
    }

    /// Its path from the root of the tree, as container runtimes expect it.
    pub fn path(&self, driver: CgroupDriver) -> String {
        let below: Vec<String> = self.directories(driver);
        format!("/{}", below.join("/"))
    }

    /// The names of the directories from the root to it.
    pub fn directories(&self, driver: CgroupDriver) -> Vec<String> {
        match driver {
            CgroupDriver::Cgroupfs => self.0.clone(),
            CgroupDriver::Systemd => {
                (1..=self.0.len()).map(|depth| slice(&self.0[..depth])).collect()
            }
        }
    }

    /// The child cgroup with this directory; `None` if the directory is not a cgroup's.
    pub fn child_of_directory(&self, driver: CgroupDriver, directory: &str) -> Option<Self> {
        match driver {
            CgroupDriver::Cgroupfs => self.child(directory).ok(),
            CgroupDriver::Systemd => {
                let parts = directory.strip_suffix(SLICE)?.split('-').map(unescaped);
                let name = Self(parts.collect::<Option<_>>()?);
                let is_child = name.parent().as_ref() == Some(self) && !name.last().is_empty();
                is_child.then_some(name)
            }
        }
    }
}

impl fmt::Display for CgroupName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.path(CgroupDriver::Cgroupfs))
    }
}

/// The unit of a cgroup. Dashes separate the parents, so dashes in names become underscores,
/// and underscores are escaped as systemd does.
fn slice(parts: &[String]) -> String {
    let parts: Vec<String> = parts.iter().map(|part| escaped(part)).collect();
    format!("{}{SLICE}", parts.join("-"))
}

fn escaped(part: &str) -> String {
    part.replace('_', "\\x5f").replace('-', "_")
}

fn unescaped(part: &str) -> Option<String> {
    let name = part.replace('_', "-").replace("\\x5f", "_");
    // We escape nothing else.
    (!name.contains('\\')).then_some(name)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn named(path: &str) -> CgroupName {
        CgroupName::parse(path).unwrap()
    }

    #[test]
    fn cgroup_path_is_a_directory_or_a_slice() {
        let rows = [
            ("/", "/", "/"),
            ("/kubepods", "/kubepods", "/kubepods.slice"),
            (
                "/kubepods/burstable",
                "/kubepods/burstable",
                "/kubepods.slice/kubepods-burstable.slice",
            ),
            (
                "/kubepods/burstable/pod1234-abcd-5678-efgh",
                "/kubepods/burstable/pod1234-abcd-5678-efgh",
                "/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod1234_abcd_5678_efgh.slice",
            ),
            (
                "kubepods/pod0123456789abcdef",
                "/kubepods/pod0123456789abcdef",
                "/kubepods.slice/kubepods-pod0123456789abcdef.slice",
            ),
            (
                "/test-root/kubepods/poda_b",
                "/test-root/kubepods/poda_b",
                "/test_root.slice/test_root-kubepods.slice/test_root-kubepods-poda\\x5fb.slice",
            ),
        ];
        for (name, cgroupfs, systemd) in rows {
            let name = named(name);
            assert_eq!(name.path(CgroupDriver::Cgroupfs), cgroupfs);
            assert_eq!(name.path(CgroupDriver::Systemd), systemd);
        }
    }

    #[test]
    fn names_that_escape_the_parent_are_rejected() {
        for name in ["", ".", "..", "a/b", "a\0"] {
            assert_eq!(CgroupName::root().child(name), Err(CgroupNameError(name.to_owned())));
        }
        assert!(CgroupName::parse("/a/../b").is_err());
        assert_eq!(CgroupName::parse("//a//b/").unwrap(), named("/a/b"));
    }

    #[test]
    fn path_of_either_driver_is_parsed() {
        let at = |driver, path| CgroupName::at(driver, path).unwrap().to_string();
        assert_eq!(at(CgroupDriver::Cgroupfs, "/kube/reserved"), "/kube/reserved");
        assert_eq!(
            at(CgroupDriver::Systemd, "/kube.slice/kube-reserved_x.slice"),
            "/kube/reserved-x"
        );
        assert_eq!(at(CgroupDriver::Systemd, "system.slice"), "/system");
        assert!(CgroupName::at(CgroupDriver::Systemd, "/").is_err());
    }

    #[test]
    fn foreign_directories_are_not_parsed_as_cgroups() {
        let rows = [
            "kubepods-burstable",
            "other-podx.slice",
            "kubepods-.slice",
            "a.scope",
            "kubepods-burstable-podx.slice",
            "kubepods.slice",
            "kubepods-pod\\x2d.slice",
        ];
        for directory in rows {
            let found = named("/kubepods").child_of_directory(CgroupDriver::Systemd, directory);
            assert_eq!(found, None, "{directory}");
        }
    }

    proptest! {
        #[test]
        fn cgroup_is_found_by_its_directory(
            parents in prop::collection::vec("[a-z][a-z0-9._-]{0,8}", 0..3),
            own in "[a-z0-9][a-zA-Z0-9._-]{0,40}",
        ) {
            let parent = CgroupName(parents);
            let name = parent.child(&own).unwrap();
            for driver in [CgroupDriver::Cgroupfs, CgroupDriver::Systemd] {
                let directories = name.directories(driver);
                let found = parent.child_of_directory(driver, directories.last().unwrap());
                prop_assert_eq!(found.as_ref(), Some(&name));
                prop_assert!(directories.iter().all(|directory| !directory.contains('/')));
            }
        }
    }
}
