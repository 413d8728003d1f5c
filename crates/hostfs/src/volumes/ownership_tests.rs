use std::fs;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, symlink};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::fs::{CWD, RenameFlags, ResolveFlags, mkdirat, openat2, renameat_with};
use rustix::process::geteuid;

use super::*;
use crate::volumes::place::LISTED;

const GROUP: Ownership = Ownership { group: 2000, read_only: false, only_on_root_mismatch: false };

fn opened(path: &Path) -> OwnedFd {
    rustix::fs::open(path, LISTED, Mode::empty()).unwrap()
}

fn found(path: &Path) -> (u32, u32) {
    let found = fs::symlink_metadata(path).unwrap();
    (found.gid(), found.permissions().mode() & 0o7777)
}

// behaviour: VOL-56
#[test]
fn file_replaced_by_a_link_does_not_change_its_target() {
    if !geteuid().is_root() {
        return;
    }
    let root = tempfile::tempdir().unwrap();
    let (volume, outside) = (root.path().join("volume"), root.path().join("outside"));
    fs::create_dir(&volume).unwrap();
    fs::write(&outside, "").unwrap();
    fs::set_permissions(&outside, fs::Permissions::from_mode(0o600)).unwrap();
    symlink(&outside, volume.join("link")).unwrap();
    fs::write(volume.join("file"), "").unwrap();
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !stop.load(Ordering::Relaxed) {
                let (one, other) = (volume.join("link"), volume.join("file"));
                renameat_with(CWD, one, CWD, other, RenameFlags::EXCHANGE).unwrap();
            }
        });
        for number in 0..1000 {
            let ownership = Ownership { group: 2000 + number % 2, ..GROUP };
            apply(opened(&volume), ownership, &|_| {}).unwrap();
        }
        stop.store(true, Ordering::Relaxed);
    });
    assert_eq!(found(&outside), (0, 0o600));
}

#[test]
fn large_tree_is_changed_by_several_threads_to_the_last_file() {
    if !geteuid().is_root() {
        return;
    }
    let root = tempfile::tempdir().unwrap();
    // More subdirectories than are kept in memory.
    for number in 0..1300 {
        let directory = root.path().join(format!("wide/{number}"));
        fs::create_dir_all(&directory).unwrap();
        fs::write(directory.join("file"), "").unwrap();
    }
    let counts = std::sync::Mutex::new(Vec::new());
    let progress = |files| counts.lock().unwrap().push(files);
    apply(opened(root.path()), GROUP, &progress).unwrap();
    for number in 0..1300 {
        let directory = root.path().join(format!("wide/{number}"));
        assert_eq!(found(&directory), (2000, 0o2775), "{number}");
        assert_eq!(found(&directory.join("file")), (2000, 0o664), "{number}");
    }
    let mut counts = counts.into_inner().unwrap();
    counts.sort_unstable();
    assert_eq!(counts, [1000, 2000]);
}

#[test]
fn deep_tree_is_changed_with_few_open_files() {
    const DEPTH: usize = 3000;
    if !geteuid().is_root() {
        return;
    }
    let root = tempfile::tempdir().unwrap();
    let mut here = opened(root.path());
    for _ in 0..DEPTH {
        mkdirat(&here, "d", Mode::from_raw_mode(0o700)).unwrap();
        here = openat2(&here, "d", LISTED, Mode::empty(), ResolveFlags::BENEATH).unwrap();
    }
    apply(opened(root.path()), GROUP, &|_| {}).unwrap();
    let last = fstat(&here).unwrap();
    crate::tree::remove_tree(opened(root.path()), "d".as_ref()).unwrap();
    assert_eq!((last.st_gid, last.st_mode & 0o7777), (2000, 0o2770));
}

// behaviour: VOL-57
#[test]
fn only_missing_bits_and_groups_are_changed() {
    let rows = [
        // Type and mode, group, read-only: whether the group changes, and the new mode.
        (FileType::RegularFile, 0o600, 0, false, Some((true, Some(0o660)))),
        (FileType::RegularFile, 0o600, 0, true, Some((true, Some(0o640)))),
        (FileType::RegularFile, 0o664, 2000, false, None),
        (FileType::RegularFile, 0o664, 0, false, Some((true, None))),
        // Changing the group clears the bit.
        (FileType::RegularFile, 0o4775, 0, false, Some((true, Some(0o4775)))),
        (FileType::Directory, 0o755, 2000, true, Some((false, Some(0o2755)))),
        (FileType::Directory, 0o2775, 2000, false, None),
        (FileType::Symlink, 0o777, 0, false, Some((true, None))),
        (FileType::Symlink, 0o777, 2000, false, None),
    ];
    let root = tempfile::tempdir().unwrap();
    for (kind, mode, group, read_only, expected) in rows {
        let mut stat = fstat(opened(root.path())).unwrap();
        (stat.st_mode, stat.st_gid) = (kind.as_raw_mode() | mode, group);
        let change = Change::to(&stat, Ownership { read_only, ..GROUP });
        let change = change.map(|change| (change.group, change.mode));
        assert_eq!(change, expected, "{kind:?} {mode:o} {group} {read_only}");
    }
}
