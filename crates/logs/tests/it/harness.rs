//! Containers that write logs to memory.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use logs::{LogMetrics, LogParts, LogRotation, ReopenLog, Settings, log_rotation};
use model::ids::{ContainerId, PodName, PodUid};
use model::intercept::{Call, Intercepted, Interceptor};
use model::observed::{ContainerState, RuntimePodStatus, SandboxState};
use model::panics::PanicGuard;
use model::ports::files::{FileError, HostFiles, Removed};
use model::ports::runtime::{Code, RuntimeError};
use model::verdict::Verdict;
use prometheus::{Registry, TextEncoder};
use testkit::clock::VirtualClock;
use testkit::files::MemoryFiles;
use testkit::observed::{container_status, sandbox_status};
use tokio::task::JoinSet;
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

/// The directory of pod logs.
pub(crate) const ROOT: &str = "/var/log/pods";

/// Whether a file name ends with this extension.
pub(crate) fn has_extension(name: &str, extension: &str) -> bool {
    Path::new(name).extension().is_some_and(|found| found == extension)
}

/// The live log of the only container of a pod.
pub(crate) fn log_of(pod: &str) -> PathBuf {
    format!("{ROOT}/default_{pod}_{pod}/main/0.log").into()
}

/// The runtime: it has logs open, and reopens them.
#[derive(Debug)]
pub(crate) struct Containers {
    files: Arc<MemoryFiles>,
    /// The log of each running container, with the open inode.
    open: Mutex<BTreeMap<ContainerId, (PathBuf, u64)>>,
    refuses: Mutex<bool>,
    writes_files: Mutex<bool>,
    /// How often a log was to be reopened.
    reopened: Mutex<usize>,
}

impl Containers {
    fn open(&self, path: &Path) -> u64 {
        if !*self.writes_files.lock().unwrap() {
            return 0;
        }
        if self.files.content(path).is_none() {
            self.files.write(path, "");
        }
        self.files.inode(path).unwrap()
    }

    /// A container starts to write.
    pub(crate) fn start(&self, id: &str, path: &Path) {
        let inode = self.open(path);
        self.open.lock().unwrap().insert(id.into(), (path.to_owned(), inode));
    }

    /// A container writes.
    pub(crate) fn write(&self, id: &str, text: &str) {
        let inode = self.open.lock().unwrap()[&ContainerId::from(id)].1;
        self.files.append(inode, text.as_bytes());
    }

    /// Takes over the open files of another agent's containers.
    pub(crate) fn adopt(&self, other: &Self) {
        self.open.lock().unwrap().clone_from(&other.open.lock().unwrap());
    }

    pub(crate) fn refuse(&self, refuses: bool) {
        *self.refuses.lock().unwrap() = refuses;
    }

    /// From now on there are no log files.
    pub(crate) fn write_no_files(&self) {
        *self.writes_files.lock().unwrap() = false;
    }

    pub(crate) fn reopened(&self) -> usize {
        *self.reopened.lock().unwrap()
    }
}

#[async_trait]
impl ReopenLog for Containers {
    async fn reopen(&self, id: &ContainerId) -> Result<(), RuntimeError> {
        *self.reopened.lock().unwrap() += 1;
        let known = self.open.lock().unwrap().get(id).cloned();
        let Some((path, _)) = known.filter(|_| !*self.refuses.lock().unwrap()) else {
            let (method, object) = ("ReopenContainerLog", id.to_string());
            let message = "container is not running".to_owned();
            return Err(RuntimeError { method, object, code: Code::Unknown, message });
        };
        let inode = self.open(&path);
        self.open.lock().unwrap().insert(id.clone(), (path, inode));
        Ok(())
    }
}

/// Keeps the verdicts of removals.
#[derive(Debug, Default)]
pub(crate) struct Verdicts(Mutex<Vec<Verdict>>);

impl Interceptor<dyn HostFiles> for Verdicts {
    async fn around_removal(
        &self,
        _: &Call<'_>,
        verdict: &Verdict,
        run: impl Future<Output = Result<Removed, FileError>> + Send,
    ) -> Result<Removed, FileError> {
        let removed = run.await;
        if let Ok(Removed::Now) = removed {
            self.0.lock().unwrap().push(verdict.clone());
        }
        removed
    }
}

pub(crate) struct Harness {
    pub(crate) files: Arc<MemoryFiles>,
    pub(crate) containers: Arc<Containers>,
    pub(crate) rotation: LogRotation,
    verdicts: Arc<Verdicts>,
    registry: Registry,
    stop: CancellationToken,
    tasks: JoinSet<()>,
}

/// Settings with a small limit.
pub(crate) fn small() -> Settings {
    Settings { max_size: Some(1000), ..Settings::default() }
}

impl Harness {
    /// An agent that rotates logs on an empty disk.
    pub(crate) fn new(settings: Settings) -> Self {
        Self::on(Arc::new(MemoryFiles::new()), settings)
    }

