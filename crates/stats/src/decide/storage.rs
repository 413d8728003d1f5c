//! The storage that a pod uses. No file counts twice: logs of containers lie in directories of their own below the pod's
//! log directory, of which only plain files count.

use jiff::Timestamp;
use model::ports::disk::{DiskSpace, FileUsage, ListedUsage};
use model::stats::{ContainerStats, FsStats, VolumeStats};

/// What the pod uses beside its containers and volumes.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PodFiles {
    /// The directory of its logs; `None` if it does not exist or cannot be read.
    pub logs: Option<ListedUsage>,
    /// Its managed hosts file; `None` without one.
    pub etc_hosts: Option<FileUsage>,
}

/// The volumes of a pod, as they were last measured.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PodVolumes {
    /// Volumes on the node's disk, which count as ephemeral storage.
    pub ephemeral: Vec<VolumeStats>,
    /// All others.
    pub others: Vec<VolumeStats>,
}

/// The space of a file system without a part that is used.
pub fn of_space(time: Timestamp, space: &DiskSpace) -> FsStats {
    let inodes = (space.inodes > 0).then_some((space.inodes, space.inodes_free));
    FsStats {
        time,
        available_bytes: Some(space.available),
        capacity_bytes: Some(space.capacity),
        inodes: inodes.map(|(all, _)| all),
        inodes_free: inodes.map(|(_, free)| free),
        ..FsStats::default()
    }
}

/// A whole file system.
pub fn whole(time: Timestamp, space: &DiskSpace) -> FsStats {
    FsStats {
        used_bytes: Some(space.capacity.saturating_sub(space.free)),
        inodes_used: (space.inodes > 0).then(|| space.inodes.saturating_sub(space.inodes_free)),
        ..of_space(time, space)
    }
}

/// Files on a file system.
pub fn files(time: Timestamp, space: &DiskSpace, usage: FileUsage) -> FsStats {
    FsStats {
        used_bytes: Some(usage.bytes),
        inodes_used: Some(usage.inodes),
        ..of_space(time, space)
    }
}

/// All that counts as ephemeral storage of a pod: writable layers, logs, volumes on the node's disk, the hosts file.
pub fn ephemeral(
    node: FsStats,
    containers: &[ContainerStats],
    volumes: &PodVolumes,
    own: &PodFiles,
) -> FsStats {
    let mut sum = FsStats { used_bytes: None, inodes_used: None, ..node };
    for container in containers {
        for part in [&container.rootfs, &container.logs].into_iter().flatten() {
            add(&mut sum, part.used_bytes, part.inodes_used);
            sum.time = sum.time.max(part.time);
        }
    }
    for volume in &volumes.ephemeral {
        add(&mut sum, volume.fs.used_bytes, volume.fs.inodes_used);
        sum.time = sum.time.max(volume.fs.time);
    }
    let logs = own.logs.as_ref().map(|logs| logs.files);
    for usage in [logs, own.etc_hosts].into_iter().flatten() {
        add(&mut sum, Some(usage.bytes), Some(usage.inodes));
    }
    sum
}

fn add(sum: &mut FsStats, bytes: Option<u64>, inodes: Option<u64>) {
    let plus = |one: Option<u64>, other: Option<u64>| match (one, other) {
        (None, None) => None,
        _ => Some(one.unwrap_or_default().saturating_add(other.unwrap_or_default())),
    };
    sum.used_bytes = plus(sum.used_bytes, bytes);
    sum.inodes_used = plus(sum.inodes_used, inodes);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn used(bytes: u64, inodes: u64) -> FsStats {
        FsStats { used_bytes: Some(bytes), inodes_used: Some(inodes), ..FsStats::default() }
    }

    fn volume(bytes: u64) -> VolumeStats {
        VolumeStats { fs: used(bytes, 1), name: "v".to_owned(), pvc_ref: None }
    }

    // behaviour: STA-6
    #[test]
    fn each_part_of_ephemeral_storage_counts_once() {
        let container = ContainerStats {
            rootfs: Some(used(1, 1)),
            logs: Some(used(10, 1)),
            ..ContainerStats::default()
        };
        let without_layer =
            ContainerStats { logs: Some(used(100, 1)), ..ContainerStats::default() };
        let volumes = PodVolumes { ephemeral: vec![volume(1000)], others: vec![volume(7)] };
        let files = FileUsage { bytes: 10_000, inodes: 1 };
        let container_logs = [("main".to_owned(), FileUsage { bytes: 110, inodes: 2 })].into();
        let own = PodFiles {
            logs: Some(ListedUsage { files, directories: container_logs }),
            etc_hosts: Some(FileUsage { bytes: 100_000, inodes: 1 }),
        };
        let node = FsStats { used_bytes: Some(9), capacity_bytes: Some(5), ..FsStats::default() };
        let found = ephemeral(node, &[container, without_layer], &volumes, &own);
        assert_eq!((found.used_bytes, found.inodes_used), (Some(111_111), Some(6)));
        assert_eq!(found.capacity_bytes, Some(5));
        let nothing = ephemeral(node, &[], &PodVolumes::default(), &PodFiles::default());
        assert_eq!(nothing.used_bytes, None, "nothing was measured");
    }

    #[test]
    fn file_system_without_a_number_of_inodes_has_none() {
        let space = DiskSpace { capacity: 100, available: 40, free: 50, ..DiskSpace::default() };
        let found = whole(Timestamp::UNIX_EPOCH, &space);
        assert_eq!((found.used_bytes, found.inodes, found.inodes_used), (Some(50), None, None));
        let space = DiskSpace { inodes: 10, inodes_free: 4, ..space };
        assert_eq!(whole(Timestamp::UNIX_EPOCH, &space).inodes_used, Some(6));
    }
}
