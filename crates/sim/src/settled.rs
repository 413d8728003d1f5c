//! Whether a node matches its manifests.

mod leftovers;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use gc::policy::ContainerPolicy;
use jiff::SignedDuration;
use model::cgroup::cpu;
use model::ids::{ContainerId, PodUid, SandboxId};
use model::observed::ContainerState;
use podspec::definition_hash_hex;

use crate::history::Instance;
use crate::plan::{ContainerPlan, PodPlan, Policy};

/// How long an ended container may wait for its restart: five minutes of back-off, and the time until the next
/// sync.
const LONGEST_WAIT: Duration = Duration::from_mins(7);

/// How long after its deadline a pod must have ended, its grace aside.
const AFTER_DEADLINE: Duration = Duration::from_mins(3);

const MEBIBYTE: i64 = 1 << 20;

/// The wanted pods.
pub type Wanted = BTreeMap<PodUid, Arc<PodPlan>>;

/// The state of a node.
#[derive(Debug, Clone, Default)]
pub struct Snapshot {
    /// The time.
    pub at: Duration,
    /// All containers.
    pub containers: Vec<Instance>,
    /// All sandboxes.
    pub sandboxes: Vec<SandboxSeen>,
    /// The CPU shares of containers, where known.
    pub shares: BTreeMap<ContainerId, i64>,
    /// The memory limits of containers in bytes, where known.
    pub memory: BTreeMap<ContainerId, i64>,
    /// Pods with a cgroup.
    pub cgroups: BTreeSet<PodUid>,
    /// Pods with a log directory.
    pub logs: BTreeSet<PodUid>,
    /// Dangling log links of removed containers.
    pub dangling: Vec<String>,
    /// The caps and the minimum age of dead containers.
    pub policy: ContainerPolicy,
    /// The ages of containers by the node's clock, as the minimum age counts them.
    pub ages: BTreeMap<ContainerId, SignedDuration>,
    /// The time until which stopped containers may live; used where a pod that is about to end is
    /// accepted.
    pub ending: BTreeMap<ContainerId, Duration>,
    /// The deadlines of ended containers to restart, if they are earlier than the longest wait.
    pub start_by: BTreeMap<ContainerId, Duration>,
    /// Pods that may count as finished without a record, and may run as well.
    pub late_removals: BTreeSet<PodUid>,
    /// Containers whose last instance was removed by a cap, so that no record of their run is left.
    pub capped: BTreeSet<(PodUid, Arc<str>)>,
    /// Live containers, with the ended one that restarts the whole pod.
    pub due: BTreeMap<ContainerId, ContainerId>,
    /// The longest time that each pod may have run, by the node's clock: since its first sandbox, which may be
    /// removed, and before the clock was set back.
    pub longest: BTreeMap<PodUid, SignedDuration>,
    /// The longest time that each pod may have been wanted, by the clock of the node.
    pub wanted_for: BTreeMap<PodUid, SignedDuration>,
    /// How much longer a wait may have taken because the node's clock was set back meanwhile.
    pub set_back: Duration,
}

/// A sandbox of a snapshot.
#[derive(Debug, Clone)]
pub struct SandboxSeen {
    /// Its id.
    pub id: SandboxId,
    /// Its pod.
    pub uid: PodUid,
    /// When it was created.
    pub made: Duration,
    /// Its age by the node's clock, which may have been set since.
    pub age: SignedDuration,
    /// Whether it is ready.
    pub ready: bool,
}

impl Snapshot {
    fn latest(&self, uid: &PodUid, name: &str) -> Option<&Instance> {
        let instances = self.containers.iter().filter(|one| one.uid == *uid && *one.name == *name);
        instances.max_by_key(|one| (one.attempt, one.started))
    }

    /// Whether a container has no instance because a cap removed the last one.
    fn is_capped(&self, uid: &PodUid, name: &str) -> bool {
        let is_it = |(of, taken): &(PodUid, Arc<str>)| of == uid && **taken == *name;
        self.capped.iter().any(is_it) && self.latest(uid, name).is_none()
    }

    pub(crate) fn lives(&self, uid: &PodUid) -> bool {
        self.ready_sandboxes(uid) > 0
            || self.containers.iter().any(|one| one.uid == *uid && one.may_live())
    }

