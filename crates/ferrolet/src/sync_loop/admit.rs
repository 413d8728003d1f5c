//! Admits pods once the runtime was listed, and terminates others for critical ones.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use allocation::Trigger;
use allocation::decide::admission::Occupancy;
use allocation::decide::{AdmissionDecision, Arrival, Standing, in_order, standing};
use futures_util::future::join_all;
use k8s_openapi::api::core::v1::Pod;
use model::admission::Preemption;
use model::ids::PodUid;
use model::panics::{PanicStep, PanicSubject};
use model::pod_failure::PodFailure;
use model::ports::events::PodEvent;
use pods::decide::intake::{self, IntakeCommand, IntakeEvent, Room};
use pods::decide::worker::Target;
use podspec::{Sizes, view};
use tokio::task::JoinSet;
use tracing::{error, info, warn};

use super::SyncLoop;
use super::guarded::LoopStep;

const PREEMPTING: &str = "Preempting";
const PREEMPTED: &str = "Preempted in order to admit critical pod";
const DISRUPTED: &str = "Pod was preempted by Kubelet to accommodate a critical pod.";

/// The grace period of a victim that specifies none.
const NO_GRACE: Duration = Duration::ZERO;

/// Waits for the victims of critical pods. Dropped with the loop.
#[derive(Debug, Default)]
pub(super) struct Preemptions(JoinSet<PreemptionResult>);

/// The grace periods of the victims of a critical pod are over.
#[derive(Debug)]
pub(super) struct PreemptionResult {
    uid: PodUid,
    resource: String,
    /// Each victim with whether it has terminated in time.
    victims: Vec<(PodUid, bool)>,
}

impl Preemptions {
    /// Waits until the grace periods of a pod's victims are over; never returns without any. `None` if a wait was
    /// lost.
    pub(super) async fn next_result(&mut self) -> Option<PreemptionResult> {
        match self.0.join_next().await {
            Some(Ok(room)) => Some(room),
            Some(Err(error)) => {
                error!(%error, "Wait for preempted pods was lost");
                None
            }
            None => std::future::pending().await,
        }
    }
}

/// One round of admission.
#[derive(Debug)]
struct Round {
    /// The resources that pods use.
    there: Occupancy,
    /// Pods for which node labels are the sole obstacle.
    refresh: BTreeSet<PodUid>,
    /// Changed sizes of containers.
    sizes: Arc<Sizes>,
}

impl SyncLoop {
    /// Decides about the admission of the pods that wait for it. Admitted pods get their workers.
    pub(super) async fn admit_waiting(&mut self) {
        let waiting = self.intake.awaiting_admission().into_iter();
        // A pod that waits after a panic is decided about when that is over.
        let waiting: Vec<PodUid> = waiting.filter(|uid| !self.retries.waits(uid)).collect();
        if waiting.is_empty() {
            return;
        }
        let sizes = self.sizes().await;
        self.update_node();
        let mut arrived = Vec::new();
        for uid in waiting {
            let found = self.admission_guarded(&uid, |sync_loop| sync_loop.arrived(&uid, &sizes));
            arrived.extend(found.flatten());
        }
        let mut round = Round { there: self.occupancy(), refresh: BTreeSet::new(), sizes };
        for (pod, standing) in in_order(arrived) {
            let uid = view::uid(&pod);
            let decided = self
                .admission_guarded(&uid, |sync_loop| sync_loop.admit(pod, standing, &mut round));
            self.execute_all(decided.unwrap_or_default()).await;
        }
        self.refresh_node(round.refresh);
    }

    /// Runs a step of the admission of a pod; a step that panics is repeated.
    fn admission_guarded<T>(
        &mut self,
        uid: &PodUid,
        work: impl FnOnce(&mut Self) -> T,
    ) -> Option<T> {
        let (guard, name) = (self.parts.panics.clone(), self.known_name(uid));
        let of = PanicSubject::Pod(uid, name.as_ref());
        let done = guard.catch(PanicStep::SyncLoop, of, || work(self));
        if done.is_err() {
            self.panicked(uid, LoopStep::Admit);
        }
        done.ok()
    }

    /// A pod with the resources that an earlier agent may have allocated and that it may no longer request.
    fn arrived(&self, uid: &PodUid, sizes: &Sizes) -> Option<(Arc<Pod>, Standing)> {
        let desired = self.intake.pod(uid)?;
        let (lives, status) =
            (self.parts.cache.live(uid).is_some(), self.parts.cache.get(uid).ok());
        let pod = self.parts.allocation.restored(desired, status.as_deref(), sizes);
        let standing = standing(&pod, lives, status.as_deref());
        Some((pod, standing))
    }

