//! Feeds events into the intake, and executes its commands.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::Pod;
use model::admission::Rejection;
use model::ids::{PodName, PodUid};
use pods::decide::intake::{IntakeCommand, IntakeContext, IntakeEvent, OutdatedCopies, PodChecks};
use pods::decide::worker::{Target, Update};
use podspec::view;
use tracing::{info, warn};

use super::SyncLoop;
use crate::decide::incidents;

/// The grace period of an orphan whose specification is unknown.
const ORPHAN_GRACE: Duration = Duration::from_secs(1);

/// The input of the intake, at one time.
struct Snapshot {
    live: Arc<BTreeMap<PodUid, PodName>>,
    outdated: OutdatedCopies,
    removing: BTreeSet<PodUid>,
}

impl SyncLoop {
    /// Feeds an event into the intake, and executes the resulting commands.
    pub(super) async fn feed(&mut self, event: IntakeEvent) {
        let commands = self.decide(event);
        self.execute_all(commands).await;
    }

    /// Feeds an event into the intake. Writes the index of pods before any command is executed.
    pub(super) fn decide(&mut self, event: IntakeEvent) -> Vec<IntakeCommand> {
        let Snapshot { live, outdated, removing } = self.snapshot();
        let around = IntakeContext { live: &live, outdated: &outdated, removing: &removing };
        let uid = event.uid().cloned();
        let commands = self.intake.step(event, &around);
        let index = &self.parts.gc.index;
        match uid {
            Some(uid) => {
                for uid in commands.iter().map(IntakeCommand::uid).chain([&uid]) {
                    index.update(uid, self.intake.index_entry(uid));
                }
            }
            None => index.replace(self.intake.index()),
        }
        commands
    }

    fn snapshot(&self) -> Snapshot {
        let live = self.parts.cache.all_live();
        let outdated = self.outdated_copies(&live);
        Snapshot { live, outdated, removing: self.removals.running().clone() }
    }

    /// What is wrong with the listed version of a pod.
    pub(super) fn checks(&self, uid: &PodUid) -> PodChecks {
        let chain = &self.parts.allocation.chain;
        let checked =
            |pod| PodChecks { on_arrival: chain.unsupported(pod), on_update: chain.refusal(pod) };
        self.intake.pod(uid).map(|pod| checked(pod)).unwrap_or_default()
    }

    /// Executes a command. Awaits channels only.
    pub(super) async fn execute(&mut self, command: IntakeCommand) {
        match command {
            IntakeCommand::Show(uid) => self.show(&uid),
            IntakeCommand::Forget(uid) => {
                self.parts.status.forgotten(&uid);
                self.parts.allocation.forget(&uid);
            }
            IntakeCommand::Reject { uid, pod, rejection, terminate } => {
                self.reject(&pod, &rejection);
                let pod = self.allocated(&pod);
                self.parts.allocation.forget(&uid);
                if terminate {
                    self.parts.workers.update(uid, kill(pod)).await;
                }
            }
            IntakeCommand::CreateWorker(uid) => {
                let Some(pod) = self.intake.pod(&uid) else { return };
                let pod = self.allocated(pod);
                self.parts.workers.update(uid, Update::Create(pod)).await;
            }
            IntakeCommand::RestartWorker(uid) => {
                let Some(pod) = self.intake.pod(&uid).cloned() else { return };
                self.parts.workers.update(uid, Update::Create(pod)).await;
            }
            IntakeCommand::UpdateWorker(uid) => {
                let Some(pod) = self.intake.pod(&uid).cloned() else { return };
                // A resize that it requests is decided with all others.
                let pod = self.parts.allocation.update(&pod);
                self.parts.workers.update(uid, Update::Update(pod)).await;
            }
            IntakeCommand::SyncWorker(uid) => self.parts.workers.update(uid, Update::Sync).await,
            IntakeCommand::Terminate { uid, pod } => {
                info!(pod = %view::pod_name(&pod), %uid, "Pod removed");
                self.parts.status.terminating(&pod);
                // After the steps that may panic: it is still needed if the command is repeated.
                self.parts.allocation.forget(&uid);
                self.parts.workers.update(uid, kill(pod)).await;
            }
            IntakeCommand::TerminateOrphan { uid, name, spec } => {
                self.terminate_orphan(uid, name, spec).await;
            }
            IntakeCommand::Preempt { uid, plan } => self.preempt(&uid, plan),
            IntakeCommand::Readmit(uid) => self.readmit(&uid).await,
            IntakeCommand::CleanUp(uid) => {
                self.removals.request(uid.clone());
                self.remove_directories();
                self.parts.gc.ended(&uid);
            }
        }
    }

    fn show(&self, uid: &PodUid) {
        let Some(pod) = self.intake.pod(uid) else { return };
        let state = self.intake.state(uid);
        info!(pod = %view::pod_name(pod), %uid, ?state, "Pod added or updated");
        self.parts.status.desired(pod);
    }

    fn reject(&self, pod: &Arc<Pod>, rejection: &Rejection) {
        let Rejection { reason, message } = rejection;
        let (uid, name) = (view::uid(pod), view::pod_name(pod));
        info!(pod = %name, %uid, %reason, %message, "Pod rejected");
        self.record_warning(&name, &uid, reason.clone(), message);
        self.parts.incidents.record_incident(incidents::rejection(pod, rejection));
        self.parts.allocation.metrics.rejected(reason);
        self.parts.status.rejected(pod, reason, &format!("Pod was rejected: {message}"));
        self.parts.gc.rejected(&uid);
    }

    async fn terminate_orphan(&mut self, uid: PodUid, name: PodName, spec: Option<Arc<Pod>>) {
        warn!(pod = %name, %uid, "Stopping orphaned pod");
        if let Some(pod) = &spec {
            self.parts.status.terminating(pod);
        }
        self.parts.metrics.orphaned();
        self.parts.workers.update(uid, kill_orphan(spec, name)).await;
    }
}

/// Terminates a pod with its own grace period.
fn kill(pod: Arc<Pod>) -> Update {
    Update::Kill { target: Target::Pod(pod), grace: None, failure: None }
}

/// Terminates a running pod without a worker: with its own grace period if its specification is known.
fn kill_orphan(spec: Option<Arc<Pod>>, name: PodName) -> Update {
    let (target, grace) = (Target::RuntimeOnly(name), Some(ORPHAN_GRACE));
    spec.map_or(Update::Kill { target, grace, failure: None }, kill)
}

#[cfg(test)]
mod tests {
    use super::*;

    // behaviour: WRK-7, WRK-20
    #[test]
    fn orphan_terminates_with_its_own_grace_period_or_a_short_one() {
        let name = PodName::new("default", "web");
        let pod = Arc::new(testkit::pods::pod("web").build());
        let known = kill_orphan(Some(Arc::clone(&pod)), name.clone());
        assert_eq!(known, Update::Kill { target: Target::Pod(pod), grace: None, failure: None });
        let grace = Some(Duration::from_secs(1));
        let target = Target::RuntimeOnly(name.clone());
        assert_eq!(kill_orphan(None, name), Update::Kill { target, grace, failure: None });
    }
}
