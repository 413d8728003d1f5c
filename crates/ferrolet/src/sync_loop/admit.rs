//! Lets pods in once it is known what runs, and makes room for critical ones.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use k8s_openapi::api::core::v1::Pod;
use model::ids::PodUid;
use model::observed::PodStatus;
use model::panics::{PanicStep, PanicSubject};
use model::ports::events::PodEvent;
use pods::decide::admission::{Decision, Occupancy, Preemption, Rejection};
use pods::decide::worker::Target;
use podspec::view;
use runtime::decide::Sizes;
use status::decide::{Failure, ResizeState, StatusOverrides};
use tokio::task::JoinSet;
use tracing::{error, info, warn};

use super::SyncLoop;
use super::fresh_node::{Looked, SecondLooks};
use super::guarded::LoopStep;
use crate::decide::arrival::{Standing, in_order, standing};
use crate::resize_metrics::Trigger;

const PREEMPTING: &str = "Preempting";
const PREEMPTED: &str = "Preempted in order to admit critical pod";
const DISRUPTED: &str = "Pod was preempted by Kubelet to accommodate a critical pod.";

/// The grace of a pod that does not say, which is none.
const NO_GRACE: Duration = Duration::ZERO;

/// Which pods were let in, and which are to be.
#[derive(Debug, Default)]
pub(super) struct Arrivals {
    /// Pods that nobody has decided about, in the order in which they came.
    pub(super) waiting: Vec<PodUid>,
    /// Pods that were let in and take something of the node as long as they have not ended.
    counted: BTreeSet<PodUid>,
    /// Pods that had ended when they came, as far as was known.
    over: BTreeSet<PodUid>,
    /// Pods that were let in and get no worker before others have made room.
    held: BTreeSet<PodUid>,
    /// Pods that only the node's labels are in the way of.
    pub(super) second_looks: SecondLooks,
    /// Pods that make room. Nobody counts them any more.
    leaving: BTreeSet<PodUid>,
    /// Waits for pods to end; what each gives is read by the loop. Dropped with the loop.
    rooms: JoinSet<Room>,
}

/// Pods that ended, or did not, to make room for another.
#[derive(Debug)]
struct Room {
    pod: PodUid,
    resource: String,
    /// Each with whether it has ended in time.
    victims: Vec<(PodUid, bool)>,
}

impl Arrivals {
    /// A pod came that is to be let in.
    pub(super) fn came(&mut self, uid: PodUid) {
        self.counted.remove(&uid);
        self.over.remove(&uid);
        self.second_looks.forget(&uid);
        if !self.waiting.contains(&uid) {
            self.waiting.push(uid);
        }
    }

    /// A pod went.
    pub(super) fn went(&mut self, uid: &PodUid) {
        self.waiting.retain(|waiting| waiting != uid);
        self.counted.remove(uid);
        self.over.remove(uid);
        self.held.remove(uid);
        self.second_looks.forget(uid);
    }

    /// Whether a pod had ended when it came, as far as was known.
    pub(super) fn was_over(&self, uid: &PodUid) -> bool {
        self.over.contains(uid)
    }

    /// Whether nobody has decided about a pod yet.
    pub(super) fn is_waiting(&self, uid: &PodUid) -> bool {
        self.waiting.contains(uid) || self.second_looks.is_waiting(uid)
    }

    /// Whether a pod waits for others to make room, or for a look at the node.
    pub(super) fn is_held(&self, uid: &PodUid) -> bool {
        self.held.contains(uid) || self.second_looks.is_waiting(uid)
    }

    /// Waits until something that a pod waits for is there; for ever while none does.
    pub(super) async fn awaited(&mut self) -> Awaited {
        let Self { rooms, second_looks, .. } = self;
        let room = async {
            match rooms.join_next().await {
                Some(Ok(room)) => RoomMade(Some(room)),
                Some(Err(error)) => {
                    error!(%error, "who waited for room is gone");
                    RoomMade(None)
                }
                None => std::future::pending().await,
            }
        };
        // Biased: each comes once for a pod that waits.
        tokio::select! {
            biased;
            made = room => Awaited::Room(made),
            looked = second_looks.looked() => Awaited::Node(looked),
        }
    }
}

/// What pods wait for before they are let in, or get a worker.
#[derive(Debug)]
pub(super) enum Awaited {
    /// Others have made room.
    Room(RoomMade),
    /// The node's object was looked at.
    Node(Looked),
}

