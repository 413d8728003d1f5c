//! Whether a node is as its manifests say.

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

/// How long a container that ended may wait for its next start: five minutes of back-off, and the time
/// until somebody looks.
const LONGEST_WAIT: Duration = Duration::from_mins(7);

/// How long after its deadline a pod has ended, its grace aside.
const AFTER_DEADLINE: Duration = Duration::from_mins(3);

const MEBIBYTE: i64 = 1 << 20;

/// The pods that are wanted.
pub type Wanted = BTreeMap<PodUid, Arc<PodPlan>>;

/// Everything of a node at a moment.
#[derive(Debug, Clone, Default)]
pub struct Snapshot {
    /// When.
    pub at: Duration,
    /// All containers.
    pub containers: Vec<Instance>,
    /// All sandboxes.
    pub sandboxes: Vec<SandboxSeen>,
    /// The share of the processors that containers have, where that is known.
    pub shares: BTreeMap<ContainerId, i64>,
    /// The bytes of memory that containers may use, where that is known.
    pub memory: BTreeMap<ContainerId, i64>,
    /// Pods that have a cgroup.
    pub cgroups: BTreeSet<PodUid>,
    /// Pods that have a directory of logs.
    pub logs: BTreeSet<PodUid>,
    /// Links to logs that are not there, of containers that are gone.
    pub dangling: Vec<String>,
    /// How many dead containers are kept, and for how long.
    pub policy: ContainerPolicy,
    /// How old containers are by the node's clock, as that counts for their removal.
    pub ages: BTreeMap<ContainerId, SignedDuration>,
    /// Until when containers may live that were asked to end, where a pod that is about to end will do.
    pub ending: BTreeMap<ContainerId, Duration>,
    /// By when containers that ended start again, where they do so before the longest wait is over.
    pub start_by: BTreeMap<ContainerId, Duration>,
    /// Pods that may look finished without a trace, and may as well run.
    pub late_removals: BTreeSet<PodUid>,
    /// Containers of which a cap took the last instance, so that nobody knows that they ran.
    pub capped: BTreeSet<(PodUid, Arc<str>)>,
    /// Containers that live, and another one of their pod that has ended so that all start over.
    pub due: BTreeMap<ContainerId, ContainerId>,
    /// How long each pod may ever have been thought to run, by the node's clock: since its first sandbox,
    /// which may be gone, and before the clock was set back.
    pub longest: BTreeMap<PodUid, SignedDuration>,
    /// The longest time that each pod may be thought to have been wanted, by the same.
    pub wanted_for: BTreeMap<PodUid, SignedDuration>,
    /// How much longer a wait may have taken because the node's clock was set back in it.
    pub set_back: Duration,
}

/// A sandbox of a snapshot.
#[derive(Debug, Clone)]
pub struct SandboxSeen {
    /// Its id.
    pub id: SandboxId,
    /// Whose.
    pub uid: PodUid,
    /// When it was made.
    pub made: Duration,
    /// How old it is by the node's clock, which may have been set since.
    pub age: SignedDuration,
    /// Whether it is ready.
    pub ready: bool,
}

impl Snapshot {
    fn latest(&self, uid: &PodUid, name: &str) -> Option<&Instance> {
        let instances = self.containers.iter().filter(|one| one.uid == *uid && *one.name == *name);
        instances.max_by_key(|one| (one.attempt, one.started))
    }

    /// Whether there is no instance of a container because a cap took the last one.
    fn is_capped(&self, uid: &PodUid, name: &str) -> bool {
        let is_it = |(of, taken): &(PodUid, Arc<str>)| of == uid && **taken == *name;
        self.capped.iter().any(is_it) && self.latest(uid, name).is_none()
    }

    pub(crate) fn lives(&self, uid: &PodUid) -> bool {
        self.ready_sandboxes(uid) > 0
            || self.containers.iter().any(|one| one.uid == *uid && one.may_live())
    }

    /// Whether a pod that has come to its end lives, and nothing of it still has the grace to end in.
    fn lingers(&self, uid: &PodUid) -> bool {
        let has_time = |one: &Instance| {
            one.may_live() && self.ending.get(&one.id).is_some_and(|until| self.at <= *until)
        };
        self.lives(uid) && !self.containers.iter().any(|one| one.uid == *uid && has_time(one))
    }

    /// Whether a container of a pod lives that should have ended with another.
    fn outlives(&self, uid: &PodUid) -> Option<String> {
        let mut live = self.containers.iter().filter(|one| one.uid == *uid && one.may_live());
        let (id, ended) = live.find_map(|one| self.due.get_key_value(&one.id))?;
        Some(format!("{id} lives, and all start over since {ended} ended"))
    }

