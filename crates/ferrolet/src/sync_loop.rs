//! The sync loop: hears what is wanted and what happened, and tells the pods' workers.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::Pod;
use model::ids::{PodName, PodUid};
use model::lifecycle::LifecycleEvent;
use model::observed::PodStatus;
use model::ports::events::{Events, PodEvent};
use pods::decide::worker::{Target, Update};
use pods::source::{SourceChange, Sources};
use pods::workers::{News, WorkersHandle};
use podspec::view;
use tokio::sync::{mpsc, watch};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

use crate::node_view::NodeView;
use crate::unsupported::unsupported;

/// How long a pod that nobody wants may take to end.
const STRANGERS_GRACE: Duration = Duration::from_secs(1);

/// How long the loop may be silent at least, and how often it turns without need.
const LEAST_PULSE: Duration = Duration::from_mins(5);
const BEAT: Duration = Duration::from_mins(1);

/// What the loop listens to and talks to.
#[derive(Debug)]
pub(crate) struct SyncLoopParts {
    /// The pods that are wanted.
    pub(crate) sources: Sources,
    /// Pods that changed in the runtime.
    pub(crate) lifecycle: pleg::Marks<LifecycleEvent>,
    /// The last known status of every pod.
    pub(crate) cache: pleg::cache::Reader,
    /// What became of pods.
    pub(crate) news: mpsc::UnboundedReceiver<News>,
    /// The pods' workers.
    pub(crate) workers: WorkersHandle,
    /// Whom people hear from.
    pub(crate) events: Arc<dyn Events>,
    /// Where it is told which pods there are.
    pub(crate) view: Arc<NodeView>,
    /// Shows that the loop turns.
    pub(crate) pulse: Pulse,
}

/// Tells when the loop last turned. Written by the loop.
#[derive(Debug, Clone)]
pub(crate) struct Pulse {
    beat: watch::Sender<Instant>,
    /// How long ago that may be.
    limit: Duration,
}

impl Pulse {
    /// A pulse that is there for as long as the loop takes to start.
    pub(crate) fn new(resync: Duration) -> Self {
        let limit = resync.saturating_mul(2).max(LEAST_PULSE);
        Self { beat: watch::Sender::new(Instant::now()), limit }
    }

    fn beat(&self) {
        self.beat.send_replace(Instant::now());
    }

    /// Whether the loop turned lately.
    pub(crate) fn check(&self, now: Instant) -> Result<(), String> {
        let since = now.saturating_duration_since(*self.beat.borrow());
        if since > self.limit {
            return Err(format!("the sync loop has not turned for {since:?}"));
        }
        Ok(())
    }
}

/// The loop's state; nobody else touches it.
#[derive(Debug)]
pub(crate) struct SyncLoop {
    parts: SyncLoopParts,
    /// Pods that cannot be run.
    refused: BTreeSet<PodUid>,
    /// Pods that have a worker.
    working: BTreeSet<PodUid>,
    /// Pods of the runtime that nobody asked for, so far.
    strangers: BTreeSet<PodUid>,
}

impl SyncLoop {
    pub(crate) fn new(parts: SyncLoopParts) -> Self {
        Self {
            parts,
            refused: BTreeSet::new(),
            working: BTreeSet::new(),
            strangers: BTreeSet::new(),
        }
    }

    /// Runs until told to stop, or until there is nobody left to hear from.
    pub(crate) async fn run(mut self, stop: CancellationToken) {
        loop {
            self.parts.pulse.beat();
            // Biased: stopping first; then what is wanted, which changes at the pace of people; then
            // news, at most two for each pod that ends; lifecycle events are merged by pod and so
            // wait without growing.
            tokio::select! {
                biased;
                () = stop.cancelled() => return,
                change = self.parts.sources.changed() => match change {
                    Some(change) => self.source_changed(change).await,
                    None => return,
                },
                news = self.parts.news.recv() => match news {
                    Some(news) => self.heard(news).await,
                    None => return,
                },
                events = self.parts.lifecycle.take() => self.happened(events).await,
                () = tokio::time::sleep(BEAT) => {}
            }
        }
    }

    async fn source_changed(&mut self, change: SourceChange) {
        for refused in &change.refused {
            self.refuse(&refused.pod, &refused.uid, "FailedValidation", &refused.to_string());
        }
        let changes = change.changes;
        for pod in changes.removed {
            self.removed(pod).await;
        }
        // Before what comes: a pod that comes back must not meet its own remains.
        self.tell_desired().await;
        for pod in changes.added {
            self.added(pod).await;
        }
        for pod in changes.updated.into_iter().chain(changes.deleted) {
            self.changed(pod).await;
        }
        self.end_strangers().await;
    }

