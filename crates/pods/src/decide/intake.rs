//! Pod intake: one entry for each pod UID that a source lists, a worker has or the start may still find running.
//!
//! ```text
//!             changed             admitted           no obstacle
//!   New ──────────> AwaitingAdmission ────> Admitted ────────────> Working <──> Preempted
//!    │  ^               │  ^    │ rejected                           │ removed     │
//!    │  │               v  │    └──────> Rejected { worker: false }   v             v
//!    │  │   AwaitingNodeRefresh             │ found live     Terminating <──────────┘
//!    │  │                                   v                        │ worker forgotten
//!    │  └──────────────── Rejected { worker: true } ─────────────────┴──> gone, or as changed from New
//!    └─ removed, the start is not over ──> RemovedBeforeFirstList
//! ```
//!
//! An entry stores the listing (the current state of the sources) and the state (the progress of the node). The two
//! disagree only while an event of the pod is outstanding.

mod copies;
mod entry;
mod events;
mod passes;
mod queries;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use k8s_openapi::api::core::v1::Pod;
use model::admission::Preemption;
use model::ids::{PodName, PodUid};

pub use copies::{LivePod, OutdatedCopies, StoredCopy, outdated_copies};
use entry::{Entry, Origin};
pub use entry::{IntakeState, Listing};
pub use events::{AdmissionDecision, IntakeCommand, IntakeEvent, PodChecks, Room};
pub use passes::Passes;
pub use queries::IndexEntry;

/// All pods of the node. Owned by the sync loop.
#[derive(Debug, Default)]
pub struct Intake {
    pods: BTreeMap<PodUid, Entry>,
    /// All pods that are admitted and have no worker, and pods that were so since the last start of waiting pods.
    awaiting_start: BTreeSet<PodUid>,
    /// Stored manifest copies that are older than a running pod, as of the last [`IntakeEvent::Reconcile`].
    outdated: OutdatedCopies,
    /// Whether every source has listed its pods.
    all_ready: bool,
    /// Whether the runtime was listed. Before that no pod starts: it may be running.
    relisted: bool,
    /// The number of pods that have arrived for admission.
    arrivals: u64,
}

/// The state of the node around the intake.
#[derive(Debug, Clone, Copy)]
pub struct IntakeContext<'a> {
    /// Pods that may have live containers or sandboxes in the runtime.
    pub live: &'a BTreeMap<PodUid, PodName>,
    /// Stored manifest copies that are older than a running pod.
    pub outdated: &'a OutdatedCopies,
    /// Pods whose directory is being removed: they do not start meanwhile.
    pub removing: &'a BTreeSet<PodUid>,
}

impl Intake {
    /// Processes an event; returns the commands in the order in which they must be executed.
    pub fn step(&mut self, event: IntakeEvent, around: &IntakeContext<'_>) -> Vec<IntakeCommand> {
        let (mut commands, uid) = (Vec::new(), event.uid().cloned());
        match event {
            IntakeEvent::Sources { pods, undecodable, all_ready } => {
                self.all_ready = all_ready;
                self.list(pods, undecodable);
            }
            IntakeEvent::Relisted => self.relisted = true,
            IntakeEvent::PodChanged { uid, checks } => {
                self.changed(&uid, checks, around, &mut commands);
            }
            IntakeEvent::PodRemoved { uid, pod } => self.removed(uid, pod, &mut commands),
            IntakeEvent::Decided(uid, decision) => {
                self.decided(&uid, decision, around, &mut commands);
            }
            IntakeEvent::Preempts(uid, plan) => self.preempts(uid, plan, &mut commands),
            IntakeEvent::NodeRefreshed(pods) => self.node_refreshed(pods.as_ref()),
            IntakeEvent::RoomMade(room) => self.room_made(room.as_ref(), around, &mut commands),
            IntakeEvent::RuntimeChanged { uid, needs_sync } => {
                self.runtime_changed(&uid, needs_sync, around, &mut commands);
            }
            IntakeEvent::WorkerForgotten { uid, checks } => {
                self.worker_forgotten(&uid, checks, around, &mut commands);
            }
            IntakeEvent::Reconcile => self.reconcile(around, &mut commands),
        }
        self.drop_unused(uid.as_ref());
        commands
    }

