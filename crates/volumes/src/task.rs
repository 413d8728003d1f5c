//! The task of the volume manager: starts operations and takes their results.

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Pod;
use model::ids::{PodName, PodUid};
use model::panics::{PanicStep, PanicSubject};
use model::ports::events::PodEvent;
use model::volume::VolumeId;
use tokio::task::JoinSet;
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

use crate::decide::pod_volumes::{MountState, Operation, Outcome};
use crate::manager::{PodRecord, Processing, Shared, State, VolumeManager};
use crate::metrics::VolumeCounts;
use crate::mounter::{self, Content, MountFailure, MountRequest};
use crate::process::{Processed, process};
use crate::unmounter;

/// The delay before the host is searched again for volumes of a pod, after a failed search.
const SCAN_RETRY: Duration = Duration::from_secs(1);

/// How long a token that could not be renewed is used before that is tried again.
const TOKEN_RETRY: Duration = Duration::from_secs(10);

/// The result of an operation.
#[derive(Debug)]
enum Ended {
    Processed(PodUid, Result<Processed, String>),
    Mounted(PodUid, VolumeId, Result<Option<Content>, MountFailure>),
    Unmounted(PodUid, VolumeId, Result<(), String>),
}

/// Operations that start now.
#[derive(Debug, Default)]
struct Starts {
    process: Vec<(PodUid, Option<Arc<Pod>>, bool)>,
    mount: Vec<(PodUid, MountRequest)>,
    unmount: Vec<(PodUid, Option<PodName>, VolumeId)>,
}

impl VolumeManager {
    /// Mounts and unmounts until it is stopped. Nothing is unmounted then: containers keep running.
    pub async fn run(self, stop: CancellationToken) {
        let mut operations = JoinSet::new();
        loop {
            let (starts, wake_at) = self.shared.take_starts();
            self.shared.start(starts, &mut operations);
            self.shared.count_volumes();
            let timer = self.shared.sleep_until(wake_at);
            // Biased: a stop comes once; results make room for other operations and come before new requests.
            tokio::select! {
                biased;
                () = stop.cancelled() => return,
                Some(ended) = operations.join_next() => match ended {
                    Ok(ended) => self.shared.ended(ended),
                    Err(error) => warn!(%error, "A volume operation was lost"),
                },
                () = self.shared.dirty.notified() => {}
                () = timer => {}
            }
        }
    }
}

impl Shared {
    /// Sleeps until a time; forever without one.
    async fn sleep_until(&self, at: Option<Timestamp>) {
        match at {
            Some(at) => {
                let left = at.duration_since(self.parts.clock.now());
                sleep(left.try_into().unwrap_or_default()).await;
            }
            None => std::future::pending().await,
        }
    }

    /// The operations that start now, and when to look again.
    fn take_starts(&self) -> (Starts, Option<Timestamp>) {
        let now = self.parts.clock.now();
        let mut state = self.state();
        while let Some((at, uid)) = state.timers.first().cloned() {
            if at > now {
                break;
            }
            state.timers.pop_first();
            if let Some(record) = state.pods.get_mut(&uid) {
                // A token is due for renewal, or a back-off has ended; the latter needs no step
                // here.
                let renews =
                    record.written.values().any(|one| one.refresh_at.is_some_and(|at| at <= now));
                if renews {
                    record.volumes.mark_stale();
                }
                state.dirty.insert(uid);
            }
        }
        let mut starts = Starts::default();
        for uid in std::mem::take(&mut state.dirty) {
            let State { pods, timers, .. } = &mut *state;
            let first = starts.mount.len();
            let Some(record) = pods.get_mut(&uid) else { continue };
            if let Some(at) = starts.add(&uid, record, now) {
                timers.insert((at, uid.clone()));
            }
            for (_, request) in &mut starts.mount[first..] {
                let id = &request.spec.id;
                if request.spec.persistent.is_none() {
                    continue;
                }
                let others = || pods.iter().filter(|(other, _)| **other != uid);
                request.is_in_use_elsewhere =
                    others().any(|(_, other)| other.volumes.is_in_use(id));
                request.is_shared = others().any(|(_, other)| other.volumes.is_mounted(id));
            }
        }
        (starts, state.timers.first().map(|(at, _)| *at))
    }

