//! On which disks images, writable layers and the root directory are, and what that means for signals.

use super::signal::{Resource, Signal};
use super::threshold::Threshold;

/// The disks of a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DiskLayout {
    /// All on one disk.
    Single,
    /// Images and writable layers on a disk of their own.
    DedicatedImageFs,
    /// Images on a disk of their own, writable layers on that of the root directory.
    Split,
}

/// The devices of the three file systems.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Devices {
    /// Of the root directory.
    pub root: u64,
    /// Of the images.
    pub images: u64,
    /// Of the writable layers.
    pub containers: u64,
}

/// The parts of a pod's usage that count for a signal.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct CountedParts {
    /// Writable layers.
    pub rootfs: bool,
    /// Logs.
    pub logs: bool,
    /// Local volumes.
    pub volumes: bool,
}

/// What is removed before a pod is evicted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct NodeReclaim {
    /// Dead containers.
    pub containers: bool,
    /// Unused images.
    pub images: bool,
}

impl NodeReclaim {
    /// Whether anything is removed.
    pub fn is_any(self) -> bool {
        self.containers || self.images
    }
}

/// The signals of the disk of writable layers, each with the signals whose thresholds it has.
const CONTAINER_FS: [(Signal, Signal, Signal); 2] = [
    (Signal::ContainerFsAvailable, Signal::NodeFsAvailable, Signal::ImageFsAvailable),
    (Signal::ContainerFsInodesFree, Signal::NodeFsInodesFree, Signal::ImageFsInodesFree),
];

impl DiskLayout {
    /// The layout of these devices.
    pub fn of(devices: Devices) -> Self {
        let Devices { root, images, containers } = devices;
        if images != containers {
            Self::Split
        } else if images == root {
            Self::Single
        } else {
            Self::DedicatedImageFs
        }
    }

    /// Its name.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Single => "single",
            Self::DedicatedImageFs => "dedicated-imagefs",
            Self::Split => "split",
        }
    }

    /// The thresholds with those of `containerfs` that the layout implies, instead of configured ones.
    pub fn with_container_fs(self, thresholds: &[Threshold]) -> Vec<Threshold> {
        let is_derived =
            |signal: Signal| CONTAINER_FS.iter().any(|(derived, ..)| *derived == signal);
        let mut all: Vec<Threshold> =
            thresholds.iter().filter(|one| !is_derived(one.signal)).cloned().collect();
        for (derived, of_node, of_images) in CONTAINER_FS {
            let source = if self == Self::DedicatedImageFs { of_images } else { of_node };
            let copies = thresholds.iter().filter(|one| one.signal == source);
            all.extend(copies.map(|one| Threshold { signal: derived, ..one.clone() }));
        }
        all.sort_by_key(|threshold| !threshold.is_hard());
        all
    }

    /// The configured thresholds that [`Self::with_container_fs`] replaces.
    pub fn replaced(thresholds: &[Threshold]) -> Vec<Signal> {
        let signals = thresholds.iter().map(|one| one.signal);
        signals
            .filter(|signal| CONTAINER_FS.iter().any(|(derived, ..)| derived == signal))
            .collect()
    }

    /// The parts of a pod's disk usage that count for a signal.
    pub fn counted(self, signal: Signal) -> CountedParts {
        let (all, none) =
            (CountedParts { rootfs: true, logs: true, volumes: true }, CountedParts::default());
        match (self, disk_of(signal)) {
            (_, None) | (Self::Split, Some(Disk::Images)) => none,
            (Self::Single | Self::Split, Some(_)) => all,
            (Self::DedicatedImageFs, Some(Disk::Node)) => CountedParts { rootfs: false, ..all },
            (Self::DedicatedImageFs, Some(Disk::Images | Disk::Containers)) => {
                CountedParts { rootfs: true, ..none }
            }
        }
    }

    /// What is removed for a signal before a pod is evicted.
    pub fn reclaim(self, signal: Signal) -> NodeReclaim {
        let (both, none) = (NodeReclaim { containers: true, images: true }, NodeReclaim::default());
        match (self, disk_of(signal)) {
            (_, None) | (Self::DedicatedImageFs, Some(Disk::Node)) => none,
            (Self::Single | Self::DedicatedImageFs, Some(_)) => both,
            (Self::Split, Some(Disk::Images)) => NodeReclaim { images: true, ..none },
            (Self::Split, Some(Disk::Node | Disk::Containers)) => {
                NodeReclaim { containers: true, ..none }
            }
        }
    }

    /// Whether writable layers count for the storage limits of containers.
    pub fn limits_count_rootfs(self) -> bool {
        self == Self::Single
    }
}

/// A disk, by the signals that measure it.
enum Disk {
    Node,
    Images,
    Containers,
}

