//! Properties of sandboxes, logs, links and early removals.

use std::cmp::Reverse;
use std::collections::BTreeSet;
use std::path::Path;

use jiff::Timestamp;
use model::ids::{PodName, PodUid, SandboxId};
use model::observed::{ContainerState, RuntimePodStatus, Sandbox, SandboxState};
use model::pod_state::{PodState, WorkerState};
use model::verdict::Subject;
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::subsequence;
use testkit::observed;

use super::Facts;
use super::deletor::{DeletorScope, beyond};
use super::links::{LinkTarget, dangling};
use super::logs::logs;
use super::sandboxes::sandboxes;
use super::test_pods::Pods;
use crate::plan::{Fate, Item};
use crate::policy::ContainerPolicy;

const UIDS: [&str; 4] = ["p0", "p1", "p2", "p3"];

/// A possible pod state; a pod is gone only once all sources are ready.
fn state(sources_ready: bool) -> impl Strategy<Value = PodState> {
    let unknown = if sources_ready { PodState::Gone } else { PodState::SourcesNotReady };
    let known = any::<(bool, bool, bool)>().prop_map(|(evicted, deleted, terminated)| {
        PodState::Known(WorkerState { evicted, deleted, terminated })
    });
    prop_oneof![3 => known, 1 => Just(PodState::Desired), 1 => Just(unknown)]
}

/// A node: the states of its pods, and whether all sources are ready.
fn node() -> impl Strategy<Value = ([PodState; 4], Pods)> {
    any::<bool>().prop_flat_map(|ready| {
        let states = [state(ready), state(ready), state(ready), state(ready)];
        states.prop_map(move |states| {
            let ready_pods = Pods::ready();
            let pods = if ready { ready_pods } else { ready_pods.sources_not_ready() };
            let known = UIDS.iter().zip(states);
            (states, known.fold(pods, |pods, (uid, state)| pods.set(uid, state)))
        })
    })
}

/// Whether the pod is known to exist, and was not terminated by the node.
fn exists(state: PodState) -> bool {
    match state {
        PodState::Known(WorkerState { evicted, deleted, .. }) => !evicted && !deleted,
        PodState::Desired | PodState::SourcesNotReady | PodState::Unknown => true,
        PodState::Gone => false,
    }
}

fn all_sandboxes() -> impl Strategy<Value = Vec<Sandbox>> {
    let one = (0..UIDS.len(), 0..3_u32, 0..5_i64, any::<bool>());
    vec(one, 0..12).prop_map(|drawn| {
        let sandbox =
            |(id, (pod, attempt, created, ready)): (usize, (usize, u32, i64, bool))| Sandbox {
                id: format!("s{id}").into(),
                pod_uid: UIDS[pod].into(),
                pod: PodName::new("ns", UIDS[pod]),
                attempt,
                state: if ready { SandboxState::Ready } else { SandboxState::NotReady },
                created_at: Timestamp::from_second(created).unwrap(),
            };
        drawn.into_iter().enumerate().map(sandbox).collect()
    })
}

fn gone(items: &[Item]) -> BTreeSet<String> {
    let gone = items.iter().filter(|item| item.fate == Fate::Remove);
    gone.map(|item| item.subject.id().into_owned()).collect()
}

fn drawn_container() -> impl Strategy<Value = (bool, ContainerState)> {
    use ContainerState::{Created, Exited, Running, Unknown};
    (
        any::<bool>(),
        prop_oneof![5 => Just(Exited), 1 => Just(Created), 1 => Just(Running), 1 => Just(Unknown)],
    )
}