    fn start(self: &Arc<Self>, starts: Starts, operations: &mut JoinSet<Ended>) {
        for (uid, pod, scan) in starts.process {
            let shared = Arc::clone(self);
            operations.spawn(async move {
                let work = process(&shared.parts, &uid, pod, scan);
                let processed = shared.guarded(&uid, work).await;
                Ended::Processed(uid, processed)
            });
        }
        for (uid, name, id) in starts.unmount {
            let shared = Arc::clone(self);
            operations.spawn(async move {
                let began = shared.parts.metrics.begin(id.plugin, "volume_unmount");
                let work = unmounter::unmount(&shared.parts, &uid, name.as_ref(), &id);
                let unmounted = shared.guarded(&uid, work).await.and_then(|result| result);
                began.ended(unmounted.is_ok());
                Ended::Unmounted(uid, id, unmounted)
            });
        }
        for (uid, request) in starts.mount {
            let shared = Arc::clone(self);
            operations.spawn(async move {
                let id = request.spec.id.clone();
                let began = shared.parts.metrics.begin(id.plugin, "volume_mount");
                let work = mounter::mount(&shared.parts, &uid, &request);
                let mounted = match shared.guarded(&uid, work).await {
                    Ok(mounted) => mounted,
                    Err(panic) => Err(MountFailure::set_up(panic)),
                };
                began.ended(mounted.is_ok());
                Ended::Mounted(uid, id, mounted)
            });
        }
    }

    async fn guarded<T>(&self, uid: &PodUid, work: impl Future<Output = T>) -> Result<T, String> {
        let of = PanicSubject::Pod(uid, None);
        let done = self.parts.panics.catch_async(PanicStep::Volumes, of, work).await;
        done.map_err(|panic| panic.to_string())
    }

    fn count_volumes(&self) {
        let mut counts = VolumeCounts::default();
        for record in self.state().pods.values() {
            for (id, volume) in &record.volumes.volumes {
                if volume.mount != MountState::NotMounted {
                    *counts.actual.entry(id.plugin).or_default() += 1;
                }
                if volume.desired {
                    *counts.desired.entry(id.plugin).or_default() += 1;
                }
            }
        }
        self.parts.metrics.set_volumes(&counts);
    }

    /// Takes the result of an operation.
    fn ended(&self, ended: Ended) {
        let now = self.parts.clock.now();
        let mut state = self.state();
        let State { pods, dirty, timers, .. } = &mut *state;
        let uid = match &ended {
            Ended::Processed(uid, _) | Ended::Mounted(uid, ..) | Ended::Unmounted(uid, ..) => uid,
        };
        let Some(record) = pods.get_mut(uid) else { return };
        dirty.insert(uid.clone());
        let mut event = None;
        match ended {
            Ended::Processed(uid, processed) => {
                if let Ok(Processed { found: Some(found), .. }) = &processed {
                    self.parts.metrics.reconstructed(found.as_ref().ok().map(Vec::len));
                }
                if !record.processed(&uid, processed) {
                    dirty.remove(&uid);
                    timers.insert((now + SCAN_RETRY, uid));
                }
            }
            Ended::Mounted(uid, id, Ok(content)) => {
                if let Some(at) = content.as_ref().and_then(|content| content.refresh_at) {
                    // While no new token is issued, its time has passed and the old one is used.
                    timers.insert((at.max(now + TOKEN_RETRY), uid.clone()));
                }
                record.mounted(&uid, &id, content, now);
            }
            Ended::Mounted(uid, id, Err(failure)) => {
                let message = failure.message(&id);
                warn!(%uid, volume = %id.name, error = message, "Mount failed, retrying after the back-off");
                // A pod that has ended meanwhile needs no event.
                let name = record.pod.as_ref().and(record.name.clone());
                event =
                    name.map(|name| PodEvent::warning(uid, name, failure.reason, message.clone()));
                let outcome = if failure.is_refused {
                    Outcome::Refused(message)
                } else {
                    Outcome::Failed(message)
                };
                record.volumes.ended(&id, outcome, now);
            }
            Ended::Unmounted(uid, id, result) => {
                let outcome = match result {
                    Ok(()) => Outcome::Done,
                    Err(error) => {
                        warn!(%uid, volume = %id.name, error, "Unmount failed, retrying after the back-off");
                        Outcome::Failed(error)
                    }
                };
                record.written.remove(&id);
                record.volumes.ended(&id, outcome, now);
            }
        }
        record.changed();
        drop(state);
        if let Some(event) = event {
            self.parts.events.record(event);
        }
    }
}