    /// Drops entries that are unused after an event: the entry of its pod, or the entries of all
    /// pods.
    fn drop_unused(&mut self, uid: Option<&PodUid>) {
        match uid {
            Some(uid) if self.pods.get(uid).is_some_and(Entry::is_unused) => {
                self.pods.remove(uid);
            }
            Some(_) => {}
            None => self.pods.retain(|_, entry| !entry.is_unused()),
        }
    }

    fn list(&mut self, pods: BTreeMap<PodUid, Arc<Pod>>, undecodable: BTreeSet<PodUid>) {
        for entry in self.pods.values_mut() {
            entry.listing = None;
        }
        for uid in undecodable {
            self.pods.entry(uid).or_default().listing = Some(Listing::Undecodable);
        }
        for (uid, pod) in pods {
            self.pods.entry(uid).or_default().listing = Some(Listing::Pod(pod));
        }
    }

    fn changed(
        &mut self,
        uid: &PodUid,
        checks: PodChecks,
        around: &IntakeContext<'_>,
        commands: &mut Vec<IntakeCommand>,
    ) {
        let Some(entry) = self.pods.get_mut(uid) else { return };
        let Some(pod) = entry.pod().cloned() else { return };
        let (origin, worker) = (Origin::of(&pod), entry.state.has_worker());
        let is_rejected = matches!(entry.state, IntakeState::Rejected { .. });
        if is_rejected && origin == Origin::Api {
            commands.push(IntakeCommand::Show(uid.clone()));
            return;
        }
        if is_rejected && origin == Origin::Static {
            commands.push(IntakeCommand::Forget(uid.clone()));
        }
        let rejection = if worker { checks.on_update } else { checks.on_arrival };
        if let Some(rejection) = rejection.filter(|_| origin == Origin::Static) {
            entry.state = IntakeState::Rejected { worker };
            entry.awaits_room = false;
            let uid = uid.clone();
            commands.push(IntakeCommand::Reject { uid, pod, rejection, terminate: worker });
            return;
        }
        commands.push(IntakeCommand::Show(uid.clone()));
        match &entry.state {
            IntakeState::Rejected { worker: true }
            | IntakeState::Terminating { restart: false } => {
                let restart = !around.removing.contains(uid);
                entry.state = IntakeState::Terminating { restart };
                commands.extend(restart.then(|| IntakeCommand::RestartWorker(uid.clone())));
            }
            IntakeState::Working { .. }
            | IntakeState::Preempted
            | IntakeState::Terminating { restart: true } => {
                commands.push(IntakeCommand::UpdateWorker(uid.clone()));
            }
            IntakeState::AwaitingAdmission { arrival, .. } => {
                let arrival = *arrival;
                entry.state = IntakeState::AwaitingAdmission { arrival, node_refreshed: false };
            }
            IntakeState::New
            | IntakeState::AwaitingNodeRefresh
            | IntakeState::Admitted { .. }
            | IntakeState::Rejected { worker: false }
            | IntakeState::RemovedBeforeFirstList(_) => {
                self.arrivals += 1;
                let arrival = self.arrivals;
                entry.state = IntakeState::AwaitingAdmission { arrival, node_refreshed: false };
            }
        }
    }

    fn removed(&mut self, uid: PodUid, pod: Arc<Pod>, commands: &mut Vec<IntakeCommand>) {
        let is_started = self.is_started();
        let entry = self.pods.entry(uid.clone()).or_default();
        entry.awaits_room = false;
        if entry.state.has_worker() {
            entry.state = IntakeState::Terminating { restart: false };
            commands.push(IntakeCommand::Terminate { uid, pod });
            return;
        }
        // Only a pod of an earlier agent can run without a worker, and the agent finds these when it
        // starts.
        entry.state =
            if is_started { IntakeState::New } else { IntakeState::RemovedBeforeFirstList(pod) };
        commands.push(IntakeCommand::Forget(uid));
    }

