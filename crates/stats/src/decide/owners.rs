//! Which pod or container a cgroup belongs to, by its path.

use std::collections::BTreeMap;

use model::cgroup::usage::CgroupSample;
use model::cgroup::{CgroupDriver, CgroupName};
use model::ids::PodUid;

/// The suffix of cgroups that systemd creates for containers.
const SCOPE: &str = ".scope";
const SLICE: &str = ".slice";
/// The first part of the name of a pod's cgroup.
const POD: &str = "pod";

/// The pod with this cgroup: `/kubepods/burstable/podUID`, or a slice.
pub fn pod_of(path: &str) -> Option<PodUid> {
    let driver = if path.ends_with(SLICE) { CgroupDriver::Systemd } else { CgroupDriver::Cgroupfs };
    let name = CgroupName::at(driver, path).ok()?;
    let uid = name.last().strip_prefix(POD)?;
    (!uid.is_empty() && uid != "s").then(|| uid.into())
}

/// The runtime's ID of the container or sandbox with this cgroup: `/…/ID` or `/…/cri-containerd-ID.scope`.
pub fn object_of(path: &str) -> &str {
    let name = path.rsplit('/').next().unwrap_or_default();
    match name.strip_suffix(SCOPE) {
        Some(unit) => unit.rsplit('-').next().unwrap_or_default(),
        None => name,
    }
}

/// Measured cgroups, by their owners.
#[derive(Debug, Default)]
pub struct Owners<'a> {
    pods: BTreeMap<PodUid, &'a CgroupSample>,
    objects: BTreeMap<&'a str, &'a CgroupSample>,
    paths: BTreeMap<&'a str, &'a CgroupSample>,
}

impl<'a> Owners<'a> {
    /// Finds the owners. Of several cgroups with one name, the first one counts: containers may create cgroups below
    /// their own.
    pub fn new(samples: &'a [CgroupSample]) -> Self {
        let mut owners = Self::default();
        for sample in samples {
            owners.paths.entry(&sample.path).or_insert(sample);
            if let Some(uid) = pod_of(&sample.path) {
                owners.pods.entry(uid).or_insert(sample);
            }
            owners.objects.entry(object_of(&sample.path)).or_insert(sample);
        }
        owners
    }

    /// The cgroup of a pod.
    pub fn pod(&self, uid: &PodUid) -> Option<&'a CgroupSample> {
        self.pods.get(uid).copied()
    }

    /// The cgroup of a container or a sandbox.
    pub fn object(&self, id: &str) -> Option<&'a CgroupSample> {
        self.objects.get(id).copied()
    }

    /// The cgroup at a path.
    pub fn at(&self, path: &str) -> Option<&'a CgroupSample> {
        self.paths.get(path).copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pods_and_containers_are_found_by_paths_of_both_drivers() {
        let slice = "/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-podab_c.slice";
        let rows = [
            ("/kubepods/burstable/podab-c", Some("ab-c"), "podab-c"),
            (slice, Some("ab-c"), "kubepods-burstable-podab_c.slice"),
            ("/kubepods/podab-c/0123", None, "0123"),
            (&format!("{slice}/cri-containerd-0123.scope"), None, "0123"),
            ("/kubepods", None, "kubepods"),
            ("/kubepods.slice", None, "kubepods.slice"),
            ("/", None, ""),
            ("/pods", None, "pods"),
        ];
        for (path, uid, object) in rows {
            assert_eq!(pod_of(path).as_ref().map(PodUid::as_str), uid, "{path}");
            assert_eq!(object_of(path), object, "{path}");
        }
    }

    #[test]
    fn cgroup_inside_a_container_does_not_replace_that_of_a_container() {
        let sample = |path: &str| CgroupSample { path: path.to_owned(), ..Default::default() };
        let samples = [sample("/kubepods/podu/c1"), sample("/kubepods/podv/c2/c1")];
        let owners = Owners::new(&samples);
        assert_eq!(owners.object("c1").unwrap().path, "/kubepods/podu/c1");
    }
}