/// That room was made, or that nobody knows whether it was.
#[derive(Debug)]
pub(super) struct RoomMade(Option<Room>);

/// What was decided about the pods that came, while others are still to be.
#[derive(Debug)]
struct SoFar {
    /// What pods take of the node.
    there: Occupancy,
    /// Pods that only the node's labels are in the way of.
    late: BTreeSet<PodUid>,
    /// What containers were given since they were made.
    sizes: Arc<Sizes>,
}

impl SyncLoop {
    /// Decides about the pods that came. Only to be asked once it is known what runs.
    pub(super) async fn admit_waiting(&mut self) {
        let waiting = std::mem::take(&mut self.arrivals.waiting);
        // One that waits after a panic is decided about when that is over.
        let (put_off, waiting): (Vec<_>, Vec<_>) =
            waiting.into_iter().partition(|uid| self.retries.waits(uid));
        self.arrivals.waiting = put_off;
        if waiting.is_empty() {
            return;
        }
        let sizes = self.sizes().await;
        self.meet_node();
        let mut came = Vec::new();
        for uid in waiting {
            let found = self.admission_guarded(&uid, |sync_loop| sync_loop.arrived(&uid, &sizes));
            came.extend(found.flatten());
        }
        let mut so_far = SoFar { there: self.occupancy(), late: BTreeSet::new(), sizes };
        for (pod, standing) in in_order(came) {
            let uid = view::uid(&pod);
            self.admission_guarded(&uid, |sync_loop| {
                sync_loop.admit_one(pod, standing, &mut so_far);
            });
        }
        self.look_at_node(so_far.late);
    }

    /// Does something about the admission of a pod; nothing yet if that panics.
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

    /// A pod that came, with what an earlier agent may have given it: something else than it asks for by now.
    fn arrived(&self, uid: &PodUid, sizes: &Sizes) -> Option<(Arc<Pod>, Standing)> {
        let desired = self.parts.sources.get(uid)?;
        let (lives, status) =
            (self.parts.cache.live(uid).is_some(), self.parts.cache.get(uid).ok());
        let pod = self.parts.allocations.remembered(desired, status.as_deref(), sizes);
        let standing = standing(&pod, lives, status.as_deref());
        Some((pod, standing))
    }

    fn admit_one(&mut self, pod: Arc<Pod>, standing: Standing, so_far: &mut SoFar) {
        let SoFar { there, late, sizes } = so_far;
        let uid = view::uid(&pod);
        let is_last_word = self.arrivals.second_looks.take(&uid) || self.parts.node.is_none();
        let decision = match standing {
            Standing::New => self.parts.admission.decide(&pod, there),
            Standing::Runs | Standing::Over => Decision::Admit,
        };
        match decision {
            Decision::Admit => {}
            Decision::Reject(_)
                if !is_last_word && self.parts.admission.may_be_late(&pod, there) =>
            {
                late.insert(uid);
                return;
            }
            Decision::Reject(rejection) => {
                self.reject(&pod, &rejection);
                // It does not run: what it was given once is nobody's, also when it comes anew.
                self.parts.allocations.forget(&uid);
                return;
            }
            Decision::Preempt(plan) => {
                *there = there.without(&plan.victims);
                self.make_room(&pod, plan);
            }
        }
        info!(pod = %view::pod_name(&pod), %uid, ?standing, "pod taken in");
        if standing == Standing::Over {
            // What it was given once is nobody's: should it start after all, it does as it now asks.
            self.parts.allocations.forget(&uid);
            self.arrivals.over.insert(uid);
        } else {
            self.arrivals.counted.insert(uid.clone());
            if let Some(desired) = self.parts.sources.get(&uid).cloned() {
                self.parts.allocations.let_in(Arc::clone(&desired), Arc::clone(&pod));
                let observed = self.parts.cache.get(&uid).ok();
                self.resumed(&pod, &desired, (observed.as_deref(), sizes));
            }
            there.add(self.parts.resizes.taken(&uid, pod));
        }
    }

    /// Those that were let in and have not ended.
    pub(super) fn active(&self) -> impl Iterator<Item = (&PodUid, &Arc<Pod>)> {
        let (arrivals, states) = (&self.arrivals, self.parts.workers.states());
        let has_ended = move |uid: &PodUid| states.get(uid).is_some_and(|state| state.terminated);
        self.parts.sources.pods().filter(move |(uid, _)| {
            arrivals.counted.contains(*uid) && !arrivals.leaving.contains(*uid) && !has_ended(uid)
        })
    }

