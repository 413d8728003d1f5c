//! Which regular passes list the runtime, and what waits for what.

use std::collections::BTreeSet;
use std::time::Duration;

use jiff::Timestamp;
use model::observed::{ContainerState, RuntimePodStatus, SandboxState, SandboxStatus};
use model::pod_state::PodState;

/// How many consecutive regular passes may skip the runtime. The full list is only a safety net: every known
/// change is handled without it.
const PASSED_OVER_AT_MOST: u32 = 9;

/// The maximum time that the collection of gone pods waits for terminating pods.
pub const LONGEST_HOLD: Duration = Duration::from_secs(10);

/// Whether the collection of gone pods, which has waited for `waited`, waits on: the runtime is busy with
/// terminating pods, and users wait for those.
pub fn is_held(any_terminating: bool, waited: Duration) -> bool {
    any_terminating && waited < LONGEST_HOLD
}

/// Who removes the exited containers of a pod.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RemovedBy {
    /// Not yet: a source that reports late may have the pod.
    NotYet,
    /// Immediately, by the deletor: containers beyond the cap of each container, or all containers of
    /// the pod by this rule.
    Deletor(Option<&'static str>),
    /// By a pass over the pod, once no pod is being terminated.
    HeldPass,
}

/// Who removes the exited containers of a pod in this state.
pub fn removed_by(state: PodState, sources_ready: bool, any_terminating: bool) -> RemovedBy {
    match state.content_removable().filter(|_| sources_ready) {
        _ if state == PodState::SourcesNotReady => RemovedBy::NotYet,
        Some(_) if any_terminating => RemovedBy::HeldPass,
        all => RemovedBy::Deletor(all),
    }
}

/// Whether a pod has nothing to collect: it has one sandbox, and all its objects live.
pub fn is_whole(status: &RuntimePodStatus) -> bool {
    let lives = |sandbox: &SandboxStatus| sandbox.state == SandboxState::Ready;
    status.sandboxes.len() == 1
        && status.sandboxes.iter().all(lives)
        && status.instances().all(|one| one.state == ContainerState::Running)
}

/// How long an exceeded cap waits for more exits, so that many exits cause one check.
pub const GATHERING: Duration = Duration::from_secs(1);

/// The minimum time between a full pass and another early one. A crashing container waits that long for its
/// second start: if a small cap removes its instances, the back-off is lost.
pub const WHOLE_PASSES_APART: Duration = Duration::from_secs(10);

/// The delay until a pass for containers that reach the minimum age after `left`. Passes keep a distance,
/// so that consecutive exits do not cause one pass each.
pub fn ripens_in(left: Duration, since_last: Option<Duration>) -> Duration {
    let apart = since_last.map(|since| WHOLE_PASSES_APART.saturating_sub(since));
    left.max(GATHERING).max(apart.unwrap_or_default())
}

/// The exited containers of a pod.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ExitedContainers {
    /// The number of exited containers.
    pub count: usize,
    /// The number of them that are not needed. The last instance is needed to compute the back-off of a restart, or
    /// to prevent one.
    pub spare: usize,
    /// When the oldest of all was created.
    pub oldest: Option<Timestamp>,
}

/// The exited containers of a pod. With `ended`, none of its containers will start again.
pub fn dead_of(status: &RuntimePodStatus, ended: bool) -> ExitedContainers {
    let mut names = BTreeSet::new();
    let mut dead = ExitedContainers::default();
    for one in status.instances() {
        // The newest instance of each name comes first.
        let is_newest = names.insert(one.name);
        if one.state == ContainerState::Exited {
            dead.count += 1;
            dead.spare += usize::from(ended || !is_newest);
            dead.oldest = Some(dead.oldest.map_or(one.created_at, |it| it.min(one.created_at)));
        }
    }
    dead
}

/// The creation time of the oldest exited container, if the node has more than its cap and some of them are
/// spare.
pub fn over_cap_since<'a>(
    cap: usize,
    pods: impl Iterator<Item = &'a ExitedContainers>,
) -> Option<Timestamp> {
    let mut all = ExitedContainers::default();
    for pod in pods {
        all.count += pod.count;
        all.spare += pod.spare;
        all.oldest = [all.oldest, pod.oldest].into_iter().flatten().min();
    }
    all.oldest.filter(|_| all.count > cap && all.spare > 0)
}

/// The state between regular passes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct LastPass {
    /// Whether the last pass left nothing to do: nothing failed, and no container waits for the minimum age.
    pub settled: bool,
    /// How many passes have skipped the runtime since the last list.
    pub passed_over: u32,
}

/// Whether a regular pass lists the runtime: after changes that concern more than a few pods, after a pass that
/// left something to do, or after enough skipped passes.
pub fn reads_the_runtime(last: LastPass, changed: bool) -> bool {
    changed || !last.settled || last.passed_over >= PASSED_OVER_AT_MOST
}

/// Whether a regular pass that does not list the runtime lists logs and links: when a pod changed or a plan
/// found something to remove; or when the directories changed since a survey that found nothing. A dangling
/// link whose log directory stays is found by the next full pass, or by a plan.
pub fn looks_at_files<T: PartialEq>(last: Option<&T>, now: &T, pods_changed: bool) -> bool {
    pods_changed || last != Some(now)
}

#[cfg(test)]
mod tests {
    use ContainerState::{Created, Exited, Running};
    use SandboxState::{NotReady, Ready};
    use model::pod_state::WorkerState;
    use testkit::observed;

    use super::*;