    fn decided(
        &mut self,
        uid: &PodUid,
        decision: AdmissionDecision,
        around: &IntakeContext<'_>,
        commands: &mut Vec<IntakeCommand>,
    ) {
        let entry = self.pods.get_mut(uid);
        let Some(entry) = entry.filter(|entry| entry.state.awaits_admission()) else { return };
        match decision {
            AdmissionDecision::Admit { occupies } => {
                entry.state = IntakeState::Admitted { occupies };
                self.awaiting_start.insert(uid.clone());
                self.start(uid, around, commands);
            }
            AdmissionDecision::Reject { pod, rejection } => {
                entry.state = IntakeState::Rejected { worker: false };
                let uid = uid.clone();
                commands.push(IntakeCommand::Reject { uid, pod, rejection, terminate: false });
            }
            AdmissionDecision::RefreshNode => entry.state = IntakeState::AwaitingNodeRefresh,
        }
    }

    fn preempts(&mut self, uid: PodUid, mut plan: Preemption, commands: &mut Vec<IntakeCommand>) {
        let Some(entry) = self.pods.get_mut(&uid) else { return };
        entry.awaits_room = true;
        if entry.state.awaits_admission() {
            entry.state = IntakeState::Admitted { occupies: true };
            self.awaiting_start.insert(uid.clone());
        }
        plan.victims.retain(|victim| {
            let entry = self.pods.get_mut(victim);
            let Some(entry) = entry.filter(|entry| entry.state.is_admitted()) else { return false };
            entry.state = IntakeState::Preempted;
            entry.awaits_room = false;
            true
        });
        commands.push(IntakeCommand::Preempt { uid, plan });
    }

    fn node_refreshed(&mut self, pods: Option<&BTreeSet<PodUid>>) {
        for (uid, entry) in &mut self.pods {
            if entry.state == IntakeState::AwaitingNodeRefresh
                && pods.is_none_or(|pods| pods.contains(uid))
            {
                self.arrivals += 1;
                let arrival = self.arrivals;
                entry.state = IntakeState::AwaitingAdmission { arrival, node_refreshed: true };
            }
        }
    }

    fn room_made(
        &mut self,
        room: Option<&Room>,
        around: &IntakeContext<'_>,
        commands: &mut Vec<IntakeCommand>,
    ) {
        for (uid, entry) in &mut self.pods {
            if room.is_none_or(|room| room.uid == *uid) {
                entry.awaits_room = false;
            }
            if entry.state == IntakeState::Preempted
                && room.is_none_or(|room| room.victims.contains(uid))
            {
                entry.state = IntakeState::Working { occupies: true };
            }
        }
        self.start_all(around, commands);
    }

    fn runtime_changed(
        &mut self,
        uid: &PodUid,
        needs_sync: bool,
        around: &IntakeContext<'_>,
        commands: &mut Vec<IntakeCommand>,
    ) {
        self.terminate_if_orphaned(uid, around, commands);
        if let Some(entry) = self.pods.get_mut(uid) {
            // What showed that it had finished may have been left over from an earlier life.
            if entry.state == (IntakeState::Working { occupies: false })
                && around.live.contains_key(uid)
            {
                entry.state = IntakeState::Working { occupies: true };
                commands.push(IntakeCommand::Readmit(uid.clone()));
            }
            if needs_sync && entry.is_desired() && entry.state.has_worker() {
                commands.push(IntakeCommand::SyncWorker(uid.clone()));
            }
        }
        // It may have blocked a static pod of its name.
        self.start_all(around, commands);
    }

    fn worker_forgotten(
        &mut self,
        uid: &PodUid,
        checks: PodChecks,
        around: &IntakeContext<'_>,
        commands: &mut Vec<IntakeCommand>,
    ) {
        commands.push(IntakeCommand::Forget(uid.clone()));
        let entry = self.pods.entry(uid.clone()).or_default();
        entry.state = match entry.state {
            IntakeState::Rejected { .. } => IntakeState::Rejected { worker: false },
            _ => IntakeState::New,
        };
        if entry.pod().is_some() {
            self.changed(uid, checks, around, commands);
        } else {
            commands.push(IntakeCommand::CleanUp(uid.clone()));
            // Containers or sandboxes of the pod may have appeared after it was observed as
            // terminated.
            self.terminate_if_orphaned(uid, around, commands);
        }
    }

