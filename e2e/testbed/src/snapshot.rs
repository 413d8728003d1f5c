//! Everything that an instance could leave on the host, as a list that can be compared.
//!
//! Things that name their slot (a cgroup, a link, a directory, a marked process) count only for the given slots, so
//! that instances of other users do not interfere. Things without a slot (a mount, a namespace, a bridge) always count.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::deadline::Deadline;
use crate::error::PathError;
use crate::mounts::KERNEL_SETTINGS;
use crate::paths::Cache;
use crate::{CacheError, cgroup, mountinfo, network, slot};

mod processes;

use processes::Processes;

/// Directories where a container runtime, a network plugin or a control plane that escaped its namespaces would leave
/// files.
const WATCHED: [&str; 17] = [
    "/etc/cni/net.d",
    "/etc/kubernetes",
    "/opt",
    "/opt/cni",
    "/opt/containerd",
    "/run/containerd",
    "/run/kubernetes",
    "/run/netns",
    "/run/nri",
    "/run/runc",
    "/var/lib/cni",
    "/var/lib/containerd",
    "/var/lib/etcd",
    "/var/lib/kubelet",
    "/var/log/containers",
    "/var/log/pods",
    "/etc/containerd",
];

/// Why the host could not be inspected, or what differs.
#[derive(Debug, thiserror::Error)]
pub enum SnapshotError {
    #[error("cannot use the cache directory")]
    Cache(#[source] CacheError),
    #[error("cannot look at the mounts")]
    Mounts(#[source] PathError),
    #[error("the host is not as it was before:\n{difference}")]
    Different { difference: String },
}

/// The kind of a thing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Kind {
    Process,
    Namespace,
    Mount,
    Cgroup,
    Link,
    File,
    Setting,
}

impl Kind {
    /// Whether other programs of the host leave it alone while a test runs: then its absence afterwards is our doing.
    fn stands_still(self) -> bool {
        matches!(self, Self::Mount | Self::Link | Self::File | Self::Setting)
    }
}

/// The slot of a thing, from its name or marker.
type Owner = Option<u8>;

/// The state of the host at one moment.
#[derive(Debug, Clone)]
pub struct Snapshot {
    things: BTreeMap<(Kind, String), Owner>,
}

impl Snapshot {
    /// Inspects the host. Needs root to see other processes.
    pub fn take() -> Result<Self, SnapshotError> {
        let instances = Cache::from_env().map_err(SnapshotError::Cache)?.instances();
        let processes = Processes::look(&instances);
        let mut snapshot = Self { things: BTreeMap::new() };
        for (name, owner) in processes.ours() {
            snapshot.add(Kind::Process, name, Some(owner));
        }
        for (name, owner) in processes.namespaces() {
            snapshot.add(Kind::Namespace, name, owner);
        }
        for mount in mountinfo::mounts().map_err(SnapshotError::Mounts)? {
            let name = format!("{} on {}", mount.fs_type, mount.point.display());
            snapshot.add(Kind::Mount, name, None);
        }
        snapshot.add_cgroups(&processes)?;
        for name in names(Path::new("/sys/class/net")) {
            let owner = network::slot_of(&name);
            snapshot.add(Kind::Link, name, owner);
        }
        snapshot.add_files(&instances);
        for setting in KERNEL_SETTINGS {
            let value = fs::read_to_string(setting).unwrap_or_default();
            snapshot.add(Kind::Setting, format!("{setting} = {}", value.trim()), None);
        }
        Ok(snapshot)
    }

    fn add(&mut self, kind: Kind, name: String, owner: Owner) {
        self.things.insert((kind, name), owner);
    }

    /// Every cgroup, except those with foreign processes: these may create cgroups meanwhile.
    fn add_cgroups(&mut self, processes: &Processes) -> Result<(), SnapshotError> {
        for hierarchy in cgroup::hierarchies().map_err(SnapshotError::Mounts)? {
            cgroup::walk(&hierarchy.mount, &mut |dir| {
                let owner = cgroup::slot_of(dir);
                let mut members = cgroup::processes(dir).into_iter();
                if owner.is_some() || !members.any(|pid| processes.is_foreign(pid)) {
                    self.add(Kind::Cgroup, dir.display().to_string(), owner);
                }
                true
            });
        }
        Ok(())
    }

    fn add_files(&mut self, instances: &Path) {
        for name in names(instances) {
            let owner = slot::slot_of(&name);
            self.add(Kind::File, instances.join(name).display().to_string(), owner);
        }
        for dir in WATCHED.map(PathBuf::from) {
            for name in names(&dir) {
                self.add(Kind::File, dir.join(name).display().to_string(), None);
            }
        }
    }

    /// The differences in `self`, which is later than `before`; `slots` are those of the instances that lived
    /// meanwhile.
    pub fn difference(&self, before: &Self, slots: &BTreeSet<u8>) -> String {
        let mut text = String::new();
        let mut list = |sign: &str, kind: Kind, name: &str| {
            writeln!(text, "{sign} {kind:?} {name}").expect("writing to a string does not fail");
        };
        for ((kind, name), owner) in &self.things {
            let counts = owner.is_none_or(|slot| slots.contains(&slot));
            if counts && !before.things.contains_key(&(*kind, name.clone())) {
                list("+", *kind, name);
            }
        }
        for ((kind, name), owner) in &before.things {
            // A dead supervisor may have left things with a slot, which were rightly removed.
            let counts = owner.is_none() && kind.stands_still();
            if counts && !self.things.contains_key(&(*kind, name.clone())) {
                list("-", *kind, name);
            }
        }
        text
    }

    /// Waits until the host is again as in `self`: the kernel cleans up some of it asynchronously.
    pub fn wait_restored(&self, slots: &BTreeSet<u8>, time: Duration) -> Result<(), SnapshotError> {
        let mut difference = String::new();
        let restored = Deadline::after(time).poll(|| {
            match Self::take() {
                Ok(now) => difference = now.difference(self, slots),
                Err(error) => return Some(Err(error)),
            }
            difference.is_empty().then_some(Ok(()))
        });
        restored.unwrap_or(Err(SnapshotError::Different { difference }))
    }
}

fn names(dir: &Path) -> Vec<String> {
    let entries = fs::read_dir(dir).into_iter().flatten().flatten();
    entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn snapshot(things: &[(Kind, &str, Owner)]) -> Snapshot {
        let things = things.iter().map(|(kind, name, owner)| ((*kind, (*name).to_owned()), *owner));
        Snapshot { things: things.collect() }
    }

    #[test]
    fn files_of_other_instances_are_ignored() {
        let before = snapshot(&[(Kind::Cgroup, "/a", None)]);
        let after = snapshot(&[
            (Kind::Cgroup, "/a", None),
            (Kind::Link, "flt-1", Some(1)),
            (Kind::Link, "flt-2", Some(2)),
            (Kind::Mount, "tmpfs on /x", None),
        ]);
        let difference = after.difference(&before, &BTreeSet::from([1]));
        assert_eq!(difference, "+ Mount tmpfs on /x\n+ Link flt-1\n");
    }

    #[test]
    fn vanished_entry_is_a_problem_unless_others_may_remove_it() {
        let before = snapshot(&[
            (Kind::Cgroup, "/session", None),
            (Kind::File, "/run/netns/a", None),
            (Kind::File, "/cache/instances/1", Some(1)),
        ]);
        let difference = snapshot(&[]).difference(&before, &BTreeSet::from([1]));
        assert_eq!(difference, "- File /run/netns/a\n");
    }
}
