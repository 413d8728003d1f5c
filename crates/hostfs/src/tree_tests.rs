use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

use rustix::fs::{mkdirat, open};

use super::*;
use crate::test_mount::Mount;

fn opened(path: &Path) -> OwnedFd {
    open(path, OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty()).unwrap()
}

fn remove(root: &Path, name: &str) -> io::Result<()> {
    remove_tree(opened(root), name.as_ref())
}

#[test]
fn tree_is_removed_and_targets_of_its_links_stay() {
    let place = tempfile::tempdir().unwrap();
    let (pods, outside) = (place.path().join("pods"), place.path().join("outside"));
    fs::create_dir_all(pods.join("uid/volumes/data")).unwrap();
    fs::create_dir(&outside).unwrap();
    fs::write(outside.join("file"), "kept").unwrap();
    symlink(&outside, pods.join("uid/volumes/directory")).unwrap();
    symlink(outside.join("file"), pods.join("uid/file")).unwrap();
    symlink("../..", pods.join("uid/volumes/data/up")).unwrap();
    symlink("nowhere", pods.join("uid/dangling")).unwrap();
    // Neither is UTF-8.
    let not_text = OsStr::from_bytes(b"\xff\xfe");
    fs::create_dir(pods.join("uid").join(not_text)).unwrap();
    fs::write(pods.join("uid").join(not_text).join(OsStr::from_bytes(b"\x80")), "").unwrap();
    remove(&pods, "uid").unwrap();
    assert!(fs::read_dir(&pods).unwrap().next().is_none());
    assert_eq!(fs::read(outside.join("file")).unwrap(), b"kept");
}

#[test]
fn link_in_place_of_the_tree_is_not_followed() {
    let place = tempfile::tempdir().unwrap();
    fs::create_dir_all(place.path().join("outside/below")).unwrap();
    symlink("outside", place.path().join("uid")).unwrap();
    remove(place.path(), "uid").unwrap_err();
    assert!(place.path().join("outside/below").exists());
    assert!(place.path().join("uid").is_symlink());
}

#[test]
fn deep_tree_is_removed_with_few_open_files() {
    const DEPTH: usize = 5000;
    let place = tempfile::tempdir().unwrap();
    let mut here = opened(place.path());
    for _ in 0..DEPTH {
        mkdirat(&here, "d", Mode::from_raw_mode(0o700)).unwrap();
        here = openat2(&here, "d", DIRECTORY, Mode::empty(), ResolveFlags::BENEATH).unwrap();
    }
    drop(here);
    remove(place.path(), "d").unwrap();
    assert!(fs::read_dir(place.path()).unwrap().next().is_none());
}

#[test]
fn wide_tree_is_removed() {
    let place = tempfile::tempdir().unwrap();
    for number in 0..MOST_NAMES + 100 {
        fs::create_dir_all(place.path().join(format!("uid/{number}"))).unwrap();
        fs::write(place.path().join(format!("uid/file-{number}")), "").unwrap();
    }
    remove(place.path(), "uid").unwrap();
    assert!(!place.path().join("uid").exists());
}

#[test]
fn mount_inside_a_tree_keeps_its_data() {
    let place = tempfile::tempdir().unwrap();
    let (uid, kept) = (place.path().join("uid"), place.path().join("kept"));
    for below in ["a/memory", "b/bound"] {
        fs::create_dir_all(uid.join(below)).unwrap();
    }
    fs::write(uid.join("file"), "").unwrap();
    fs::create_dir(&kept).unwrap();
    fs::write(kept.join("data"), "bound").unwrap();
    let Some(memory) = Mount::tmpfs(&uid.join("a/memory"), "64k") else { return };
    let (directory, file) = (uid.join("b/bound"), uid.join("file"));
    let bound = Mount::bind(&kept, &directory).unwrap();
    let bound_file = Mount::bind(&kept.join("data"), &file).unwrap();
    fs::write(uid.join("a/memory/data"), "in memory").unwrap();
    let refused = |mount: Mount, data: &Path, content: &str| {
        let error = remove(place.path(), "uid").unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::ResourceBusy, "{error}");
        assert_eq!(fs::read_to_string(data).unwrap(), content);
        drop(mount);
    };
    // In the possible orders of the walk.
    refused(bound_file, &file, "bound");
    refused(memory, &uid.join("a/memory/data"), "in memory");
    refused(bound, &directory.join("data"), "bound");
    remove(place.path(), "uid").unwrap();
    assert!(!uid.exists());
    assert_eq!(fs::read(kept.join("data")).unwrap(), b"bound");
}

#[test]
fn mounted_tree_stays() {
    let place = tempfile::tempdir().unwrap();
    let uid = place.path().join("uid");
    fs::create_dir(&uid).unwrap();
    let Some(_mount) = Mount::tmpfs(&uid, "64k") else { return };
    fs::write(uid.join("data"), "kept").unwrap();
    let error = remove(place.path(), "uid").unwrap_err();
    assert_eq!(error.to_string(), "something is mounted there");
    assert_eq!(fs::read(uid.join("data")).unwrap(), b"kept");
}

#[test]
fn error_names_the_entry_that_cannot_be_removed() {
    let place = tempfile::tempdir().unwrap();
    let main = place.path().join("uid/main");
    fs::create_dir_all(&main).unwrap();
    fs::write(main.join("0.log"), "").unwrap();
    fs::write(place.path().join("other"), "").unwrap();
    let Some(_mount) = Mount::bind(&place.path().join("other"), &main.join("0.log")) else {
        return;
    };
    let error = remove(place.path(), "uid").unwrap_err();
    assert_eq!(error.to_string(), "main/0.log: it is mounted or in use");
}
