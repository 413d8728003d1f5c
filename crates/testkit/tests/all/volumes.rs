//! The volumes in memory.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use model::ports::files::HostFiles;
use model::ports::volumes::{FileSystem, VolumeHost};
use model::volume::Place;
use testkit::contract::{self, assert_kept};
use testkit::files::MemoryFiles;
use testkit::volumes::{MemoryVolumes, Operation};

#[derive(Debug)]
struct Memory {
    files: Arc<MemoryFiles>,
    volumes: Arc<MemoryVolumes>,
}

impl Default for Memory {
    fn default() -> Self {
        let files = Arc::new(MemoryFiles::new());
        files.write("/case/file", "");
        files.remove("/case/file");
        Self { volumes: Arc::new(MemoryVolumes::new(Arc::clone(&files))), files }
    }
}

impl contract::volumes::Harness for Memory {
    fn volumes(&self) -> Arc<dyn VolumeHost> {
        Arc::clone(&self.volumes) as _
    }

    fn files(&self) -> Arc<dyn HostFiles> {
        Arc::clone(&self.files) as _
    }

    fn directory(&self) -> PathBuf {
        PathBuf::from("/case")
    }

    fn write(&self, path: &Path, content: &[u8]) {
        self.files.write(path, content);
    }

    fn put_link(&self, path: &Path, target: &Path) {
        self.files.put_link(path, target);
    }

    fn put_socket(&self, path: &Path) {
        self.files.special(path);
    }

    fn remove(&self, path: &Path) {
        self.files.remove(path);
    }

    fn mode(&self, path: &Path) -> u32 {
        self.files.mode(path).unwrap()
    }

    fn group(&self, path: &Path) -> u32 {
        self.files.owner(path).unwrap().1
    }
}

#[tokio::test]
async fn memory_volumes_pass_the_contract() {
    let reports = contract::volumes::run(Memory::default).await;
    assert_eq!(assert_kept(&reports), []);
}

#[tokio::test]
async fn operations_fail_and_wait_as_configured() {
    let world = Memory::default();
    let (volumes, place) = (&world.volumes, Place { root: "/case".into(), below: "data".into() });
    volumes.make_directory(&place, 0o755).await.unwrap();
    let memory = FileSystem::Tmpfs { size: None, no_swap: false };
    volumes.fail(Operation::Mount, "/case/data", ErrorKind::TimedOut);
    let error = volumes.mount(&place, &memory).await.unwrap_err();
    assert_eq!(error.source.kind(), ErrorKind::TimedOut);
    volumes.repair(Operation::Mount, "/case/data");
    volumes.hold(Operation::Mount, "/case/data");
    let held = async {
        while volumes.held(Operation::Mount, "/case/data") == 0 {
            tokio::task::yield_now().await;
        }
        assert!(volumes.mounts(Path::new("/case")).await.unwrap().is_empty());
        volumes.release(Operation::Mount, "/case/data");
    };
    let (mounted, ()) = tokio::join!(volumes.mount(&place, &memory), held);
    mounted.unwrap();
    assert_eq!(volumes.mounts(Path::new("/case")).await.unwrap().len(), 1);
    let calls = volumes.calls();
    let mounts = calls.iter().filter(|(operation, _)| *operation == Operation::Mount);
    assert_eq!(mounts.count(), 2);
}
