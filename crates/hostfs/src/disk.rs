//! Space on file systems of the host, and what files take of it.

mod listed;
mod walk;

use std::io;
use std::path::Path;
use std::time::Duration;

use async_trait::async_trait;
use blocking::{Call, Pool, Size};
use model::ports::disk::{DiskSpace, Disks, FileUsage, ListedUsage, WalkBudget};
use model::ports::files::FileError;
use model::volume::Place;
use rustix::fs::{AtFlags, CWD, stat, statat, statvfs};

use crate::{Host, calls};

/// The unit in which the kernel counts allocated space.
const BLOCK: u64 = 512;

/// The threads for walks through volumes: no other operation waits for one.
const WALKS: Size = Size { threads: 1, spare: 2 };

/// The memory for names and inode numbers that a walk may take: pods decide how many there are.
const MOST_KEPT: usize = 16 << 20;

/// How much longer than its budget a walk may take, for a single slow directory.
const GRACE: Duration = Duration::from_mins(1);

/// The threads for walks.
#[derive(Debug, Clone)]
pub(crate) struct Walks(pub(crate) Pool);

impl Default for Walks {
    fn default() -> Self {
        Self(Pool::new("volume walks", WALKS))
    }
}

/// The threads that measure the file systems of volumes. A server that is gone blocks them, which must not stop the
/// removal of its pod.
const VOLUME_SPACES: Size = Size { threads: 1, spare: 15 };

/// The timeout of such a measurement.
const VOLUME_SPACE: Duration = Duration::from_secs(10);

/// The threads that measure the file systems of volumes.
#[derive(Debug, Clone)]
pub(crate) struct VolumeSpaces(pub(crate) Pool);

impl Default for VolumeSpaces {
    fn default() -> Self {
        Self(Pool::new("volume space", VOLUME_SPACES))
    }
}

/// The space of a file system.
fn space(path: &Path) -> io::Result<DiskSpace> {
    let (found, device) = (statvfs(path)?, stat(path)?.st_dev);
    let bytes = |blocks: u64| found.f_frsize.saturating_mul(blocks);
    Ok(DiskSpace {
        capacity: bytes(found.f_blocks),
        available: bytes(found.f_bavail),
        free: bytes(found.f_bfree),
        inodes: found.f_files,
        inodes_free: found.f_ffree,
        device,
    })
}

/// What one inode takes.
fn taken(found: &rustix::fs::Stat) -> FileUsage {
    let blocks = u64::try_from(found.st_blocks).unwrap_or(0);
    FileUsage { bytes: blocks.saturating_mul(BLOCK), inodes: 1 }
}

#[async_trait]
impl Disks for Host {
    async fn space(&self, path: &Path) -> Result<DiskSpace, FileError> {
        self.call("measure the disk of", path, space).await
    }

    async fn volume_space(&self, path: &Path) -> Result<DiskSpace, FileError> {
        let operation = "measure the disk of";
        let call = Call { operation, subject: path, limit: VOLUME_SPACE };
        calls::within(&self.volume_spaces.0, call, space).await
    }

    async fn listed_usage(&self, directory: &Path) -> Result<ListedUsage, FileError> {
        self.call("measure the files of", directory, listed::usage).await
    }

    async fn file_usage(&self, file: &Path) -> Result<FileUsage, FileError> {
        let flags = AtFlags::SYMLINK_NOFOLLOW;
        self.call("measure", file, move |file| Ok(taken(&statat(CWD, file, flags)?))).await
    }

