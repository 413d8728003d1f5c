use jiff::Timestamp;
use model::ids::PodName;

use super::*;
use crate::decide::test_pods::Pods;
use crate::policy::ContainerPolicy;

/// Its id consists of pod and time.
fn sandbox(pod: &str, created: i64, state: SandboxState) -> Sandbox {
    Sandbox {
        id: format!("{pod}/{created}").into(),
        pod_uid: pod.into(),
        pod: PodName::new("ns", pod),
        attempt: 0,
        state,
        created_at: Timestamp::from_second(created).unwrap(),
    }
}

fn ready(pod: &str, created: i64) -> Sandbox {
    sandbox(pod, created, SandboxState::Ready)
}

fn dead(pod: &str, created: i64) -> Sandbox {
    sandbox(pod, created, SandboxState::NotReady)
}

fn decide(listed: &[Sandbox], used: &[&str], pods: &Pods, aggressive: bool) -> Vec<Item> {
    let used: BTreeSet<SandboxId> = used.iter().map(|id| SandboxId::from(*id)).collect();
    let (policy, now) = (&ContainerPolicy::default(), Timestamp::from_second(1_000_000).unwrap());
    let items = sandboxes(listed, &used, &Facts { pods, policy, aggressive, now });
    assert_eq!(items.len(), listed.len(), "every sandbox has an item");
    items
}

fn removed(listed: &[Sandbox], used: &[&str], pods: &Pods, aggressive: bool) -> Vec<String> {
    let items = decide(listed, used, pods, aggressive);
    let gone = items.iter().filter(|item| item.fate == Fate::Remove);
    gone.map(|item| item.subject.to_string().trim_start_matches("sandbox ").to_owned()).collect()
}

fn live() -> Pods {
    Pods::ready().active(&["a", "b"])
}

// behaviour: GC-40, GC-41, GC-42
#[test]
fn dead_sandbox_is_removed_with_its_pod_and_a_live_one_stays() {
    assert_eq!(removed(&[dead("gone", 0)], &[], &live(), false), ["gone/0"]);
    assert_eq!(removed(&[ready("gone", 0)], &[], &live(), false), [""; 0]);
    assert_eq!(removed(&[ready("a", 0), dead("b", 0)], &[], &live(), false), [""; 0]);
}

// behaviour: GC-43, GC-44, GC-46
#[test]
fn live_pod_keeps_its_newest_and_its_used_sandboxes() {
    let two = [dead("a", 0), dead("a", 1)];
    assert_eq!(removed(&two, &[], &live(), false), ["a/0"]);
    assert_eq!(removed(&two, &["a/0"], &live(), false), [""; 0]);
    assert_eq!(removed(&[dead("a", 0)], &["a/0"], &live(), false), [""; 0]);
    let rules: Vec<_> = decide(&two, &["a/0"], &live(), false).iter().map(|i| i.rule).collect();
    assert_eq!(rules, ["sandbox-in-use", "newest-sandbox"]);
}

// behaviour: GC-45
#[test]
fn dead_sandboxes_of_terminated_pods_are_removed_under_disk_pressure() {
    let pods = Pods::ready().terminated(&["a", "b"]);
    assert_eq!(removed(&[ready("a", 0), dead("b", 0)], &[], &pods, true), ["b/0"]);
    assert_eq!(removed(&[ready("a", 0), dead("b", 0)], &[], &pods, false), [""; 0]);
}

// behaviour: GC-47
#[test]
fn each_sandbox_of_several_pods_has_its_fate() {
    let listed = [ready("a", 1), dead("a", 0), dead("b", 1), dead("b", 0), dead("gone", 0)];
    assert_eq!(removed(&listed, &["b/1"], &live(), false), ["a/0", "b/0", "gone/0"]);
}

// behaviour: GC-48
#[test]
fn sandboxes_of_unknown_pods_stay_until_sources_are_ready() {
    let listed = [dead("late", 0), dead("late", 1), dead("a", 0), dead("a", 1)];
    assert_eq!(removed(&listed, &[], &live().sources_not_ready(), true), ["a/0"]);
}

// behaviour: GC-39
#[test]
fn first_sandbox_of_a_live_pod_stays_while_a_deadline_counts_from_it() {
    let listed = [dead("a", 0), dead("a", 1), ready("a", 2), dead("gone", 0), dead("gone", 1)];
    let pods = live().with_deadlines();
    assert_eq!(removed(&listed, &[], &pods, false), ["a/1", "gone/0", "gone/1"]);
}
