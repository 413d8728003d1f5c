//! The task that starts and stops drivers as containers start and exit.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use model::ids::{ContainerId, PodUid};
use model::log_layout::LogLayout;
use model::observed::RuntimePodStatus;
use model::panics::{PanicStep, PanicSubject};
use tokio::sync::Notify;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;
use tracing::warn;

use crate::driver::Driver;
use crate::observed::ObservedPod;
use crate::settings::{LogParts, Settings};
use crate::shared::Shared;
use crate::table::{Log, LogKey, LogUse};

/// Receives pod statuses, and returns the disk usage of logs.
#[derive(Debug, Clone)]
pub struct LogRotation {
    shared: Arc<Shared>,
    inbox: Arc<Inbox>,
}

/// Changed pods: filled by [`LogRotation::observe`], taken by the task.
#[derive(Debug, Default)]
struct Inbox {
    /// Never held across an await.
    pods: Mutex<BTreeMap<PodUid, ObservedPod>>,
    added: Notify,
}

impl Inbox {
    fn pods(&self) -> MutexGuard<'_, BTreeMap<PodUid, ObservedPod>> {
        self.pods.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Rotates logs.
#[derive(Debug)]
pub struct LogRotationTask {
    shared: Arc<Shared>,
    inbox: Arc<Inbox>,
    drivers: BTreeMap<ContainerId, RunningDriver>,
    work: JoinSet<()>,
}

#[derive(Debug)]
struct RunningDriver {
    uid: PodUid,
    log: Arc<Log>,
    stop: CancellationToken,
}

/// Creates the log rotation and its task. Registers the metric of disk usage.
pub fn log_rotation(
    parts: LogParts,
    settings: Settings,
) -> prometheus::Result<(LogRotationTask, LogRotation)> {
    let metrics = parts.metrics.clone();
    let shared = Arc::new(Shared::new(parts, settings));
    metrics.show(&shared)?;
    let inbox = Arc::new(Inbox::default());
    let task = LogRotationTask {
        shared: Arc::clone(&shared),
        inbox: Arc::clone(&inbox),
        drivers: BTreeMap::new(),
        work: JoinSet::new(),
    };
    Ok((task, LogRotation { shared, inbox }))
}

impl LogRotation {
    /// Reports a pod status. Logs of running containers are rotated from now on, others no longer.
    pub fn observe(&self, status: &RuntimePodStatus) {
        let layout = LogLayout {
            pod_logs: self.shared.parts.pod_logs.clone(),
            container_links: std::path::PathBuf::new(),
        };
        let observed = ObservedPod::of(status, &layout);
        self.inbox.pods().insert(status.uid.clone(), observed);
        self.inbox.added.notify_one();
    }

    /// The disk usage of containers' logs, as of the last check of each.
    pub fn used(&self) -> Vec<LogUse> {
        self.shared.table().used()
    }
}

impl LogRotationTask {
    /// Rotates logs until stopped. Rotations in progress are completed.
    pub async fn run(mut self, stop: CancellationToken) {
        for _ in 0..self.shared.settings.workers.max(1) {
            self.work.spawn(Arc::clone(&self.shared).compress_files(stop.clone()));
        }
        loop {
            // Biased: the stop comes first.
            tokio::select! {
                biased;
                () = stop.cancelled() => break,
                () = self.inbox.added.notified() => self.take_pods(&stop),
                Some(ended) = self.work.join_next() => {
                    if let Err(error) = ended {
                        warn!(%error, "Rotation task of a container log failed");
                    }
                }
            }
        }
        while self.work.join_next().await.is_some() {}
    }

    fn take_pods(&mut self, stop: &CancellationToken) {
        let pods = std::mem::take(&mut *self.inbox.pods());
        for (uid, observed) in pods {
            self.stop_drivers(&uid, &observed);
            self.shared
                .table()
                .retain_of(&uid, |container| observed.containers.contains(container));
            self.start_drivers(&uid, observed, stop);
        }
    }

    fn stop_drivers(&mut self, uid: &PodUid, observed: &ObservedPod) {
        let ended = self
            .drivers
            .extract_if(.., |id, driver| driver.uid == *uid && !observed.running.contains_key(id));
        for (_, driver) in ended {
            driver.stop.cancel();
            self.shared.table().end(&driver.log);
        }
    }

    fn start_drivers(&mut self, uid: &PodUid, observed: ObservedPod, stop: &CancellationToken) {
        let Some(pod) = observed.pod else { return };
        for (id, container) in observed.running {
            if self.drivers.contains_key(&id) {
                continue;
            }
            let name = container.log.file_name().and_then(|name| name.to_str());
            let Some(name) = name.map(ToOwned::to_owned) else { continue };
            let key = LogKey { uid: uid.clone(), container: container.name };
            let log = Log { key, id: id.clone(), pod: pod.clone(), path: container.log, name };
            let log = Arc::new(log);
            self.shared.table().start(&log);
            let (stop, shared) = (stop.child_token(), Arc::clone(&self.shared));
            let running =
                RunningDriver { uid: uid.clone(), log: Arc::clone(&log), stop: stop.clone() };
            self.drivers.insert(id, running);
            self.work.spawn(async move {
                let work = Driver::new(Arc::clone(&shared), Arc::clone(&log)).run(stop);
                let of = PanicSubject::Pod(&log.key.uid, Some(&log.pod));
                // The panic is reported; the log is not rotated until the container restarts.
                drop(shared.parts.panics.catch_async(PanicStep::LogRotation, of, work).await);
            });
        }
    }
}