    // behaviour: GC-5, GC-76
    #[test]
    fn exited_container_is_removed_by_the_deletor_or_with_its_pod() {
        use RemovedBy::{Deletor, HeldPass, NotYet};
        let evicted = PodState::Known(WorkerState { evicted: true, ..WorkerState::default() });
        let active = PodState::Known(WorkerState::default());
        // The pod state, whether all sources are ready, and whether other pods are terminating.
        let rows = [
            (PodState::Gone, true, false, Deletor(Some("pod-is-gone"))),
            (PodState::Gone, true, true, HeldPass),
            (PodState::Gone, false, true, Deletor(None)),
            (evicted, true, false, Deletor(Some("pod-evicted"))),
            (evicted, true, true, HeldPass),
            (evicted, false, false, Deletor(None)),
            (active, true, false, Deletor(None)),
            (active, true, true, Deletor(None)),
            (PodState::Desired, true, true, Deletor(None)),
            (PodState::SourcesNotReady, true, false, NotYet),
            (PodState::SourcesNotReady, false, true, NotYet),
        ];
        for (state, sources_ready, any_terminating, expected) in rows {
            let by = removed_by(state, sources_ready, any_terminating);
            assert_eq!(by, expected, "{state:?} {sources_ready} {any_terminating}");
        }
    }

    // behaviour: GC-76
    #[test]
    fn held_pass_waits_for_terminating_pods_up_to_a_limit() {
        let just_before = LONGEST_HOLD.saturating_sub(Duration::from_millis(1));
        let rows = [
            (false, Duration::ZERO, false),
            (true, Duration::ZERO, true),
            (true, just_before, true),
            (true, LONGEST_HOLD, false),
        ];
        for (any_terminating, waited, expected) in rows {
            assert_eq!(is_held(any_terminating, waited), expected, "{any_terminating} {waited:?}");
        }
    }

    // behaviour: GC-82
    #[test]
    fn pod_with_only_live_containers_is_not_collected() {
        let rows: [(&[SandboxState], &[ContainerState], bool); 7] = [
            (&[Ready], &[], true),
            (&[Ready], &[Running, Running], true),
            (&[Ready], &[Running, Exited], false),
            (&[Ready], &[Created], false),
            (&[NotReady], &[], false),
            (&[Ready, NotReady], &[Running], false),
            (&[], &[], false),
        ];
        for (sandboxes, containers, whole) in rows {
            let status = observed::pod_status(sandboxes, containers);
            assert_eq!(is_whole(&status), whole, "{sandboxes:?} {containers:?}");
        }
    }

    // behaviour: GC-82
    #[test]
    fn directories_are_listed_when_they_or_pods_changed() {
        let rows = [(None, false, true), (Some(7), false, false), (Some(6), false, true)];
        for (last, pods_changed, expected) in rows.into_iter().chain([(Some(7), true, true)]) {
            let looks = looks_at_files(last.as_ref(), &7, pods_changed);
            assert_eq!(looks, expected, "{last:?} {pods_changed}");
        }
    }

    // behaviour: GC-82
    #[test]
    fn runtime_of_an_idle_node_is_listed_every_tenth_pass() {
        let last = |settled, passed_over| LastPass { settled, passed_over };
        let rows = [
            (LastPass::default(), false, true),
            (last(true, 0), false, false),
            (last(true, 8), false, false),
            (last(true, 9), false, true),
            (last(true, 0), true, true),
            (last(false, 0), false, true),
        ];
        for (last, changed, expected) in rows {
            assert_eq!(reads_the_runtime(last, changed), expected, "{last:?} {changed}");
        }
    }

    // behaviour: GC-110
    #[test]
    fn minimum_age_passes_are_ten_seconds_apart() {
        let rows = [
            (0, None, 1),
            (5, None, 5),
            (0, Some(0), 10),
            (3, Some(4), 6),
            (8, Some(4), 8),
            (0, Some(9), 1),
            (0, Some(60), 1),
            (90, Some(0), 90),
        ];
        for (left, since_last, expected) in rows {
            let seconds = Duration::from_secs;
            let wait = ripens_in(seconds(left), since_last.map(seconds));
            assert_eq!(wait, seconds(expected), "{left} {since_last:?}");
        }
    }

    // behaviour: GC-108
    #[test]
    fn instances_needed_for_a_restart_are_not_spare() {
        let (ready, seconds) = ([Ready], |s| Timestamp::from_second(s).unwrap());
        let rows: [(&[ContainerState], bool, usize, usize); 6] = [
            (&[], false, 0, 0),
            (&[Running], false, 0, 0),
            (&[Exited], false, 1, 0),
            (&[Exited], true, 1, 1),
            (&[Running, Exited, Exited], false, 2, 2),
            (&[Exited, Created, Exited], false, 2, 1),
        ];
        for (containers, ended, count, spare) in rows {
            let dead = dead_of(&observed::pod_status(&ready, containers), ended);
            assert_eq!((dead.count, dead.spare), (count, spare), "{containers:?} {ended}");
        }
        let dead =
            |count, spare, oldest| ExitedContainers { count, spare, oldest: Some(seconds(oldest)) };
        let rows = [
            (vec![], 0, None),
            (vec![dead(2, 2, 5)], 2, None),
            (vec![dead(2, 2, 5), dead(1, 0, 3)], 2, Some(seconds(3))),
            (vec![dead(3, 0, 5)], 2, None),
        ];
        for (pods, cap, expected) in rows {
            assert_eq!(over_cap_since(cap, pods.iter()), expected, "{pods:?} {cap}");
        }
    }
}