    /// An agent on the disk of an earlier one.
    pub(crate) fn on(files: Arc<MemoryFiles>, settings: Settings) -> Self {
        let containers = Arc::new(Containers {
            files: Arc::clone(&files),
            open: Mutex::default(),
            refuses: Mutex::default(),
            writes_files: Mutex::new(true),
            reopened: Mutex::default(),
        });
        let (registry, verdicts) = (Registry::new(), Arc::new(Verdicts::default()));
        let parts = LogParts {
            files: Arc::clone(&files) as _,
            removals: Arc::new(Intercepted::new(Arc::clone(&files) as _, &verdicts)),
            runtime: Arc::clone(&containers) as _,
            clock: Arc::new(VirtualClock::new()),
            pod_logs: ROOT.into(),
            metrics: LogMetrics::new(&registry).unwrap(),
            panics: PanicGuard::default(),
        };
        let (task, rotation) = log_rotation(parts, settings).unwrap();
        let (stop, mut tasks) = (CancellationToken::new(), JoinSet::new());
        tasks.spawn(task.run(stop.clone()));
        Self { files, containers, rotation, verdicts, registry, stop, tasks }
    }

    /// A pod with running containers.
    pub(crate) fn run(&self, pod: &str, containers: &[&str]) {
        for name in containers {
            let path = log_of(pod).parent().unwrap().with_file_name(name).join("0.log");
            self.containers.start(&format!("{pod}-{name}"), &path);
        }
        self.observe(pod, containers, ContainerState::Running);
    }

    /// The status of a pod is published.
    pub(crate) fn observe(&self, pod: &str, containers: &[&str], state: ContainerState) {
        let mut sandbox = sandbox_status("s", SandboxState::Ready);
        sandbox.pod = PodName::new("default", pod);
        let containers = containers.iter().map(|name| {
            let mut status = container_status(&format!("{pod}-{name}"), name, state);
            let directory = log_of(pod).parent().unwrap().with_file_name(name);
            status.log_path = directory.join("0.log").to_str().unwrap().into();
            status
        });
        let uid = PodUid::from(pod);
        let containers = containers.collect();
        self.rotation.observe(&RuntimePodStatus {
            sandboxes: vec![sandbox],
            containers,
            ..RuntimePodStatus::empty(uid)
        });
    }

    /// Writes numbered lines of ten bytes for some time, a number of them each 100 ms.
    pub(crate) async fn write_for(&self, id: &str, lines: &mut Lines, time: Duration) {
        let end = tokio::time::Instant::now() + time;
        while tokio::time::Instant::now() < end {
            for _ in 0..lines.per_tick {
                self.containers.write(id, &format!("{:09}\n", lines.next));
                lines.next += 1;
            }
            sleep(TICK).await;
        }
    }

    /// The names of the files of a pod's log, in order.
    pub(crate) fn names(&self, pod: &str) -> Vec<String> {
        self.names_in(&log_of(pod))
    }

    /// The names of the files in the directory of a log.
    pub(crate) fn names_in(&self, log: &Path) -> Vec<String> {
        self.files.names(log.parent().unwrap())
    }

    /// The numbers of the remaining lines, in file order; and the size of each file before compression.
    pub(crate) fn kept(&self, pod: &str) -> (Vec<u32>, Vec<usize>) {
        let mut names = self.names(pod);
        // The live file comes last.
        names.rotate_left(1);
        let texts = names.iter().map(|name| {
            let path = log_of(pod).with_file_name(name);
            self.files.unzipped(&path).or_else(|| self.files.content(&path)).unwrap()
        });
        let texts: Vec<String> = texts.map(|text| String::from_utf8(text).unwrap()).collect();
        let lines = texts.iter().flat_map(|text| text.lines()).map(|line| line.parse().unwrap());
        (lines.collect(), texts.iter().map(String::len).collect())
    }

    /// The rules of verdicts, with the names of files.
    pub(crate) fn verdicts(&self) -> Vec<String> {
        let verdicts = self.verdicts.0.lock().unwrap();
        verdicts.iter().map(ToString::to_string).collect()
    }

    pub(crate) fn metrics(&self) -> String {
        TextEncoder::new().encode_to_string(&self.registry.gather()).unwrap()
    }

    /// Kills the agent: operations in progress end where they are. The containers continue.
    pub(crate) async fn kill(mut self) -> Arc<MemoryFiles> {
        self.tasks.shutdown().await;
        Arc::clone(&self.files)
    }

    /// The agent stops.
    pub(crate) async fn stop(mut self) {
        self.stop.cancel();
        while self.tasks.join_next().await.is_some() {}
    }
}

/// How often lines are written.
const TICK: Duration = Duration::from_millis(100);

/// Numbered lines.
pub(crate) struct Lines {
    pub(crate) next: u32,
    pub(crate) per_tick: u32,
}

/// Lines from the first on, at this many bytes a second; a multiple of 100.
pub(crate) fn bytes_per_second(bytes: u32) -> Lines {
    Lines { next: 0, per_tick: bytes / 100 }
}

/// Asserts that the last lines remain, without a gap.
pub(crate) fn assert_contiguous(kept: &[u32], lines: &Lines) {
    let first = kept.first().copied().unwrap_or(lines.next);
    assert_eq!(kept, (first..lines.next).collect::<Vec<_>>());
}
