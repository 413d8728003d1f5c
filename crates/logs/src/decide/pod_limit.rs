//! The common limit of all logs of a pod.
//!
//! Half of it is for live files, shared evenly by the running containers; the rest is for rotated files, of
//! which the oldest are deleted first.

use model::rotated_log::RotatedName;

/// The minimum size at which a live file is rotated, for any number of containers.
pub const SMALLEST_LIVE: u64 = 64 << 10;

/// The files of a container of the pod.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ContainerFiles {
    /// The size of the live file of the running instance; `None` if none runs.
    pub live: Option<u64>,
    /// Its newest rotated file, which stays.
    pub newest: u64,
    /// Rotated files that may be deleted.
    pub rotated: Vec<OldFile>,
    /// The size of files that stay: last logs of earlier instances, and other files.
    pub fixed: u64,
}

/// A rotated file that may be deleted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OldFile {
    /// Its name in the directory.
    pub file: String,
    /// Its rotation time.
    pub name: RotatedName,
    /// Its size in bytes.
    pub size: u64,
}

/// A rotated file to be deleted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Excess {
    /// The container, by its position.
    pub container: usize,
    /// The file.
    pub file: OldFile,
}

/// The size limit of live files of the pod.
pub fn live_limit(containers: &[ContainerFiles], limit: u64, max_size: u64) -> u64 {
    let running = containers.iter().filter(|one| one.live.is_some()).count() as u64;
    let fixed: u64 = containers.iter().map(|one| one.fixed).sum();
    let share = limit.saturating_sub(fixed) / 2 / running.max(1);
    share.max(SMALLEST_LIVE).min(max_size)
}

/// The rotated files to delete, oldest of all containers first, so that the limit holds when live files grow up
/// to theirs.
pub fn excess(containers: &[ContainerFiles], limit: u64, max_size: u64) -> Vec<Excess> {
    let live_limit = live_limit(containers, limit, max_size);
    let stays = |one: &ContainerFiles| {
        let live = one.live.map_or(0, |live| live.max(live_limit));
        live + one.newest + one.fixed
    };
    let room = limit.saturating_sub(containers.iter().map(stays).sum());
    let files = containers.iter().enumerate().flat_map(|(container, one)| {
        one.rotated.iter().map(move |file| Excess { container, file: file.clone() })
    });
    let mut files: Vec<Excess> = files.collect();
    files.sort_by_key(|one| one.file.name);
    let mut taken: u64 = files.iter().map(|one| one.file.size).sum();
    let goes = files.into_iter().take_while(|one| {
        let is_over = taken > room;
        taken -= one.file.size;
        is_over
    });
    goes.collect()
}

#[cfg(test)]
mod tests {
    use std::slice;

    use jiff::ToSpan as _;
    use proptest::prelude::*;

    use super::*;

    const MIB: u64 = 1 << 20;

    fn old(second: i64, size: u64) -> OldFile {
        let time = jiff::civil::date(2026, 11, 18).at(0, 0, 0, 0).saturating_add(second.seconds());
        let name = RotatedName::plain(time);
        OldFile { file: name.file_name("0.log"), name, size }
    }

    // behaviour: ROT-12
    #[test]
    fn live_files_share_half_of_the_limit() {
        let running = ContainerFiles { live: Some(0), ..ContainerFiles::default() };
        let ended = ContainerFiles { fixed: 4 * MIB, ..ContainerFiles::default() };
        let rows: [(&[ContainerFiles], u64, u64); 5] = [
            (slice::from_ref(&running), 20 * MIB, 10 * MIB),
            (slice::from_ref(&running), 8 * MIB, 4 * MIB),
            (&[running.clone(), running.clone()], 8 * MIB, 2 * MIB),
            (&[running.clone(), ended.clone()], 8 * MIB, 2 * MIB),
            (&[running.clone(), ended], MIB, SMALLEST_LIVE),
        ];
        for (containers, limit, expected) in rows {
            assert_eq!(live_limit(containers, limit, 10 * MIB), expected, "{containers:?} {limit}");
        }
    }

    // behaviour: ROT-12
    #[test]
    fn oldest_rotated_files_of_all_containers_are_deleted_first() {
        let first = ContainerFiles {
            live: Some(MIB),
            newest: MIB,
            rotated: vec![old(1, MIB), old(4, MIB)],
            fixed: 0,
        };
        let second =
            ContainerFiles { live: None, newest: 0, rotated: vec![old(2, MIB)], fixed: MIB };
        let both = [first, second];
        // 1 MiB is fixed, 1 MiB the newest file, and the live file may take half of the rest.
        let rows: [(u64, &[i64]); 4] = [(100, &[]), (9, &[]), (7, &[1]), (3, &[1, 2, 4])];
        for (limit, expected) in rows {
            let excess = excess(&both, limit * MIB, 10 * MIB);
            let names: Vec<_> = excess.into_iter().map(|one| one.file).collect();
            let expected: Vec<_> = expected.iter().map(|second| old(*second, MIB)).collect();
            assert_eq!(names, expected, "{limit}");
        }
    }

    proptest! {
        #[test]
        fn limit_is_kept_unless_only_files_remain_that_stay(
            containers in prop::collection::vec(
                (prop::option::of(0_u64..5_000_000), 0_u64..2_000_000,
                 prop::collection::vec((0_i64..1000, 1_u64..5_000_000), 0..6), 0_u64..3_000_000),
                1..5,
            ),
            limit in 1_000_000_u64..50_000_000,
        ) {
            let all: Vec<ContainerFiles> = containers.into_iter().map(|(live, newest, rotated, fixed)| {
                let rotated = rotated.into_iter().map(|(second, size)| old(second, size)).collect();
                ContainerFiles { live, newest, rotated, fixed }
            }).collect();
            let gone = excess(&all, limit, 10 * MIB);
            let rotated: u64 = all.iter().flat_map(|one| &one.rotated).map(|file| file.size).sum();
            let freed: u64 = gone.iter().map(|one| one.file.size).sum();
            let files = all.iter().map(|one| one.rotated.len()).sum::<usize>();
            let live = live_limit(&all, limit, 10 * MIB);
            let stays: u64 =
                all.iter().map(|one| one.live.map_or(0, |size| size.max(live)) + one.newest + one.fixed).sum();
            prop_assert!(gone.len() == files || stays + rotated - freed <= limit);
            // One file fewer would not have been enough.
            if let Some(last) = gone.last() {
                prop_assert!(stays + rotated - freed + last.file.size > limit);
            }
        }
    }
}
