//! A file system that does not answer. In real time: a blocked thread keeps a paused clock from moving.

use std::ffi::OsStr;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock, mpsc};
use std::time::Duration;

use async_trait::async_trait;
use hostfs::{Call, Host, Pool};
use model::ids::PodUid;
use model::ports::files::{
    DirectoryWatch, Entry, FileError, FileVersion, FoundFile, HostFiles, Removed,
};
use model::ports::runtime::{Code, Runtime};
use model::verdict::Verdict;
use testkit::cluster::node_api::MemoryNodeApi;
use testkit::files::MemoryFiles;
use testkit::runtime::{Fault, Method, Rule};
use tokio::time::Instant;

use crate::harness::Harness;

const PODS: &str = "/var/lib/kubelet/pods";

/// Files on the threads of the host's file pool; operations on those of some pods hang.
#[derive(Debug)]
pub(crate) struct HungFiles {
    inner: Arc<MemoryFiles>,
    pool: Pool,
    is_hung: Arc<AtomicBool>,
    /// The pod whose files do not hang.
    spared: OnceLock<PodUid>,
    /// One sender for each hanging operation; dropping it ends the operation.
    gates: Arc<Mutex<Vec<mpsc::Sender<()>>>>,
}

impl HungFiles {
    pub(crate) fn new(inner: &Arc<MemoryFiles>) -> Self {
        Self {
            inner: Arc::clone(inner),
            pool: Host::default().pool().clone(),
            is_hung: Arc::default(),
            spared: OnceLock::new(),
            gates: Arc::default(),
        }
    }

    fn hung(&self) -> usize {
        self.gates.lock().expect("no thread panicked with it").len()
    }

    /// Uses a thread for an operation, for ever if it hangs.
    async fn thread(&self, operation: &'static str, path: &Path) -> Result<(), FileError> {
        let pod = path.strip_prefix(PODS).ok().and_then(|below| below.iter().next());
        let spared = self.spared.get().map(|uid| OsStr::new(uid.as_str()));
        let may_hang = pod.is_some() && pod != spared;
        let gates = may_hang.then(|| (Arc::clone(&self.is_hung), Arc::clone(&self.gates)));
        let call = Call { operation, subject: path, limit: Duration::from_secs(30) };
        let work = move || {
            let Some((is_hung, gates)) = gates else { return };
            let (gate, wait) = mpsc::channel::<()>();
            let mut all = gates.lock().expect("no thread panicked with it");
            if is_hung.load(Ordering::Relaxed) {
                all.push(gate);
                drop(all);
                drop(gates);
                wait.recv().ok();
            }
        };
        let done = self.pool.run(call, work).await;
        done.map_err(|error| FileError { operation, path: path.to_owned(), source: error.into() })
    }
}

#[async_trait]
impl HostFiles for HungFiles {
    async fn list(&self, directory: &Path) -> Result<Vec<String>, FileError> {
        self.thread("list", directory).await?;
        self.inner.list(directory).await
    }

    async fn read(&self, path: &Path, limit: u64) -> Result<Vec<u8>, FileError> {
        self.thread("read", path).await?;
        HostFiles::read(&*self.inner, path, limit).await
    }

    async fn look(&self, path: &Path) -> Result<FoundFile, FileError> {
        self.thread("stat", path).await?;
        self.inner.look(path).await
    }

    async fn entries(&self, directory: &Path) -> Result<Vec<Entry>, FileError> {
        self.thread("list", directory).await?;
        self.inner.entries(directory).await
    }

    async fn read_version(
        &self,
        path: &Path,
        limit: u64,
    ) -> Result<(FileVersion, Vec<u8>), FileError> {
        self.thread("read", path).await?;
        self.inner.read_version(path, limit).await
    }

    async fn watch(&self, directory: &Path) -> Result<Box<dyn DirectoryWatch>, FileError> {
        self.thread("watch", directory).await?;
        self.inner.watch(directory).await
    }

    async fn write_durably(&self, path: &Path, content: &[u8]) -> Result<(), FileError> {
        self.thread("write", path).await?;
        self.inner.write_durably(path, content).await
    }

    async fn overwrite(&self, path: &Path, content: &[u8], mode: u32) -> Result<(), FileError> {
        self.thread("write", path).await?;
        self.inner.overwrite(path, content, mode).await
    }

    async fn remove_written(&self, path: &Path) -> Result<(), FileError> {
        self.thread("remove", path).await?;
        self.inner.remove_written(path).await
    }

    async fn create_directory(
        &self,
        root: &Path,
        below: &Path,
        mode: u32,
    ) -> Result<(), FileError> {
        self.thread("create directory", &root.join(below)).await?;
        self.inner.create_directory(root, below, mode).await
    }

    async fn create_file(&self, root: &Path, below: &Path, mode: u32) -> Result<(), FileError> {
        self.thread("create file", &root.join(below)).await?;
        self.inner.create_file(root, below, mode).await
    }

    async fn read_end(&self, root: &Path, below: &Path, limit: u64) -> Result<Vec<u8>, FileError> {
        self.thread("read", &root.join(below)).await?;
        self.inner.read_end(root, below, limit).await
    }

    async fn link(&self, target: &Path, link: &Path) -> Result<(), FileError> {
        self.thread("make link", link).await?;
        self.inner.link(target, link).await
    }

    async fn remove(&self, root: &Path, verdict: &Verdict) -> Result<Removed, FileError> {
        self.thread("remove", root).await?;
        HostFiles::remove(&*self.inner, root, verdict).await
    }
}

// behaviour: WRK-50
#[tokio::test]
async fn twenty_pods_on_a_hung_file_system_keep_no_other_pod_and_no_lease_waiting() {
    let (mut harness, _api) = Harness::in_cluster();
    let node = MemoryNodeApi::default();
    harness.own_node = Some(node.clone());
    harness.write_manifest("web", "Always", "[sleep, forever]");
    let files = Arc::new(HungFiles::new(&harness.files));
    let (runtime, cgroups) =
        (Runtime::new(Arc::clone(&harness.runtime)), Arc::clone(&harness.cgroups));
    let agent = harness.start_with(runtime, Arc::clone(&files) as _, cgroups);
    let first = harness.one_runs("web").await;
    files.spared.set(first.pod_uid.clone()).unwrap();
    files.is_hung.store(true, Ordering::Relaxed);
    for number in 0..20 {
        harness.write_manifest(&format!("hung-{number}"), "Always", "[sleep, forever]");
    }
    // More than the threads that are needed while all operations return.
    harness.until("twenty operations hang", |_| (files.hung() >= 20).then_some(())).await;
    // Without events only a relist finds the death.
    let away = Fault::error(Code::Unavailable);
    harness.runtime.inject(Rule::on(Method::GetContainerEvents, away));
    harness.runtime.end_event_streams(None);
    let renewed = || node.lease("node").and_then(|lease| lease.spec?.renew_time);
    let (before, started) = (renewed(), Instant::now());
    harness.runtime.kill_container(&first.id, 137);
    let again = |harness: &Harness| {
        harness.running("web").into_iter().find(|container| container.attempt == 1).map(drop)
    };
    harness.until("the dead container is restarted", again).await;
    harness.until("the lease is renewed", |_| (renewed() > before).then_some(())).await;
    assert!(started.elapsed() < Duration::from_mins(1), "{:?}", started.elapsed());
    assert_eq!(harness.running("hung-0").len(), 0);
    // The runtime of the test waits for its threads.
    files.is_hung.store(false, Ordering::Relaxed);
    files.gates.lock().expect("no thread panicked with it").clear();
    agent.stop().await;
}