    /// Whether the time of a pod is not up, by the node's clock as it is now. Of one that never got a sandbox only who
    /// waited in vain for it knows that its time was up.
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

/// What is not as it should be, if anything.
pub fn unsettled(snapshot: &Snapshot, wanted: &Wanted) -> Option<String> {
    if let Some(why) = leftovers::left(snapshot, wanted).or_else(|| leftovers::over_caps(snapshot))
    {
        return Some(why);
    }
    let is_astray = |uid: &&PodUid| snapshot.lives(uid) && !snapshot.cgroups.contains(*uid);
    if let Some(uid) = wanted.keys().find(is_astray) {
        return Some(format!("{uid} lives and has no cgroup"));
    }
    // One that is never restarted gets no other sandbox for the one that it lost, whatever its containers say.
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
            // Its time may have been up before it could get one.
            let is_over = snapshot.wanted_for.get(uid).copied().is_some_and(is_up);
            return (!is_over).then(|| "it has no sandbox".to_owned());
        };
        let over = Duration::from_secs(deadline + pod.grace) + AFTER_DEADLINE;
        let over = Duration::try_from(age).is_ok_and(|age| age > over);
        // What holds it up may have ended just now, and it has its grace from then on.
        if over && snapshot.lingers(uid) {
            return Some("it lives after its deadline".to_owned());
        }
        // Until then it is a pod as any other. Afterwards it ends, whatever has run of it.
        let longest = snapshot.longest.get(uid).map_or(age, |longest| age.max(*longest));
        if is_up(longest) {
            return None;
        }
    }
    // It has run also if caps have taken all that showed it.
    let ran = snapshot.containers.iter().any(|one| one.uid == *uid)
        || pod.all().any(|container| snapshot.is_capped(uid, container.name));
    if pod.policy == Policy::Never && ran && snapshot.ready_sandboxes(uid) == 0 {
        // Its sandbox died under it, and it gets no other: what has not run by then never will.
        return snapshot.lives(uid).then(|| "it has lost its sandbox and lives".to_owned());
    }
    // Then it does not matter what its init containers would do in a new sandbox.
    let ended_for_good = |container: &ContainerPlan| {
        let ended = |one: &&Instance| one.state == Some(ContainerState::Exited);
        let latest = snapshot.latest(uid, container.name).filter(ended);
        latest.is_some_and(|latest| !container.restarts(pod.policy, latest.exit_code))
    };
    let is_capped = |container: &ContainerPlan| snapshot.is_capped(uid, container.name);
    if pod.containers.iter().all(ended_for_good) {
        return snapshot.lingers(uid).then(|| "it has finished and lives".to_owned());
    }
    if let Some(why) = snapshot.outlives(uid).filter(|_| snapshot.lingers(uid)) {
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

/// What a container that runs has, and should not.
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

/// What is wrong with a sidecar of a pod whose others run, or will again: beside them it runs too, whatever it
/// ended with, in their sandbox.
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

/// Whether a container has ended for good, or else is on its way; or what is wrong with it.
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

/// Where a pod is with its init containers.
#[derive(Debug)]
enum Init {
    /// The others may run, or there are none.
    Done,
    /// One of them runs or waits to run again; or the pod has ended over one.
    UnderWay,
    Wrong(String),
}

fn init_of(snapshot: &Snapshot, uid: &PodUid, pod: &PodPlan) -> Init {
    // In a new sandbox they start over.
    let newest = snapshot.newest_sandbox(uid);
    let latest = |container: &ContainerPlan| {
        let latest = snapshot.latest(uid, container.name);
        latest.filter(|latest| newest.is_none_or(|newest| latest.sandbox == newest.id))
    };
    let ran = |container: &ContainerPlan| latest(container).is_some();
    let regular: Vec<&Instance> = pod.containers.iter().filter_map(latest).collect();
    // What ended says nothing of them: where a cap took them they run again, and may fail this time.
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
    // With one of them the pod has failed: sidecars that came before it do not start again.
    if pod.init.iter().any(|init| !init.sidecar && failed(init)) && !snapshot.lives(uid) {
        return Init::UnderWay;
    }
    let last = pod.init.iter().rposition(ran);
    for (number, init) in pod.init.iter().enumerate() {
        // It may start over, whatever came of it.
        if snapshot.is_capped(uid, init.name) {
            return Init::UnderWay;
        }
        let latest = snapshot.latest(uid, init.name);
        // Who has one after it in the sandbox has ended there, or that would have broken their order. A call that was
        // given up may have made another since, or have removed it.
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
                if snapshot.lingers(uid) {
                    return Init::Wrong("its init containers failed and it lives".to_owned());
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