    /// Whether an ended pod still lives, and none of its containers is within its grace.
    fn outlives_grace(&self, uid: &PodUid) -> bool {
        let has_time = |one: &Instance| {
            one.may_live() && self.ending.get(&one.id).is_some_and(|until| self.at <= *until)
        };
        self.lives(uid) && !self.containers.iter().any(|one| one.uid == *uid && has_time(one))
    }

    /// Whether a container of a pod lives that should have been stopped for a restart of the whole pod.
    fn outlives(&self, uid: &PodUid) -> Option<String> {
        let mut live = self.containers.iter().filter(|one| one.uid == *uid && one.may_live());
        let (id, ended) = live.find_map(|one| self.due.get_key_value(&one.id))?;
        Some(format!("{id} lives, although {ended} restarts the whole pod"))
    }

    /// Whether the deadline of a pod has not passed, by the node's current clock. If it never got a sandbox,
    /// only the agent of that time knows whether it had passed.
    pub(crate) fn has_time(&self, uid: &PodUid, pod: Option<&PodPlan>) -> bool {
        let deadline = pod.and_then(|pod| pod.deadline).map(Duration::from_secs);
        let age = self.sandboxes_of(uid).map(|sandbox| sandbox.age).max();
        let age = age.map(|age| Duration::try_from(age).unwrap_or_default());
        deadline.is_some_and(|deadline| age.is_none_or(|age| age < deadline))
    }

    fn ready_sandboxes(&self, uid: &PodUid) -> usize {
        self.sandboxes_of(uid).filter(|sandbox| sandbox.ready).count()
    }

    fn newest_sandbox(&self, uid: &PodUid) -> Option<&SandboxSeen> {
        self.sandboxes_of(uid).max_by_key(|sandbox| sandbox.made)
    }

    pub(crate) fn sandboxes_of(&self, uid: &PodUid) -> impl Iterator<Item = &SandboxSeen> {
        self.sandboxes.iter().filter(move |sandbox| sandbox.uid == *uid)
    }
}

/// The first problem of the node, if any.
pub fn unsettled(snapshot: &Snapshot, wanted: &Wanted) -> Option<String> {
    if let Some(why) = leftovers::left(snapshot, wanted).or_else(|| leftovers::over_caps(snapshot))
    {
        return Some(why);
    }
    let is_astray = |uid: &&PodUid| snapshot.lives(uid) && !snapshot.cgroups.contains(*uid);
    if let Some(uid) = wanted.keys().find(is_astray) {
        return Some(format!("{uid} lives and has no cgroup"));
    }
    // A pod with policy Never gets no other sandbox after it lost one, regardless of the restart rules
    // of its containers.
    let may_be_over = |pod: &PodPlan| pod.may_finish() || pod.policy == Policy::Never;
    let is_excused = |uid: &PodUid, pod: &PodPlan| {
        may_be_over(pod) && snapshot.late_removals.contains(uid) && !snapshot.lives(uid)
    };
    wanted.iter().filter(|(uid, pod)| !is_excused(uid, pod)).find_map(|(uid, pod)| {
        unsettled_pod(snapshot, uid, pod).map(|why| format!("{} ({uid}): {why}", pod.name))
    })
}

