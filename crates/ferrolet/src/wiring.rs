//! Puts the agent together: every part in the order of its needs, nothing set afterwards.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use model::ports::clock::WallClock;
use model::ports::events::Events;
use model::ports::files::HostFiles;
use model::ports::runtime::Runtime;
use model::stamp::Stamps;
use pods::source::file::{FileSourceSettings, file_source};
use pods::workers::{WorkerParts, workers};
use runtime::decide::BackoffLimits;
use runtime::{LogLayout, PodRuntime, RuntimeParts};

use crate::sync_loop::{SyncLoop, SyncLoopParts};
use crate::syncer::{PlegStatuses, Syncer};
use crate::tasks::Tasks;

/// The outside, as the agent reaches it.
#[derive(Debug, Clone)]
pub struct Ports {
    /// The container runtime.
    pub runtime: Arc<dyn Runtime>,
    /// The host's files.
    pub files: Arc<dyn HostFiles>,
    /// The time of day.
    pub clock: Arc<dyn WallClock>,
    /// Whom people hear from.
    pub events: Arc<dyn Events>,
}

/// What the agent is told.
#[derive(Debug, Clone)]
pub struct Settings {
    /// The name of this node.
    pub node_name: String,
    /// Where manifests are.
    pub manifests: PathBuf,
    /// How often manifests are read.
    pub manifests_period: Duration,
    /// Where logs of pods are.
    pub pod_logs: PathBuf,
    /// Where links to logs are.
    pub container_links: PathBuf,
    /// How often a pod is looked at without need.
    pub resync: Duration,
    /// The longest wait of a container that keeps failing.
    pub longest_restart_wait: Duration,
    /// How the runtime is observed.
    pub pleg: pleg::Settings,
}

/// The agent, ready to run.
#[derive(Debug)]
pub struct Agent {
    tasks: Tasks,
}

/// A long task of the agent ended, which none should.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct Broken(String);

impl Agent {
    /// Starts all parts. Must be called inside a tokio runtime.
    pub fn start(settings: Settings, ports: Ports) -> Self {
        let mut tasks = Tasks::default();
        let stamps = Stamps::default();
        let pleg = pleg::pleg(Arc::clone(&ports.runtime), stamps.clone(), settings.pleg);
        let pod_runtime = PodRuntime::new(RuntimeParts {
            runtime: ports.runtime,
            files: Arc::clone(&ports.files),
            events: Arc::clone(&ports.events),
            clock: Arc::clone(&ports.clock),
            logs: LogLayout {
                pod_logs: settings.pod_logs,
                container_links: settings.container_links,
            },
            restart_backoff: BackoffLimits::up_to(settings.longest_restart_wait),
        });
        let statuses = PlegStatuses { cache: pleg.cache.clone(), requests: pleg.requests.clone() };
        let (workers_task, workers_handle, news) = workers(WorkerParts {
            syncer: Arc::new(Syncer { runtime: Arc::new(pod_runtime) }),
            statuses: Arc::new(statuses),
            stamps,
            clock: ports.clock,
            resync: settings.resync,
        });
        let source_settings = FileSourceSettings {
            path: settings.manifests,
            period: settings.manifests_period,
            node_name: settings.node_name,
        };
        let (source, pods) = file_source(source_settings, ports.files);
        let sync_loop = SyncLoop::new(SyncLoopParts {
            source: pods,
            lifecycle: pleg.events,
            cache: pleg.cache,
            news,
            workers: workers_handle,
            events: ports.events,
        });
        tasks.spawn("relist", |stop| pleg.task.run(stop));
        tasks.spawn("pod workers", |stop| workers_task.run(stop));
        tasks.spawn("sync loop", |stop| sync_loop.run(stop));
        tasks.spawn("manifests", |stop| source.run(stop));
        Self { tasks }
    }

    /// Waits for a part to break, which none should.
    pub async fn broken(&mut self) -> Broken {
        Broken(self.tasks.first_ended().await.to_string())
    }

    /// Stops all parts and leaves the pods running.
    pub async fn stop(self) {
        self.tasks.stop().await;
    }
}