proptest! {
    // behaviour: GC-41, GC-42, GC-44, GC-48
    #[test]
    fn ready_used_and_newest_sandboxes_of_existing_pods_stay(
        (states, pods) in node(),
        listed in all_sandboxes(),
        used in subsequence((0..12).collect::<Vec<usize>>(), 0..4),
        aggressive in any::<bool>(),
    ) {
        let in_use: BTreeSet<SandboxId> = used.iter().map(|id| format!("s{id}").into()).collect();
        let (policy, now) = (ContainerPolicy::default(), Timestamp::from_second(100).unwrap());
        let facts = Facts { pods: &pods, policy: &policy, aggressive, now };
        let items = sandboxes(&listed, &in_use, &facts);
        prop_assert_eq!(items.len(), listed.len());
        let gone = gone(&items);
        for (uid, state) in UIDS.iter().zip(states) {
            let mut of_pod: Vec<&Sandbox> =
                listed.iter().filter(|one| one.pod_uid.as_str() == *uid).collect();
            of_pod.sort_by_key(|one| Reverse((one.attempt, one.created_at, &one.id)));
            for (position, sandbox) in of_pod.into_iter().enumerate() {
                let may_end = aggressive && state.runtime_removable().is_some();
                let stays = sandbox.state == SandboxState::Ready
                    || in_use.contains(&sandbox.id)
                    || state == PodState::SourcesNotReady
                    || (position == 0 && exists(state) && !may_end);
                prop_assert!(!(stays && gone.contains(sandbox.id.as_str())), "{sandbox:?}");
            }
        }
        // Neither the order of the list nor a repetition changes anything.
        let mut turned = listed;
        turned.reverse();
        prop_assert_eq!(sandboxes(&turned, &in_use, &facts), items);
    }

    // behaviour: GC-3, GC-50, GC-51, GC-57, GC-58
    #[test]
    fn logs_of_existing_pods_and_live_containers_stay(
        (states, pods) in node(),
        entries in vec((0..UIDS.len(), any::<bool>()), 0..8),
        living in subsequence(UIDS.to_vec(), 0..4),
    ) {
        let alive: BTreeSet<PodUid> = living.iter().map(|uid| PodUid::from(*uid)).collect();
        let names: Vec<(String, bool)> = entries
            .iter()
            .enumerate()
            .map(|(n, (pod, is_directory))| (format!("ns_n{n}_{}", UIDS[*pod]), *is_directory))
            .collect();
        let decide = || logs(Path::new("/logs"), &names, &alive, &pods);
        let items = decide();
        prop_assert_eq!(&decide(), &items);
        for ((item, (name, is_directory)), (pod, _)) in items.iter().zip(&names).zip(&entries) {
            let state = states[*pod];
            prop_assert_eq!(&item.subject, &Subject::PodLogs(Path::new("/logs").join(name)));
            let runs = matches!(state, PodState::Known(WorkerState { terminated: false, .. }));
            let stays = exists(state) || runs || !is_directory || alive.contains(UIDS[*pod]);
            prop_assert!(!stays || item.fate == Fate::Keep, "{item:?} {state:?}");
        }
    }

    // behaviour: GC-54
    #[test]
    fn link_of_a_container_that_may_live_stays_for_any_name(name in ".{0,40}\\.log") {
        use ContainerState::{Created, Running, Unknown};
        for state in [Created, Running, Unknown] {
            let item = dangling(Path::new("/links"), &name, LinkTarget::State(state), &Pods::ready());
            prop_assert_eq!(item.fate, Fate::Keep);
            prop_assert_eq!(item.subject, Subject::LogLink(Path::new("/links").join(&name)));
        }
    }

    // behaviour: GC-60, GC-61, GC-62
    #[test]
    fn deletor_keeps_the_newest_and_removes_only_exited_containers(
        drawn in vec(drawn_container(), 0..12),
        died in 0..12_usize,
        keep in 0..4_usize,
    ) {
        let name = |foo: bool| if foo { "foo" } else { "bar" };
        let mut status = RuntimePodStatus::empty(PodUid::from("uid"));
        for (number, (foo, state)) in drawn.iter().enumerate() {
            let id = format!("c{number}");
            status.containers.push(observed::container_status(&id, name(*foo), *state));
        }
        let died_id = format!("c{died}");
        let ids = |which, keep| -> Vec<String> {
            beyond(&status, which, keep).iter().map(|one| one.instance.id.to_string()).collect()
        };
        let same = drawn.get(died).map(|(foo, _)| *foo);
        for (which, meant) in [(DeletorScope::SameAs(&died_id), same.map(Some)), (DeletorScope::All, Some(None))] {
            // The considered containers, newest first: those with the name of the exited one, or all.
            let in_question: Vec<String> = drawn
                .iter()
                .enumerate()
                .filter(|(_, (foo, state))| {
                    *state == ContainerState::Exited
                        && meant.is_some_and(|only| only.is_none_or(|only| only == *foo))
                })
                .map(|(number, _)| format!("c{number}"))
                .collect();
            let kept = keep.min(in_question.len());
            prop_assert_eq!(ids(which, keep), &in_question[kept..]);
        }
    }
}
