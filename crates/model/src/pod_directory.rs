//! The entries of a pod directory, and which of them its removal may delete.

use std::path::{Component, Path};

use crate::ports::files::draft_of;

/// An entry of a pod's directory, by its path there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PodEntry {
    /// A file or directory that the agent wrote. It is removed with its content.
    Metadata,
    /// A directory that may contain only known entries. It is removed once it is empty.
    Layout,
    /// A volume, or a mount point. It is removed if it is an empty directory, or an empty file.
    Empty,
    /// A link to a device. It is removed, and not the device.
    Link,
    /// Anything else. It stays, and so does all of the pod's directory.
    Foreign,
}

/// Files that the agent writes into the directory of a pod.
const FILES: [&str; 2] = ["etc-hosts", "userns"];

impl PodEntry {
    /// The kind of the entry at this path below the pod's directory. Volumes are torn down, and removed by their own
    /// verdicts, before the directory of their pod is removed: remaining data is not the agent's.
    pub fn at(below: &Path) -> Self {
        let mut names = Vec::new();
        for part in below.components() {
            let Component::Normal(name) = part else { return Self::Foreign };
            names.push(name.to_str().unwrap_or_default());
        }
        match names.as_slice() {
            ["containers" | "plugins"] => Self::Metadata,
            [name] if FILES.iter().any(|file| name == file || *name == draft_of(file)) => {
                Self::Metadata
            }
            ["volumes" | "volumeDevices" | "volume-subpaths"]
            | ["volumes" | "volumeDevices" | "volume-subpaths", _]
            | ["volume-subpaths", _, _] => Self::Layout,
            ["volumes", _, _] | ["volume-subpaths", _, _, _] => Self::Empty,
            ["volumeDevices", _, _] => Self::Link,
            _ => Self::Foreign,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_entries_of_the_layout_are_known() {
        let rows = [
            ("containers", PodEntry::Metadata),
            ("plugins", PodEntry::Metadata),
            ("etc-hosts", PodEntry::Metadata),
            ("userns", PodEntry::Metadata),
            (".userns.new", PodEntry::Metadata),
            ("volumes", PodEntry::Layout),
            ("volumes/kubernetes.io~empty-dir", PodEntry::Layout),
            ("volumes/kubernetes.io~empty-dir/data", PodEntry::Empty),
            ("volumes/kubernetes.io~empty-dir/data/file", PodEntry::Foreign),
            ("volumeDevices/kubernetes.io~local-volume/pv", PodEntry::Link),
            ("volume-subpaths/data/main", PodEntry::Layout),
            ("volume-subpaths/data/main/0", PodEntry::Empty),
            ("volume-subpaths/data/main/0/file", PodEntry::Foreign),
            ("notes", PodEntry::Foreign),
            (".notes.new", PodEntry::Foreign),
            ("../other", PodEntry::Foreign),
            ("", PodEntry::Foreign),
        ];
        for (path, expected) in rows {
            assert_eq!(PodEntry::at(Path::new(path)), expected, "{path}");
        }
    }
}
