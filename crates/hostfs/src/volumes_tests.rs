use std::fs;
use std::os::unix::fs::{MetadataExt as _, symlink};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use rustix::fs::{CWD, RenameFlags, renameat_with};
use rustix::process::geteuid;
use tempfile::TempDir;

use super::*;
use crate::test_mount::Mount;

fn place(root: &TempDir, below: &str) -> Place {
    Place { root: root.path().to_owned(), below: below.into() }
}

fn id(path: &Path) -> (u64, u64) {
    let found = fs::metadata(path).unwrap();
    (found.dev(), found.ino())
}

/// Exchanges two entries until the test is over.
fn exchange(one: &Path, other: &Path, stop: &AtomicBool) {
    while !stop.load(Ordering::Relaxed) {
        renameat_with(CWD, one, CWD, other, RenameFlags::EXCHANGE).unwrap();
    }
}

// behaviour: VOL-50
#[test]
fn subpath_replaced_by_a_link_during_its_mount_stays_in_the_volume() {
    const BINDS: usize = 1000;
    if !geteuid().is_root() {
        return;
    }
    let root = tempfile::tempdir().unwrap();
    let (volume, outside) = (root.path().join("volume"), root.path().join("outside"));
    for directory in [volume.join("a/b"), volume.join("a/c"), outside.join("b")] {
        fs::create_dir_all(directory).unwrap();
    }
    symlink(&outside, volume.join("link")).unwrap();
    symlink(&outside, volume.join("a/link")).unwrap();
    let inside = ["a", "a/b", "a/c"].map(|path| id(&volume.join(path)));
    let target = place(&root, "pod/volume-subpaths/data/main/0");
    let (stop, mut mounted, mut refused) = (AtomicBool::new(false), 0, 0);
    let mut foreign = 0;
    std::thread::scope(|scope| {
        scope.spawn(|| exchange(&volume.join("a"), &volume.join("link"), &stop));
        scope.spawn(|| {
            // The first thread may have replaced the directory by the link.
            let ours =
                rustix::fs::open(volume.join("a/c/.."), place::LISTED, rustix::fs::Mode::empty());
            while !stop.load(Ordering::Relaxed) {
                if let Ok(ours) = &ours {
                    renameat_with(ours, "b", ours, "link", RenameFlags::EXCHANGE).unwrap();
                }
            }
        });
        // Runs more rounds while the threads that exchange entries are not scheduled.
        let end = Instant::now() + Duration::from_secs(30);
        for number in 0.. {
            let is_done = number >= BINDS && mounted > 0 && refused > 0;
            if is_done || Instant::now() > end {
                break;
            }
            let path = if number % 2 == 0 { "a" } else { "a/b" };
            let (volume, path, target) = (volume.clone(), path.into(), target.clone());
            match subpath::bind(&Subpath { volume, path, target: target.clone() }) {
                Ok(()) => {
                    mounted += 1;
                    let found = fs::symlink_metadata(target.path()).unwrap();
                    unmount::end(&target, UnmountFlags::empty()).unwrap();
                    foreign += usize::from(!inside.contains(&(found.dev(), found.ino())));
                }
                Err(_) => refused += 1,
            }
        }
        stop.store(true, Ordering::Relaxed);
    });
    assert_eq!(foreign, 0, "something outside the volume was mounted");
    assert!(mounted > 0 && refused > 0, "{mounted} were mounted, {refused} refused");
    assert!(fs::read_dir(outside.join("b")).unwrap().next().is_none());
}

// behaviour: VOL-51
#[test]
fn unmount_does_not_follow_a_link_to_a_mount_elsewhere() {
    let root = tempfile::tempdir().unwrap();
    let outside = root.path().join("outside");
    fs::create_dir_all(root.path().join("pods/uid/volumes")).unwrap();
    fs::create_dir(&outside).unwrap();
    let Some(_mount) = Mount::tmpfs(&outside, "64k") else { return };
    fs::write(outside.join("file"), "kept").unwrap();
    symlink(&outside, root.path().join("pods/uid/volumes/data")).unwrap();
    symlink(root.path(), root.path().join("pods/uid/link")).unwrap();
    unmount::end(&place(&root, "pods/uid/volumes/data"), UnmountFlags::empty()).unwrap();
    unmount::end(&place(&root, "pods/uid/link/outside"), UnmountFlags::empty()).unwrap_err();
    assert_eq!(fs::read(outside.join("file")).unwrap(), b"kept");
}

// behaviour: VOL-52
#[test]
fn busy_mount_is_named_and_stays() {
    let root = tempfile::tempdir().unwrap();
    let data = place(&root, "pods/data");
    fs::create_dir_all(data.path()).unwrap();
    let Some(_mount) = Mount::tmpfs(&data.path(), "64k") else { return };
    let file = fs::File::create(data.path().join("file")).unwrap();
    let error = unmount::end(&data, UnmountFlags::empty()).unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::ResourceBusy);
    assert!(error.to_string().starts_with("pods/data: "), "{error}");
    drop(file);
}