fn unsettled_pod(snapshot: &Snapshot, uid: &PodUid, pod: &PodPlan) -> Option<String> {
    if let Some(deadline) = pod.deadline {
        let is_up = |age: SignedDuration| {
            Duration::try_from(age).is_ok_and(|age| age >= Duration::from_secs(deadline))
        };
        let Some(age) = snapshot.sandboxes_of(uid).map(|sandbox| sandbox.age).max() else {
            // Its deadline may have passed before it could get one.
            let is_over = snapshot.wanted_for.get(uid).copied().is_some_and(is_up);
            return (!is_over).then(|| "no sandbox".to_owned());
        };
        let over = Duration::from_secs(deadline + pod.grace) + AFTER_DEADLINE;
        let over = Duration::try_from(age).is_ok_and(|age| age > over);
        // It may have been blocked until now; then its grace period starts now.
        if over && snapshot.outlives_grace(uid) {
            return Some("lives after its deadline".to_owned());
        }
        // Until then it is an ordinary pod. Afterwards it terminates, regardless of which
        // containers have run.
        let longest = snapshot.longest.get(uid).map_or(age, |longest| age.max(*longest));
        if is_up(longest) {
            return None;
        }
    }
    // It counts as having run even if caps removed all its instances.
    let ran = snapshot.containers.iter().any(|one| one.uid == *uid)
        || pod.all().any(|container| snapshot.is_capped(uid, container.name));
    if pod.policy == Policy::Never && ran && snapshot.ready_sandboxes(uid) == 0 {
        // Its sandbox died, and it gets no other: containers that have not run by then never will.
        return snapshot.lives(uid).then(|| "has lost its sandbox and lives".to_owned());
    }
    // Then it does not matter what its init containers would do in a new sandbox.
    let ended_for_good = |container: &ContainerPlan| {
        let ended = |one: &&Instance| one.state == Some(ContainerState::Exited);
        let latest = snapshot.latest(uid, container.name).filter(ended);
        latest.is_some_and(|latest| !container.restarts(pod.policy, latest.exit_code))
    };
    let is_capped = |container: &ContainerPlan| snapshot.is_capped(uid, container.name);
    if pod.containers.iter().all(ended_for_good) {
        return snapshot.outlives_grace(uid).then(|| "has finished and lives".to_owned());
    }
    if let Some(why) = snapshot.outlives(uid).filter(|_| snapshot.outlives_grace(uid)) {
        return Some(why);
    }
    match init_of(snapshot, uid, pod) {
        Init::Done => {}
        Init::UnderWay => return None,
        Init::Wrong(why) => return Some(why),
    }
    let mut lasts = false;
    for container in pod.containers.iter().filter(|container| !is_capped(container)) {
        let latest = snapshot.latest(uid, container.name);
        let restarts = |code| container.restarts(pod.policy, code);
        match state_of(snapshot, latest, container, restarts) {
            Ok(over) => lasts |= !over,
            Err(why) => return Some(why),
        }
        if let Some(why) = wrong_resources(snapshot, latest, pod) {
            return Some(why);
        }
    }
    if let Some(why) = wrong_sidecar(snapshot, uid, pod).filter(|_| lasts) {
        return Some(why);
    }
    let ready = snapshot.ready_sandboxes(uid);
    (ready != 1).then(|| format!("{ready} of its sandboxes are ready"))
}

/// The problem of a running container's resources.
fn wrong_resources(
    snapshot: &Snapshot,
    latest: Option<&Instance>,
    pod: &PodPlan,
) -> Option<String> {
    let running = latest.filter(|one| one.state == Some(ContainerState::Running))?;
    let (name, shares) = (&running.name, cpu::shares(pod.milli()).cast_signed());
    if let Some(has) = snapshot.shares.get(&running.id).filter(|has| **has != shares) {
        return Some(format!("{name} has {has} shares, not {shares}"));
    }
    let memory = 2 * pod.mebibytes() * MEBIBYTE;
    let has = snapshot.memory.get(&running.id).filter(|has| **has != memory)?;
    Some(format!("{name} may use {has} bytes, not {memory}"))
}

/// The problem of a sidecar whose pod still runs: it must run too, regardless of its exit code, in the
/// newest sandbox.
fn wrong_sidecar(snapshot: &Snapshot, uid: &PodUid, pod: &PodPlan) -> Option<String> {
    let newest = snapshot.newest_sandbox(uid);
    let sidecars = pod.init.iter().filter(|init| init.sidecar);
    sidecars.filter(|sidecar| !snapshot.is_capped(uid, sidecar.name)).find_map(|sidecar| {
        let latest = snapshot.latest(uid, sidecar.name);
        if let Err(why) = state_of(snapshot, latest, sidecar, |_| true) {
            return Some(why);
        }
        let is_elsewhere = |one: &Instance| newest.is_some_and(|newest| one.sandbox != newest.id);
        if latest.is_some_and(is_elsewhere) {
            return Some(format!("{} is not in the newest sandbox", sidecar.name));
        }
        wrong_resources(snapshot, latest, pod)
    })
}