fn disk_of(signal: Signal) -> Option<Disk> {
    match (signal, Resource::of(signal)) {
        (_, Resource::Memory | Resource::Pids) => None,
        (Signal::NodeFsAvailable | Signal::NodeFsInodesFree, _) => Some(Disk::Node),
        (Signal::ImageFsAvailable | Signal::ImageFsInodesFree, _) => Some(Disk::Images),
        _ => Some(Disk::Containers),
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::decide::threshold::Level;

    const ALL: [DiskLayout; 3] =
        [DiskLayout::Single, DiskLayout::DedicatedImageFs, DiskLayout::Split];

    // behaviour: EVI-9
    #[test]
    fn layout_follows_from_the_devices() {
        let rows = [
            ([1, 1, 1], DiskLayout::Single),
            ([1, 2, 2], DiskLayout::DedicatedImageFs),
            ([1, 2, 1], DiskLayout::Split),
            ([1, 1, 2], DiskLayout::Split),
        ];
        for ([root, images, containers], expected) in rows {
            assert_eq!(DiskLayout::of(Devices { root, images, containers }), expected);
        }
    }

    fn threshold(signal: Signal, percent: f32, grace: u64) -> Threshold {
        Threshold {
            signal,
            level: Level::Share(percent),
            grace: Duration::from_secs(grace),
            minimum_reclaim: None,
        }
    }

    // behaviour: EVI-10
    #[test]
    fn thresholds_of_containerfs_are_those_of_its_disk() {
        let configured = [
            threshold(Signal::NodeFsAvailable, 0.1, 0),
            threshold(Signal::ImageFsAvailable, 0.2, 0),
            threshold(Signal::ImageFsInodesFree, 0.3, 0),
            threshold(Signal::ContainerFsAvailable, 0.9, 0),
            threshold(Signal::NodeFsAvailable, 0.4, 60),
            threshold(Signal::ContainerFsInodesFree, 0.9, 60),
        ];
        assert_eq!(
            DiskLayout::replaced(&configured),
            [Signal::ContainerFsAvailable, Signal::ContainerFsInodesFree]
        );
        let of_node =
            [(Signal::ContainerFsAvailable, 0.1, 0), (Signal::ContainerFsAvailable, 0.4, 60)];
        let of_images =
            [(Signal::ContainerFsAvailable, 0.2, 0), (Signal::ContainerFsInodesFree, 0.3, 0)];
        for layout in ALL {
            let expected = match layout {
                DiskLayout::DedicatedImageFs => of_images,
                DiskLayout::Single | DiskLayout::Split => of_node,
            };
            let all = layout.with_container_fs(&configured);
            assert!(all.is_sorted_by_key(|one| !one.is_hard()), "hard ones come first");
            assert_eq!(all.len(), 6, "{layout:?}");
            for (signal, share, grace) in expected {
                assert!(all.contains(&threshold(signal, share, grace)), "{layout:?} {signal}");
            }
        }
    }

    fn letters(flags: [(bool, &str); 3]) -> String {
        flags.iter().filter(|(is_on, _)| *is_on).map(|(_, letter)| *letter).collect()
    }

    // behaviour: EVI-11, EVI-12
    #[test]
    fn layout_decides_what_counts_and_what_is_reclaimed() {
        // signal; counted parts (rootfs, logs, volumes) and reclaim (containers, images) of each layout
        let rows = [
            ("memory.available", ["", "", ""], ["", "", ""]),
            ("allocatableMemory.available", ["", "", ""], ["", "", ""]),
            ("pid.available", ["", "", ""], ["", "", ""]),
            ("nodefs.available", ["rlv", "lv", "rlv"], ["ci", "", "c"]),
            ("nodefs.inodesFree", ["rlv", "lv", "rlv"], ["ci", "", "c"]),
            ("imagefs.available", ["rlv", "r", ""], ["ci", "ci", "i"]),
            ("imagefs.inodesFree", ["rlv", "r", ""], ["ci", "ci", "i"]),
            ("containerfs.available", ["rlv", "r", "rlv"], ["ci", "ci", "c"]),
            ("containerfs.inodesFree", ["rlv", "r", "rlv"], ["ci", "ci", "c"]),
        ];
        for (signal, counted, reclaimed) in rows {
            let signal: Signal = signal.parse().unwrap();
            for (index, layout) in ALL.into_iter().enumerate() {
                let CountedParts { rootfs, logs, volumes } = layout.counted(signal);
                let found = letters([(rootfs, "r"), (logs, "l"), (volumes, "v")]);
                assert_eq!(found, counted[index], "{signal} {layout:?}");
                let reclaim = layout.reclaim(signal);
                let found =
                    letters([(reclaim.containers, "c"), (reclaim.images, "i"), (false, "")]);
                assert_eq!(found, reclaimed[index], "{signal} {layout:?}");
                assert_eq!(reclaim.is_any(), !reclaimed[index].is_empty());
            }
        }
        assert_eq!(ALL.map(DiskLayout::limits_count_rootfs), [true, false, false]);
    }
}