impl Starts {
    /// Adds the operations that a pod needs now. Returns when to check it again.
    fn add(&mut self, uid: &PodUid, record: &mut PodRecord, now: Timestamp) -> Option<Timestamp> {
        if record.processing == Processing::Needed {
            record.processing = Processing::Running { again: false };
            self.process.push((uid.clone(), record.pod.clone(), !record.is_scanned));
        }
        // The mounts are unknown until the host was searched.
        if !record.is_scanned {
            return None;
        }
        let steps = record.volumes.start(now);
        for (operation, id) in steps.start {
            match (operation, record.pod.clone(), record.specs.get(&id)) {
                (Operation::Mount, Some(pod), Some(spec)) => {
                    let (spec, before) = (Arc::clone(spec), record.written.get(&id).cloned());
                    let request = MountRequest {
                        pod,
                        spec,
                        before,
                        is_in_use_elsewhere: false,
                        is_shared: false,
                    };
                    self.mount.push((uid.clone(), request));
                }
                (Operation::Mount, ..) => {
                    let unknown = Outcome::Failed("the volume is not determined".to_owned());
                    record.volumes.ended(&id, unknown, now);
                }
                (Operation::Unmount, ..) => {
                    self.unmount.push((uid.clone(), record.name.clone(), id));
                }
            }
        }
        steps.wake_at
    }
}

impl PodRecord {
    /// Takes the resolved volumes of a pod. Whether that succeeded.
    fn processed(&mut self, uid: &PodUid, processed: Result<Processed, String>) -> bool {
        let again = self.processing == Processing::Running { again: true };
        self.processing = if again { Processing::Needed } else { Processing::Done };
        let Processed { resolved, found } = match processed {
            Ok(processed) => processed,
            Err(panic) => {
                warn!(%uid, error = panic, "Cannot determine the volumes of a pod");
                self.processing = Processing::Needed;
                return false;
            }
        };
        match found {
            Some(Ok(found)) => {
                self.volumes.add_found(found);
                self.is_scanned = true;
            }
            Some(Err(error)) => {
                let error = model::go_text::file_error(&error);
                warn!(%uid, error, "Cannot search the host for volumes of a pod");
                self.processing = Processing::Needed;
                return false;
            }
            None => {}
        }
        // A pod that has ended meanwhile uses no volumes.
        if let (Some(resolved), Some(_)) = (resolved, &self.pod) {
            self.set_resolved(resolved);
        }
        true
    }

    fn mounted(&mut self, uid: &PodUid, id: &VolumeId, content: Option<Content>, now: Timestamp) {
        let before = self.volumes.volumes.get(id).map(|state| state.mount);
        self.volumes.ended(id, Outcome::Done, now);
        let after = self.volumes.volumes.get(id).map(|state| state.mount);
        if before != after {
            let plugin = id.plugin.name();
            info!(%uid, volume = %id.name, plugin, "Volume mounted");
        }
        if let Some(content) = content {
            self.written.insert(id.clone(), content);
        }
    }
}
