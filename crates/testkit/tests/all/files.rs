//! The file system in memory.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use model::ports::files::HostFiles;
use testkit::contract::{self, assert_kept};
use testkit::files::MemoryFiles;

#[derive(Debug, Default)]
struct Memory {
    files: Arc<MemoryFiles>,
}

impl contract::files::Harness for Memory {
    fn files(&self) -> Arc<dyn HostFiles> {
        Arc::clone(&self.files) as _
    }

    fn directory(&self) -> PathBuf {
        PathBuf::from("/")
    }

    fn write(&self, path: &Path, content: &[u8]) {
        self.files.write(path, content);
    }

    fn put_link(&self, path: &Path, target: &Path) {
        self.files.put_link(path, target);
    }

    fn special(&self, path: &Path) -> bool {
        self.files.special(path);
        true
    }

    fn remove(&self, path: &Path) {
        self.files.remove(path);
    }

    fn rename(&self, from: &Path, to: &Path) {
        self.files.rename(from, to);
    }

    fn mode(&self, path: &Path) -> u32 {
        self.files.mode(path).unwrap()
    }
}

#[tokio::test]
async fn memory_files_pass_the_contract() {
    let reports = contract::files::run(Memory::default).await;
    assert_eq!(assert_kept(&reports), []);
}

#[tokio::test]
async fn dangling_and_circular_links_fail() {
    let files = MemoryFiles::new();
    files.put_link("/a", "b");
    files.put_link("/b", "/a");
    files.put_link("/up/out", "../../etc");
    files.write("/etc/hosts", "text");
    assert!(files.look(Path::new("/a")).await.is_err());
    assert_eq!(files.read(Path::new("/up/out/hosts"), 10).await.unwrap(), b"text");
}

#[tokio::test]
async fn path_fails_until_repaired() {
    let files = MemoryFiles::new();
    let path = Path::new("/etc/pods");
    files.write(path.join("a"), "text");
    files.fail(path, ErrorKind::PermissionDenied);
    let error = files.list(path).await.unwrap_err();
    assert_eq!(error.source.kind(), ErrorKind::PermissionDenied);
    files.repair(path);
    assert_eq!(files.list(path).await.unwrap(), ["a"]);
    files.remove(path);
    assert!(files.list(path).await.unwrap_err().is_not_found());
}