    /// What they take of the node.
    pub(super) fn occupancy(&self) -> Occupancy {
        let pods = self.active();
        pods.map(|(uid, pod)| self.parts.resizes.taken(uid, self.allocated(pod))).collect()
    }

    /// The pod does not run, and people hear why.
    pub(super) fn reject(&mut self, pod: &Arc<Pod>, rejection: &Rejection) {
        let Rejection { reason, message } = rejection;
        let (uid, name) = (view::uid(pod), view::pod_name(pod));
        info!(pod = %name, %uid, %reason, %message, "pod refused");
        self.tell_refused(&name, &uid, reason.clone(), message);
        self.parts.admission.metrics.rejected(reason);
        self.parts.status.rejected(pod, reason, &format!("Pod was rejected: {message}"));
        self.arrivals.counted.remove(&uid);
        self.parts.remains.refused(&uid);
        self.refused.insert(uid);
    }

    /// Ends others for a pod, which gets its worker when they have ended or took too long.
    pub(super) fn make_room(&mut self, pod: &Pod, plan: Preemption) {
        let (workers, mut ends) = (self.parts.workers.clone(), Vec::new());
        for uid in plan.victims {
            let Some(victim) = self.parts.sources.get(&uid) else { continue };
            let victim = self.allocated(victim);
            info!(
                pod = %view::pod_name(&victim), %uid, resource = plan.resource,
                critical = %view::pod_name(pod), "pod makes room for a critical one"
            );
            self.tell_preempted(&victim, &uid);
            // One that has no worker yet gets this one, and never another.
            self.work_on(&uid);
            self.arrivals.held.remove(&uid);
            self.arrivals.leaving.insert(uid.clone());
            let workers = workers.clone();
            ends.push(async move {
                let (grace, target) = (grace(&victim), Target::Pod(victim));
                let ended = workers.kill_and_wait(uid.clone(), target, grace, true).await;
                (uid, ended.is_ok())
            });
        }
        let uid = view::uid(pod);
        self.arrivals.held.insert(uid.clone());
        self.arrivals.rooms.spawn(async move {
            Room { pod: uid, resource: plan.resource, victims: join_all(ends).await }
        });
    }

    fn tell_preempted(&self, victim: &Arc<Pod>, uid: &PodUid) {
        let name = view::pod_name(victim);
        let message = PREEMPTED.to_owned();
        let event = PodEvent::warning(uid.clone(), name, PREEMPTING, message.clone());
        self.parts.events.record(event);
        let failure = Failure { reason: PREEMPTING, message, disruption: Some(DISRUPTED) };
        let observed = self.parts.cache.get(uid);
        let observed = observed.unwrap_or_else(|_| Arc::new(PodStatus::empty(uid.clone())));
        let resize =
            ResizeState { pending: self.parts.resizes.pending(uid), ..ResizeState::default() };
        let overrides =
            StatusOverrides { failure: Some(failure), resize, ..StatusOverrides::default() };
        self.parts.status.observed(victim, &observed, &overrides);
    }

    /// Room was made: who waited for it starts, also when others took too long.
    pub(super) async fn room_made(&mut self, made: RoomMade) {
        let RoomMade(Some(Room { pod, resource, victims })) = made else {
            // Nobody will tell any more.
            self.arrivals.held.clear();
            self.arrivals.leaving.clear();
            self.look_after_all(Trigger::PodTerminated).await;
            return;
        };
        for (victim, has_ended) in victims {
            self.arrivals.leaving.remove(&victim);
            if has_ended {
                self.parts.admission.metrics.preempted(&resource);
            } else {
                warn!(uid = %victim, "a pod takes too long to make room");
            }
        }
        self.arrivals.held.remove(&pod);
        self.look_after_all(Trigger::PodTerminated).await;
    }
}

/// How long a pod may take to end, as it says itself.
fn grace(pod: &Pod) -> Duration {
    let seconds = view::spec(pod).and_then(|spec| spec.termination_grace_period_seconds);
    let seconds = seconds.and_then(|seconds| u64::try_from(seconds).ok());
    seconds.map_or(NO_GRACE, Duration::from_secs)
}