    fn admit(
        &mut self,
        pod: Arc<Pod>,
        standing: Standing,
        round: &mut Round,
    ) -> Vec<IntakeCommand> {
        let uid = view::uid(&pod);
        let is_final = self.intake.is_node_refreshed(&uid) || self.parts.node.is_none();
        let arrival = Arrival { pod: Arc::clone(&pod), standing, is_final };
        let decision = self.parts.allocation.decide(&arrival, &round.there);
        match &decision {
            AdmissionDecision::Admit { occupies: false } => {
                // If it starts after all, it does so with its requests at that time.
                self.parts.allocation.forget(&uid);
            }
            AdmissionDecision::Admit { occupies: true } => self.allocate(&pod, round),
            AdmissionDecision::Preempt(plan) => {
                round.there = round.there.without(&plan.victims);
                self.allocate(&pod, round);
            }
            AdmissionDecision::RefreshNode => {
                round.refresh.insert(uid.clone());
            }
            AdmissionDecision::Reject(_) => {}
        }
        let decision = match decision {
            AdmissionDecision::Admit { occupies } => {
                info!(pod = %view::pod_name(&pod), %uid, ?standing, "Pod admitted");
                intake::AdmissionDecision::Admit { occupies }
            }
            AdmissionDecision::RefreshNode => intake::AdmissionDecision::RefreshNode,
            AdmissionDecision::Reject(rejection) => {
                intake::AdmissionDecision::Reject { pod, rejection }
            }
            AdmissionDecision::Preempt(plan) => {
                return self.decide(IntakeEvent::Preempts(uid, plan));
            }
        };
        self.decide(IntakeEvent::Decided(uid, decision))
    }

    fn allocate(&mut self, pod: &Arc<Pod>, round: &mut Round) {
        let uid = view::uid(pod);
        if let Some(desired) = self.intake.pod(&uid) {
            let observed = self.parts.cache.get(&uid).ok();
            self.parts.allocation.admit(desired, pod, observed.as_deref(), &round.sizes);
        }
        round.there.add(self.parts.allocation.taken(&uid, Arc::clone(pod)));
    }

    /// Allocates resources for a pod that had finished and runs again.
    pub(super) async fn readmit(&mut self, uid: &PodUid) {
        let sizes = self.sizes().await;
        let Some((pod, _)) = self.arrived(uid, &sizes) else { return };
        let mut round = Round { there: Occupancy::default(), refresh: BTreeSet::new(), sizes };
        self.allocate(&pod, &mut round);
    }

    /// The admitted pods that have not terminated.
    pub(super) fn active(&self) -> impl Iterator<Item = (&PodUid, &Arc<Pod>)> {
        let states = self.parts.workers.states();
        let has_ended = move |uid: &PodUid| states.get(uid).is_some_and(|state| state.terminated);
        self.intake.occupying().filter(move |(uid, _)| !has_ended(uid))
    }

    /// The resources that they use.
    pub(super) fn occupancy(&self) -> Occupancy {
        let pods = self.active();
        pods.map(|(uid, pod)| self.parts.allocation.taken(uid, self.allocated(pod))).collect()
    }

    /// Terminates the victims of a pod. It is reported when they have terminated or took too long.
    pub(super) fn preempt(&mut self, uid: &PodUid, plan: Preemption) {
        let critical = self.known_name(uid).map(|name| name.to_string()).unwrap_or_default();
        let mut ends = Vec::new();
        for victim_uid in plan.victims {
            let Some(victim) = self.intake.pod(&victim_uid) else { continue };
            let victim = self.allocated(victim);
            info!(
                pod = %view::pod_name(&victim), uid = %victim_uid, resource = plan.resource,
                critical, "Preempting pod"
            );
            self.report_preempted(&victim, &victim_uid);
            let workers = self.parts.workers.clone();
            ends.push(async move {
                let (grace, target) = (grace(&victim), Target::Pod(victim));
                let message = PREEMPTED.to_owned();
                let disruption = Some(DISRUPTED.into());
                let failure = PodFailure { reason: PREEMPTING, message, disruption };
                let ended = workers.evict_and_wait(victim_uid.clone(), target, grace, failure);
                let ended = ended.await;
                (victim_uid, ended.is_ok())
            });
        }
        let (uid, resource) = (uid.clone(), plan.resource);
        self.preemptions.0.spawn(async move {
            PreemptionResult { uid, resource, victims: join_all(ends).await }
        });
    }

    fn report_preempted(&self, victim: &Arc<Pod>, uid: &PodUid) {
        let name = view::pod_name(victim);
        let event = PodEvent::warning(uid.clone(), name, PREEMPTING, PREEMPTED.to_owned());
        self.parts.events.record(event);
    }

    /// Starts the pod that waited for victims, also if they took too long.
    pub(super) async fn finish_preemption(&mut self, made: Option<PreemptionResult>) {
        let room = match made {
            None => {
                self.parts.allocation.rooms_lost();
                None
            }
            Some(PreemptionResult { uid, resource, victims }) => {
                for (victim, has_ended) in &victims {
                    if *has_ended {
                        self.parts.allocation.metrics.preempted(&resource);
                    } else {
                        warn!(uid = %victim, "Preempted pod did not terminate in time");
                    }
                }
                self.parts.allocation.room_made(&uid);
                let victims = victims.into_iter().map(|(victim, _)| victim).collect();
                Some(Room { uid, victims })
            }
        };
        self.feed(IntakeEvent::RoomMade(room)).await;
        self.reconcile_all(Trigger::PodTerminated).await;
    }
}

/// The grace period that a victim specifies.
fn grace(pod: &Pod) -> Duration {
    let seconds = view::spec(pod).and_then(|spec| spec.termination_grace_period_seconds);
    let seconds = seconds.and_then(|seconds| u64::try_from(seconds).ok());
    seconds.map_or(NO_GRACE, Duration::from_secs)
}