/// Whether a container has ended for good or will; or its problem.
fn state_of(
    snapshot: &Snapshot,
    latest: Option<&Instance>,
    container: &ContainerPlan,
    restarts: impl Fn(i32) -> bool,
) -> Result<bool, String> {
    let name = container.name;
    let Some(latest) = latest else { return Err(format!("{name} has not run")) };
    match latest.state {
        Some(ContainerState::Running) => {
            if latest.definition == definition_hash_hex(name, container.image) {
                Ok(false)
            } else {
                Err(format!("{name} runs with another definition"))
            }
        }
        Some(ContainerState::Exited) if restarts(latest.exit_code) => {
            let since = snapshot.at.saturating_sub(latest.finished.unwrap_or_default());
            let is_late = snapshot.start_by.get(&latest.id).is_some_and(|by| snapshot.at > *by);
            if is_late || since > LONGEST_WAIT + snapshot.set_back {
                return Err(format!("{name} ended {since:?} ago and was not started again"));
            }
            Ok(false)
        }
        Some(ContainerState::Exited) => Ok(true),
        state => Err(format!("{name} is {state:?}")),
    }
}

/// The progress of a pod's init containers.
#[derive(Debug)]
enum Init {
    /// All are done, or there are none.
    Done,
    /// One of them runs or will run again; or the pod has failed with one.
    UnderWay,
    Wrong(String),
}

fn init_of(snapshot: &Snapshot, uid: &PodUid, pod: &PodPlan) -> Init {
    // In a new sandbox they run again.
    let newest = snapshot.newest_sandbox(uid);
    let latest = |container: &ContainerPlan| {
        let latest = snapshot.latest(uid, container.name);
        latest.filter(|latest| newest.is_none_or(|newest| latest.sandbox == newest.id))
    };
    let ran = |container: &ContainerPlan| latest(container).is_some();
    let regular: Vec<&Instance> = pod.containers.iter().filter_map(latest).collect();
    // The terminated containers are no proof: init containers that a cap removed run again, and may fail then.
    let is_newer = |init: &Instance| regular.iter().all(|one| one.created < init.created);
    let mut init = pod.init.iter().filter(|init| !init.sidecar);
    let starts_over =
        init.any(|init| snapshot.is_capped(uid, init.name) || latest(init).is_some_and(is_newer));
    if !(regular.is_empty() || starts_over && !regular.iter().any(|one| one.may_live())) {
        return Init::Done;
    }
    let failed = |init: &ContainerPlan| {
        let ended =
            |one: &&Instance| one.state == Some(ContainerState::Exited) && one.exit_code != 0;
        let latest = snapshot.latest(uid, init.name).filter(ended);
        latest.is_some_and(|latest| !init.restarts(pod.policy, latest.exit_code))
    };
    // With one of them the pod has failed: sidecars before it do not restart.
    if pod.init.iter().any(|init| !init.sidecar && failed(init)) && !snapshot.lives(uid) {
        return Init::UnderWay;
    }
    let last = pod.init.iter().rposition(ran);
    for (number, init) in pod.init.iter().enumerate() {
        // It may run again, regardless of its exit code.
        if snapshot.is_capped(uid, init.name) {
            return Init::UnderWay;
        }
        let latest = snapshot.latest(uid, init.name);
        // An init container with a later one in the sandbox has ended there, or their order would have been
        // broken. A late call may have created another instance since, or have removed it.
        let is_passed = !init.sidecar && last.is_some_and(|last| number < last);
        let may_run = |one: &Instance| one.state != Some(ContainerState::Created);
        if is_passed && !latest.is_some_and(may_run) {
            continue;
        }
        let restarts = |code| init.sidecar || (code != 0 && init.restarts(pod.policy, code));
        match state_of(snapshot, latest, init, restarts) {
            Err(why) => return Init::Wrong(why),
            Ok(false) if init.sidecar => {}
            Ok(false) if snapshot.ready_sandboxes(uid) != 1 => {
                return Init::Wrong(format!("{} waits without a sandbox", init.name));
            }
            Ok(false) => return Init::UnderWay,
            Ok(true) if latest.is_some_and(|latest| latest.exit_code != 0) => {
                if snapshot.outlives_grace(uid) {
                    return Init::Wrong("its init containers failed and the pod lives".to_owned());
                }
                return Init::UnderWay;
            }
            Ok(true) => {}
        }
    }
    Init::Done
}

#[cfg(test)]
#[path = "settled_tests.rs"]
pub(crate) mod tests;