    fn reconcile(&mut self, around: &IntakeContext<'_>, commands: &mut Vec<IntakeCommand>) {
        if !self.relisted {
            return;
        }
        self.outdated.clone_from(around.outdated);
        // Orphans first: a static pod waits for the worker of an orphan that has its name.
        for uid in around.live.keys() {
            self.terminate_if_orphaned(uid, around, commands);
        }
        self.start_all(around, commands);
        if self.is_started() {
            for entry in self.pods.values_mut() {
                if let IntakeState::RemovedBeforeFirstList(_) = entry.state {
                    entry.state = IntakeState::New;
                }
            }
        }
    }

    fn terminate_if_orphaned(
        &mut self,
        uid: &PodUid,
        around: &IntakeContext<'_>,
        commands: &mut Vec<IntakeCommand>,
    ) {
        let Some(name) = around.live.get(uid) else { return };
        let is_kept = around.outdated.kept_running.contains(uid);
        let is_orphaned = self.pods.get(uid).is_none_or(Entry::is_unwanted);
        if !self.all_ready || is_kept || !is_orphaned {
            return;
        }
        let entry = self.pods.entry(uid.clone()).or_default();
        let spec = match &entry.state {
            IntakeState::RemovedBeforeFirstList(pod) => Some(Arc::clone(pod)),
            _ => None,
        };
        entry.state = match entry.state {
            IntakeState::Rejected { .. } => IntakeState::Rejected { worker: true },
            _ => IntakeState::Terminating { restart: false },
        };
        let (uid, name) = (uid.clone(), name.clone());
        commands.push(IntakeCommand::TerminateOrphan { uid, name, spec });
    }

    fn start_all(&mut self, around: &IntakeContext<'_>, commands: &mut Vec<IntakeCommand>) {
        let mut waiting = std::mem::take(&mut self.awaiting_start);
        for uid in &waiting {
            self.start(uid, around, commands);
        }
        waiting.retain(|uid| self.pods.get(uid).is_some_and(Entry::is_awaiting_start));
        self.awaiting_start = waiting;
    }

    /// Creates the worker of an admitted pod, unless something blocks it.
    fn start(
        &mut self,
        uid: &PodUid,
        around: &IntakeContext<'_>,
        commands: &mut Vec<IntakeCommand>,
    ) {
        let Some(entry) = self.pods.get(uid) else { return };
        let IntakeState::Admitted { occupies } = entry.state else { return };
        let is_blocked = !entry.is_desired()
            || entry.awaits_room
            || around.removing.contains(uid)
            || around.outdated.held.contains(uid)
            || self.is_name_taken(uid, entry, around);
        if !is_blocked && let Some(entry) = self.pods.get_mut(uid) {
            entry.state = IntakeState::Working { occupies };
            commands.push(IntakeCommand::CreateWorker(uid.clone()));
        }
    }

    /// Whether a running pod without a worker has the name of a static pod: it may belong to a source that has not
    /// listed its pods, or must not be terminated. Workers of one name start in turn.
    fn is_name_taken(&self, uid: &PodUid, entry: &Entry, around: &IntakeContext<'_>) -> bool {
        let Some(name) = entry.static_name() else { return false };
        let is_run = |other: &PodUid| {
            self.pods.get(other).is_some_and(|entry| {
                let is_started = entry.is_desired() && !around.outdated.held.contains(other);
                is_started || entry.state.has_worker()
            })
        };
        around.live.iter().any(|(other, of)| *of == name && other != uid && !is_run(other))
    }
}

#[cfg(test)]
#[path = "intake/laws_tests.rs"]
mod laws;
#[cfg(test)]
#[path = "intake/support_tests.rs"]
mod support;
#[cfg(test)]
mod tests;