    async fn added(&mut self, pod: Arc<Pod>) {
        let (uid, name) = (view::uid(&pod), view::pod_name(&pod));
        let ignored = unsupported(&pod);
        if !ignored.is_empty() {
            let message = format!("not supported: {}", ignored.join(", "));
            self.refuse(&name, &uid, "UnsupportedFields", &message);
            self.parts.view.refuse(&pod, "UnsupportedFields", &message);
            self.refused.insert(uid);
            return;
        }
        info!(pod = %name, %uid, "pod added");
        self.parts.view.show(&pod);
        self.strangers.remove(&uid);
        self.working.insert(uid.clone());
        self.parts.workers.ask(uid, Update::Create(pod)).await;
    }

    async fn changed(&mut self, pod: Arc<Pod>) {
        let uid = view::uid(&pod);
        if self.refused.remove(&uid) || !unsupported(&pod).is_empty() {
            // As if it had come anew: what it relies on may have come or gone.
            if self.working.contains(&uid) {
                let update = Update::Kill { target: Target::Pod(Arc::clone(&pod)), grace: None };
                self.parts.workers.ask(uid, update).await;
            }
            self.added(pod).await;
            return;
        }
        info!(pod = %view::pod_name(&pod), %uid, "pod changed");
        self.parts.view.show(&pod);
        self.parts.workers.ask(uid, Update::Update(pod)).await;
    }

    async fn removed(&mut self, pod: Arc<Pod>) {
        let uid = view::uid(&pod);
        info!(pod = %view::pod_name(&pod), %uid, "pod removed");
        if self.refused.remove(&uid) {
            self.parts.view.hide(&uid);
        } else {
            self.parts.view.ending(&pod);
            let update = Update::Kill { target: Target::Pod(pod), grace: None };
            self.parts.workers.ask(uid, update).await;
        }
    }

    fn refuse(&self, name: &PodName, uid: &PodUid, reason: &'static str, message: &str) {
        let message = format!("Pod was rejected: {message}");
        let event = PodEvent::warning(uid.clone(), name.clone(), reason, message);
        self.parts.events.record(event);
    }

    fn wanted(&self, uid: &PodUid) -> Option<&Arc<Pod>> {
        self.parts.sources.get(uid).filter(|_| !self.refused.contains(uid))
    }

    async fn heard(&mut self, news: News) {
        match news {
            News::Finished(_) => self.tell_desired().await,
            News::Forgotten(uid) => {
                self.working.remove(&uid);
                if let Some(pod) = self.wanted(&uid).cloned() {
                    self.added(pod).await;
                } else {
                    self.parts.view.hide(&uid);
                    // Something of it may have appeared after it was seen to have ended.
                    self.strangers.insert(uid);
                    self.end_strangers().await;
                }
            }
        }
    }

    /// Lets the workers forget what has finished and is not wanted any more.
    async fn tell_desired(&self) {
        let told = self.parts.sources.pods().map(|(uid, _)| uid.clone());
        let desired = told.filter(|uid| !self.refused.contains(uid)).collect();
        self.parts.workers.desired(desired).await;
    }

    async fn happened(&mut self, events: BTreeMap<PodUid, Vec<LifecycleEvent>>) {
        for (uid, events) in events {
            if self.wanted(&uid).is_some() {
                if events.iter().any(LifecycleEvent::wants_sync) {
                    self.parts.workers.ask(uid, Update::Sync).await;
                }
            } else if !self.working.contains(&uid) {
                self.strangers.insert(uid);
            }
        }
        self.end_strangers().await;
    }

    /// Ends pods of the runtime that no source wants, once all have said what they want.
    async fn end_strangers(&mut self) {
        if !self.parts.sources.all_ready() {
            return;
        }
        for uid in std::mem::take(&mut self.strangers) {
            let Ok(status) = self.parts.cache.get(&uid) else { continue };
            let Some(name) = name_if_running(&status) else { continue };
            warn!(pod = %name, %uid, "a pod runs that nobody wants; stopping it");
            self.working.insert(uid.clone());
            let target = Target::RuntimeOnly(name);
            let update = Update::Kill { target, grace: Some(STRANGERS_GRACE) };
            self.parts.workers.ask(uid, update).await;
        }
    }
}

/// The name of a pod of which something runs.
fn name_if_running(status: &PodStatus) -> Option<PodName> {
    if !status.may_be_alive() {
        return None;
    }
    let running = status.maybe_running().next();
    let by_sandbox = status.sandboxes.first().map(|sandbox| sandbox.pod.clone());
    by_sandbox.or_else(|| {
        let label = |name: &str| running.and_then(|container| container.labels.get(name).cloned());
        Some(PodName::new(label(model::labels::POD_NAMESPACE)?, label(model::labels::POD_NAME)?))
    })
}