#[test]
fn read_only_bind_mount_keeps_the_options_of_its_source() {
    let root = tempfile::tempdir().unwrap();
    let (source, target) = (root.path().join("source"), place(&root, "pods/data"));
    fs::create_dir(&source).unwrap();
    let Some(_mount) = Mount::tmpfs(&source, "64k,nosuid,nodev,noexec") else { return };
    // As after a crash between the two steps.
    bind::bind(&source, &target, false).unwrap();
    bind::bind(&source, &target, true).unwrap();
    let found = mounts(&target.path()).unwrap();
    unmount::end(&target, UnmountFlags::empty()).unwrap();
    assert!(found[0].options.starts_with("ro,nosuid,nodev,noexec"), "{found:?}");
}

#[test]
fn mounts_are_listed_by_the_requested_path() {
    let root = tempfile::tempdir().unwrap();
    fs::create_dir_all(root.path().join("real/pods/data")).unwrap();
    symlink("real", root.path().join("link")).unwrap();
    let link = root.path().join("link/pods");
    let Some(_mount) = Mount::tmpfs(&root.path().join("real/pods/data"), "64k") else { return };
    let paths = |directory: &Path| -> Vec<PathBuf> {
        mounts(directory).unwrap().into_iter().map(|mount| mount.path).collect()
    };
    assert_eq!(paths(&link), [link.join("data")]);
    assert_eq!(paths(&link.join("data")), [link.join("data")]);
    let through = Place { root: link, below: "data".into() };
    assert!(memory_mount::mount_tmpfs(&through, None, true).is_ok());
    assert_eq!(paths(root.path()).len(), 1, "a second one was mounted");
}

#[tokio::test]
async fn empty_disk_is_formatted_once_and_mounted() {
    let root = tempfile::tempdir().unwrap();
    let Some(disk) = Disk::attached(&root) else { return };
    let volumes = Host::default().volumes();
    let data = place(&root, "pods/data");
    volumes.make_directory(&data, 0o755).await.unwrap();
    let device = |read_only| FileSystem::Device {
        device: disk.device.clone(),
        fs_type: "ext4".to_owned(),
        read_only,
        options: Vec::new(),
    };
    volumes.mount(&data, &device(true)).await.unwrap_err();
    for _ in 0..2 {
        volumes.mount(&data, &device(false)).await.unwrap();
        volumes.mount(&data, &device(false)).await.unwrap();
        fs::write(data.path().join("file"), "kept").unwrap();
        volumes.unmount(&data).await.unwrap();
    }
    volumes.mount(&data, &device(true)).await.unwrap();
    assert_eq!(fs::read(data.path().join("file")).unwrap(), b"kept");
    let found = volumes.mounts(&data.path()).await.unwrap();
    volumes.unmount(&data).await.unwrap();
    assert!(found[0].fs_type == "ext4" && found[0].options.starts_with("ro,"), "{found:?}");
}

// behaviour: VOL-58
#[tokio::test]
async fn loop_device_that_upstream_attached_to_a_map_is_detached() {
    if !geteuid().is_root() {
        return;
    }
    let root = tempfile::tempdir().unwrap();
    let Some(disk) = Disk::attached(&root) else { return };
    let volumes = Host::default().volumes();
    let places = DevicePlaces {
        map: place(&root, "plugins/pv/u1"),
        link: place(&root, "pods/u1/volumeDevices/plugin/pv"),
    };
    volumes.map_device(&disk.device, &places).await.unwrap();
    // Upstream keeps a device open with a loop device.
    let lock = Disk::of(&places.map.path()).unwrap();
    let attached = || device::attached_loops(&places.map).unwrap();
    assert_eq!(attached(), std::slice::from_ref(&lock.device));
    volumes.unmap_device(&places).await.unwrap();
    assert_eq!(attached(), [""; 0].map(PathBuf::from));
    assert!(!places.link.path().is_symlink() && !places.map.path().exists());
    // It is detached already.
    std::mem::forget(lock);
}

/// A file with a disk image.
struct Disk {
    device: PathBuf,
}

impl Disk {
    /// `None` without root, or without loop devices.
    fn attached(root: &TempDir) -> Option<Self> {
        let file = root.path().join("disk");
        fs::File::create(&file).unwrap().set_len(16 << 20).unwrap();
        Self::of(&file)
    }

    fn of(file: &Path) -> Option<Self> {
        let attached = std::process::Command::new("losetup")
            .args(["--find", "--show"])
            .arg(file)
            .output()
            .ok()?;
        let device = String::from_utf8(attached.stdout).unwrap();
        attached.status.success().then(|| Self { device: device.trim().into() })
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        let ended =
            std::process::Command::new("losetup").arg("--detach").arg(&self.device).status();
        assert!(ended.is_ok_and(|status| status.success()), "detach {}", self.device.display());
    }
}