    async fn walked_usage(
        &self,
        place: &Place,
        budget: WalkBudget,
    ) -> Result<FileUsage, FileError> {
        let (path, place) = (place.path(), place.clone());
        let call = Call { operation: "walk through", subject: &path, limit: budget.time + GRACE };
        let work = move |_: &Path| walk::usage(&place, budget, MOST_KEPT);
        calls::within(&self.walks.0, call, work).await
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use testkit::contract::disk::disks_contract;

    use super::*;

    const BUDGET: WalkBudget = WalkBudget { entries: 2, time: Duration::from_mins(1) };

    #[tokio::test]
    async fn host_disks_pass_the_contract() {
        let directory = tempfile::tempdir().unwrap();
        let nowhere = directory.path().join("nowhere");
        disks_contract(&Host::default(), directory.path(), &nowhere).await.unwrap();
    }

    #[tokio::test(start_paused = true)]
    async fn hanging_volume_leaves_other_files_of_its_pod_usable() {
        let root = tempfile::tempdir().unwrap();
        let pod = root.path().join("pods/u1");
        fs::create_dir_all(pod.join("volumes")).unwrap();
        let (host, (answer, wait)) = (Host::default(), std::sync::mpsc::channel::<()>());
        let (pool, subject) = (host.volume_space_pool().clone(), pod.join("nfs"));
        let hung = tokio::spawn(async move {
            let call = Call { operation: "measure", subject: &subject, limit: VOLUME_SPACE };
            pool.run(call, move || _ = wait.recv()).await
        });
        tokio::task::yield_now().await;
        tokio::time::advance(VOLUME_SPACE).await;
        hung.await.unwrap().unwrap_err();
        assert_eq!(host.volume_space_pool().stuck(tokio::time::Instant::now()).len(), 1);
        let refused = host.volume_space(&pod.join("volumes")).await.unwrap_err();
        assert!(refused.source.to_string().starts_with("not tried: "), "{refused:?}");
        host.space(&pod).await.unwrap();
        drop(answer);
    }

    #[tokio::test]
    async fn plain_files_of_a_directory_are_measured_one_level_deep() {
        let root = tempfile::tempdir().unwrap();
        let pod = root.path().join("ns_pod_uid");
        fs::create_dir_all(pod.join("main/deeper")).unwrap();
        fs::create_dir(pod.join("idle")).unwrap();
        fs::write(pod.join("extra.txt"), vec![1; 5000]).unwrap();
        fs::write(pod.join("main/0.log"), vec![1; 100_000]).unwrap();
        fs::write(pod.join("main/deeper/no.log"), vec![1; 100_000]).unwrap();
        std::os::unix::fs::symlink("/etc", pod.join("other")).unwrap();
        std::os::unix::fs::symlink("/etc/passwd", pod.join("main/1.log")).unwrap();
        let found = Host::default().listed_usage(&pod).await.unwrap();
        assert_eq!((found.files.inodes, found.files.bytes >= 5000), (1, true));
        let names: Vec<_> = found.directories.keys().map(String::as_str).collect();
        assert_eq!(names, ["idle", "main"]);
        let main = found.directories["main"];
        assert_eq!((main.inodes, (100_000..150_000).contains(&main.bytes)), (1, true), "{main:?}");
        let missing = Host::default().listed_usage(&root.path().join("missing")).await;
        assert!(missing.unwrap_err().is_not_found());
        std::os::unix::fs::symlink(&pod, root.path().join("link")).unwrap();
        Host::default().listed_usage(&root.path().join("link")).await.unwrap_err();
    }

    #[tokio::test]
    async fn walk_counts_blocks_and_inodes_and_hard_links_once() {
        let root = tempfile::tempdir().unwrap();
        let volume = root.path().join("volume");
        fs::create_dir_all(volume.join("a/b")).unwrap();
        fs::write(volume.join("a/file"), vec![1; 100_000]).unwrap();
        fs::hard_link(volume.join("a/file"), volume.join("a/b/same")).unwrap();
        // Holes take no space.
        let sparse = fs::File::create(volume.join("sparse")).unwrap();
        sparse.set_len(1 << 30).unwrap();
        std::os::unix::fs::symlink("/", volume.join("out")).unwrap();
        let place = Place { root: root.path().to_owned(), below: "volume".into() };
        let found = Host::default().walked_usage(&place, BUDGET).await.unwrap();
        // volume, a, b, file, sparse, out.
        assert_eq!(found.inodes, 6);
        assert!((100_000..200_000).contains(&found.bytes), "{found:?}");
    }

    #[tokio::test]
    async fn walk_measures_directories_deeper_than_the_longest_path() {
        let root = tempfile::tempdir().unwrap();
        let mut at =
            rustix::fs::open(root.path(), rustix::fs::OFlags::DIRECTORY, rustix::fs::Mode::empty())
                .unwrap();
        let name = "n".repeat(200);
        for _ in 0..30 {
            rustix::fs::mkdirat(&at, name.as_str(), rustix::fs::Mode::RWXU).unwrap();
            let flags = rustix::fs::OFlags::DIRECTORY;
            at = rustix::fs::openat(&at, name.as_str(), flags, rustix::fs::Mode::empty()).unwrap();
        }
        let place = Place { root: root.path().to_owned(), below: "".into() };
        let found = Host::default().walked_usage(&place, BUDGET).await.unwrap();
        assert_eq!(found.inodes, 31);
    }

    #[test]
    fn walk_ends_when_it_keeps_too_much() {
        let root = tempfile::tempdir().unwrap();
        let place = |below: &str| Place { root: root.path().to_owned(), below: below.into() };
        fs::create_dir_all(root.path().join("links")).unwrap();
        fs::create_dir_all(root.path().join("one/by/one")).unwrap();
        for number in 0..100 {
            fs::create_dir_all(root.path().join(format!("siblings/{number}"))).unwrap();
            fs::create_dir_all(root.path().join("deep").join("d/".repeat(number + 1))).unwrap();
            let file = root.path().join(format!("links/{number}"));
            fs::write(&file, "").unwrap();
            fs::hard_link(&file, root.path().join(format!("links/{number}-again"))).unwrap();
        }
        let found = |below, kept| walk::usage(&place(below), BUDGET, kept).unwrap().inodes;
        for below in ["siblings", "deep", "links"] {
            assert_eq!(found(below, MOST_KEPT), 101, "{below}");
            assert!((5..60).contains(&found(below, 1000)), "{below}: {}", found(below, 1000));
        }
        // Names of counted directories are not kept.
        for number in 0..100 {
            fs::create_dir_all(root.path().join(format!("wide/{}/{number}", number % 10))).unwrap();
        }
        assert_eq!(found("wide", 1200), 111);
    }

    #[tokio::test]
    async fn walk_ends_with_its_budget() {
        let root = tempfile::tempdir().unwrap();
        for name in 0..20 {
            fs::create_dir(root.path().join(name.to_string())).unwrap();
        }
        let place = Place { root: root.path().to_owned(), below: "".into() };
        let budget = WalkBudget { entries: 1, time: Duration::ZERO };
        let found = Host::default().walked_usage(&place, budget).await.unwrap();
        assert!(found.inodes < 21, "{found:?}");
    }
}
