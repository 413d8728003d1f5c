use proptest::collection::vec;
use proptest::prelude::*;

use super::*;
use crate::decide::test_pods::Pods;
use crate::policy::ContainerPolicy;

const HOUR: Duration = Duration::from_hours(1);

fn now() -> Timestamp {
    Timestamp::from_second(1_000_000).unwrap()
}

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(second).unwrap()
}

/// A container with a pod, a name and a creation time, which form its id.
fn dead(pod: &str, name: &str, created: i64) -> Container {
    Container {
        id: format!("{pod}/{name}/{created}").into(),
        sandbox_id: "s".into(),
        pod_uid: pod.into(),
        pod: model::ids::PodName::new("ns", pod),
        name: name.into(),
        attempt: 0,
        state: ContainerState::Exited,
        created_at: at(created),
        image_ref: "image".into(),
    }
}

fn policy(
    min_age: Duration,
    per_container: Option<usize>,
    in_all: Option<usize>,
) -> ContainerPolicy {
    ContainerPolicy { min_age, per_container, in_all, ..ContainerPolicy::default() }
}

/// The policy of most scenarios.
fn usual() -> ContainerPolicy {
    policy(HOUR, Some(2), Some(6))
}

fn decide(listed: &[Container], pods: &Pods, policy: &ContainerPolicy) -> Vec<Item> {
    let facts = Facts { pods, policy, aggressive: false, now: now() };
    containers(listed, &ExitTimes::new(), &facts)
}

fn ids(items: &[Item], fate: Fate) -> Vec<String> {
    let chosen = items.iter().filter(|item| item.fate == fate);
    chosen
        .map(|item| item.subject.to_string().trim_start_matches("container ").to_owned())
        .collect()
}

fn removed(listed: &[Container], pods: &Pods, policy: &ContainerPolicy) -> Vec<String> {
    let items = decide(listed, pods, policy);
    assert_eq!(items.len(), listed.len(), "every container has an item");
    ids(&items, Fate::Remove)
}

fn rules(items: &[Item]) -> Vec<&'static str> {
    items.iter().map(|item| item.rule).collect()
}

fn live() -> Pods {
    Pods::ready().active(&["a", "b", "c", "d", "e", "f", "g", "h"])
}

// behaviour: GC-106
#[test]
fn kept_containers_are_ordered_by_pod_name_and_age() {
    let attempt = |attempt, one: Container| Container { attempt, ..one };
    let of = |namespace: &str, one: Container| Container {
        pod: model::ids::PodName::new(namespace, &*one.pod.name),
        ..one
    };
    let ordered = [
        of("kube-system", dead("z", "x", 9)),
        dead("a", "x", 7),
        dead("a", "x", 3),
        attempt(2, dead("a", "y", 1)),
        attempt(1, dead("a", "y", 8)),
        dead("b", "a", 5),
    ];
    let ids = |all: &[Container]| all.iter().map(|one| one.id.to_string()).collect::<Vec<_>>();
    let mut turned = ordered.to_vec();
    turned.sort_by(|one, other| one.id.cmp(&other.id).reverse());
    assert_ne!(ids(&turned), ids(&ordered));
    turned.sort_by(reading_order);
    assert_eq!(ids(&turned), ids(&ordered));
    let twins = ["1", "2"].map(|id| Container { id: id.into(), ..dead("a", "x", 7) });
    assert_eq!(reading_order(&twins[0], &twins[1]), Ordering::Less, "the order is deterministic");
}

// behaviour: GC-10, GC-11, GC-12
#[test]
fn each_cap_removes_the_oldest_containers_beyond_it() {
    let minute = Duration::from_mins(1);
    let one = [dead("a", "x", 0)];
    assert_eq!(removed(&one, &live(), &policy(minute, Some(1), Some(0))), ["a/x/0"]);
    let unit: Vec<_> = (0..5).map(|created| dead("a", "x", created)).collect();
    assert_eq!(removed(&unit, &live(), &policy(minute, None, Some(4))), ["a/x/0"]);
    assert_eq!(removed(&unit[..3], &live(), &policy(minute, None, None)), [""; 0]);
}

// behaviour: GC-13, GC-14, GC-15, GC-16
#[test]
fn only_exited_containers_of_the_minimum_age_count() {
    let young: Vec<_> = (0..3).map(|n| dead("a", "x", 1_000_000 - n)).collect();
    let items = decide(&young, &live(), &usual());
    assert_eq!(rules(&items), ["too-young"; 3]);
    let unit: Vec<_> = (0..3).map(|created| dead("a", "x", created)).collect();
    assert_eq!(removed(&unit, &live(), &usual()), ["a/x/0"]);
    let mut with_running = unit.clone();
    with_running[2].state = ContainerState::Running;
    let items = decide(&with_running, &live(), &usual());
    assert_eq!(ids(&items, Fate::Remove), [""; 0]);
    assert!(rules(&items).contains(&"running"));
    assert_eq!(removed(&unit[..2], &live(), &usual()), [""; 0]);
}

// behaviour: GC-17, GC-18, GC-19
#[test]
fn node_cap_is_shared_by_pods_before_the_oldest_are_removed() {
    let three: Vec<_> =
        ["a", "b", "c"].iter().flat_map(|pod| (0..3).map(|n| dead(pod, "x", n))).collect();
    assert_eq!(removed(&three, &live(), &usual()), ["a/x/0", "b/x/0", "c/x/0"]);
    let five: Vec<_> = ["a", "b", "c", "d", "e"]
        .iter()
        .flat_map(|pod| (0..2).map(|n| dead(pod, "x", n)))
        .collect();
    let items = decide(&five, &live(), &usual());
    assert_eq!(ids(&items, Fate::Remove), ["a/x/0", "b/x/0", "c/x/0", "d/x/0", "e/x/0"]);
    assert_eq!(items[0].rule, "node-cap-share");
    assert_eq!(
        items[0].detail.to_string(),
        "cap 6, dead 10, units 5, share 1, position 2, instances 2, \
         created 1970-01-01T00:00:00Z, age 1000000s"
    );
    let ages: [(&str, &[i64]); 8] = [
        ("a", &[2, 1]),
        ("b", &[2, 1]),
        ("c", &[1]),
        ("d", &[0]),
        ("e", &[1]),
        ("f", &[0]),
        ("g", &[2]),
        ("h", &[1]),
    ];
    let eight: Vec<_> = ages
        .iter()
        .flat_map(|(pod, created)| created.iter().map(|created| dead(pod, "x", *created)))
        .collect();
    let items = decide(&eight, &live(), &usual());
    assert_eq!(ids(&items, Fate::Remove), ["a/x/1", "b/x/1", "d/x/0", "f/x/0"]);
    assert_eq!(
        rules(&items)[..4],
        ["node-cap-share", "node-cap-share", "node-cap-oldest", "node-cap-oldest"]
    );
    assert_eq!(ids(&items, Fate::Keep).len(), 6);
}

// behaviour: GC-20
#[test]
fn terminated_pods_keep_no_containers_under_disk_pressure() {
    let mut listed: Vec<_> =
        ["a", "b"].iter().flat_map(|pod| (0..2).map(|n| dead(pod, "x", n))).collect();
    listed.push(dead("c", "x", 0));
    listed.push(Container { state: ContainerState::Running, ..dead("d", "x", 0) });
    let pods = Pods::ready().terminated(&["a", "b"]).active(&["c", "d"]);
    let (pods, policy) = (&pods, &usual());
    let facts = Facts { pods, policy, aggressive: true, now: now() };
    let items = containers(&listed, &ExitTimes::new(), &facts);
    assert_eq!(ids(&items, Fate::Remove), ["a/x/0", "a/x/1", "b/x/0", "b/x/1"]);
    assert_eq!(items[0].rule, "pod-terminated");
    assert_eq!(removed(&listed, pods, policy), [""; 0], "a regular pass leaves them");
}

// behaviour: GC-21, GC-22, GC-23
#[test]
fn containers_of_a_deleted_pod_are_removed_when_sources_are_ready() {
    let listed = [
        dead("gone", "x", 0),
        dead("gone", "x", 1),
        dead("gone", "x", 1_000_000),
        dead("a", "x", 0),
        dead("a", "x", 1),
    ];
    for pods in [live(), live().deleted(&["gone"]), live().evicted(&["gone"])] {
        assert_eq!(removed(&listed, &pods, &usual()), ["gone/x/0", "gone/x/1"], "{pods:?}");
    }
    // An evicted pod whose worker still stops it, and one that has ended but whose final status is not reported.
    for pods in [live().active(&["gone"]), live().terminated(&["gone"])] {
        assert_eq!(removed(&listed, &pods, &usual()), [""; 0], "{pods:?}");
        let one = policy(HOUR, Some(1), None);
        assert_eq!(removed(&listed, &pods, &one), ["a/x/0", "gone/x/0"], "{pods:?}");
    }
    let not_ready = live().sources_not_ready();
    for aggressive in [false, true] {
        for pods in [not_ready.clone(), not_ready.clone().deleted(&["gone"])] {
            let facts = Facts { pods: &pods, policy: &usual(), aggressive, now: now() };
            let items = containers(&listed, &ExitTimes::new(), &facts);
            assert_eq!(ids(&items, Fate::Remove), [""; 0], "{pods:?}");
            assert!(rules(&items).contains(&"source-not-ready"), "{pods:?}");
        }
    }
}

// behaviour: GC-24
#[test]
fn caps_apply_only_to_known_pods_until_sources_are_ready() {
    let listed: Vec<_> =
        ["a", "unknown"].iter().flat_map(|pod| (0..4).map(|n| dead(pod, "x", n))).collect();
    let pods = live().sources_not_ready();
    assert_eq!(removed(&listed, &pods, &usual()), ["a/x/0", "a/x/1"]);
    assert_eq!(removed(&listed, &pods, &policy(HOUR, Some(0), Some(0))).len(), 4);
}

// behaviour: GC-25
#[test]
fn only_caps_apply_without_an_agent() {
    let listed: Vec<_> = (0..3).map(|n| dead("a", "x", n)).collect();
    let policy = usual();
    let pods = &crate::decide::NoAgent;
    let facts = Facts { pods, policy: &policy, aggressive: true, now: now() };
    let items = containers(&listed, &ExitTimes::new(), &facts);
    assert_eq!(rules(&items), ["per-container-cap", "pod-state-unknown", "pod-state-unknown"]);
}

// behaviour: GC-29
#[test]
fn container_without_a_pod_belongs_to_an_unknown_pod() {
    let listed = [dead("", "x", 0), dead("", "x", 1)];
    assert_eq!(removed(&listed, &live(), &usual()).len(), 2);
    assert_eq!(removed(&listed, &live().sources_not_ready(), &usual()), [""; 0]);
}

// behaviour: GC-30
#[test]
fn container_created_exactly_at_the_cutoff_is_old_enough() {
    let cut_off = 1_000_000 - 3600;
    let zero = policy(HOUR, Some(0), None);
    assert_eq!(removed(&[dead("a", "x", cut_off)], &live(), &zero).len(), 1);
    assert_eq!(removed(&[dead("a", "x", cut_off + 1)], &live(), &zero).len(), 0);
    let none = policy(Duration::ZERO, Some(0), None);
    assert_eq!(removed(&[dead("a", "x", 2_000_000)], &live(), &none).len(), 1, "no minimum age");
}

// behaviour: GC-111
#[test]
fn containers_that_may_run_are_left_to_the_pod_worker() {
    let unknown = |n| Container { state: ContainerState::Unknown, ..dead("a", "x", n) };
    let zero = policy(HOUR, Some(0), None);
    let items = decide(&[unknown(1), dead("a", "x", 0)], &live(), &zero);
    assert_eq!(rules(&items), ["per-container-cap", "may-be-running"]);
    for state in [PodState::Desired, PodState::Gone] {
        let pods = Pods::ready().set("a", state);
        assert_eq!(removed(&[unknown(1)], &pods, &zero), ["a/x/1"], "{state:?}");
    }
    let ended = Pods::ready().terminated(&["a"]);
    assert_eq!(removed(&[unknown(1)], &ended, &zero), ["a/x/1"], "its worker is done");
}

// behaviour: GC-31, GC-32
#[test]
fn created_container_is_removed_unless_it_may_be_starting() {
    let created = |n| Container { state: ContainerState::Created, ..dead("a", "x", n) };
    let zero = policy(HOUR, Some(0), None);
    let items = decide(&[created(0), dead("a", "x", 1)], &live(), &zero);
    assert_eq!(ids(&items, Fate::Remove), ["a/x/0", "a/x/1"]);
    let items = decide(&[created(1), dead("a", "x", 0)], &live(), &zero);
    assert_eq!(rules(&items), ["per-container-cap", "may-be-starting"]);
    let ended = Pods::ready().terminated(&["a"]);
    assert_eq!(removed(&[created(1)], &ended, &zero), ["a/x/1"]);
    let given = Pods::ready().set("a", PodState::Desired);
    assert_eq!(removed(&[created(1)], &given, &zero), [""; 0]);
    let one = policy(HOUR, Some(1), None);
    assert_eq!(removed(&[created(1), dead("a", "x", 0)], &given, &one), [""; 0], "it ran");
}

// behaviour: GC-33
#[test]
fn newest_container_is_chosen_by_attempt_time_and_id() {
    let member = |id: &str, attempt| Container { id: id.into(), attempt, ..dead("a", "x", 0) };
    let one = policy(HOUR, Some(1), None);
    assert_eq!(removed(&[member("p", 1), member("q", 0)], &live(), &one), ["q"]);
    assert_eq!(removed(&[member("q", 0), member("p", 1)], &live(), &one), ["q"]);
    assert_eq!(removed(&[member("q", 1), member("p", 1)], &live(), &one), ["p"]);
    let early = Container { attempt: 2, ..dead("a", "x", 5) };
    let late = Container { attempt: 1, ..dead("a", "x", 9) };
    assert_eq!(removed(&[early, late], &live(), &one), ["a/x/9"], "the clock was set back");
}

// behaviour: GC-34
#[test]
fn exit_time_order_and_age_count_from_the_exit() {
    let listed = [dead("a", "x", 0), dead("a", "x", 1)];
    let ended = [(listed[0].id.clone(), at(500_000)), (listed[1].id.clone(), at(999_000))];
    let policy = policy(HOUR, Some(0), None);
    let pods = live();
    let facts = Facts { pods: &pods, policy: &policy, aggressive: false, now: now() };
    let items = containers(&listed, &ended.into(), &facts);
    assert_eq!(ids(&items, Fate::Remove), ["a/x/0"]);
    assert_eq!(items[1].rule, "too-young");
    assert!(items[0].detail.to_string().contains("finished"), "{}", items[0].detail);
    let policy = ContainerPolicy { min_age: Duration::ZERO, per_container: Some(1), ..policy };
    let ended = [(listed[0].id.clone(), at(2)), (listed[1].id.clone(), at(1))];
    let facts = Facts { policy: &policy, ..facts };
    assert_eq!(ids(&containers(&listed, &ended.into(), &facts), Fate::Remove), ["a/x/1"]);
}

// behaviour: GC-5
#[test]
fn pod_without_a_worker_keeps_containers_within_the_caps() {
    let pods = Pods::ready().set("given", PodState::Desired);
    let listed: Vec<_> = (0..3).map(|n| dead("given", "x", n)).collect();
    assert_eq!(removed(&listed, &pods, &usual()), ["given/x/0"]);
}

/// A node: containers of a few pods in all states, and the states of the pods.
fn nodes() -> impl Strategy<Value = (Vec<Container>, Pods)> {
    let states = prop_oneof![
        4 => Just(ContainerState::Exited),
        1 => Just(ContainerState::Running),
        1 => Just(ContainerState::Created),
        1 => Just(ContainerState::Unknown),
    ];
    let container = (0..6_usize, 0..2_usize, 990_000..=1_000_000_i64, 0..3_u32, states);
    let pods = (vec(0..6_u8, 6), any::<bool>());
    (vec(container, 0..40), pods).prop_map(|(drawn, (pods, ready))| {
        let listed =
            drawn.into_iter().enumerate().map(|(n, (pod, name, created, attempt, state))| {
                let (pod, name) = (format!("p{pod}"), ["x", "y"][name]);
                let id = format!("{n:03}").into();
                Container { id, attempt, state, ..dead(&pod, name, created) }
            });
        (listed.collect(), known(&pods, ready))
    })
}

fn known(kinds: &[u8], ready: bool) -> Pods {
    let mut pods = Pods::ready();
    if !ready {
        pods = pods.sources_not_ready();
    }
    for (number, kind) in kinds.iter().enumerate() {
        let uid = format!("p{number}");
        let uid = [uid.as_str()];
        pods = match kind {
            0 => pods.active(&uid),
            1 => pods.terminated(&uid),
            2 => pods.deleted(&uid),
            3 | 4 => pods.evicted(&uid),
            _ => pods,
        };
    }
    pods
}

fn policies() -> impl Strategy<Value = ContainerPolicy> {
    let cap = || prop_oneof![Just(None), (0..5_usize).prop_map(Some)];
    let all = prop_oneof![Just(None), (0..20_usize).prop_map(Some)];
    (0..8000_u64, cap(), all).prop_map(|(age, per_container, in_all)| {
        policy(Duration::from_secs(age), per_container, in_all)
    })
}

fn plan(
    listed: &[Container],
    pods: &Pods,
    policy: &ContainerPolicy,
    aggressive: bool,
) -> Vec<Item> {
    containers(listed, &ExitTimes::new(), &Facts { pods, policy, aggressive, now: now() })
}

fn without(listed: &[Container], gone: &[String]) -> Vec<Container> {
    listed.iter().filter(|one| !gone.contains(&one.id.to_string())).cloned().collect()
}

proptest! {
    /// Every container has one item; running, young and unknown ones stay.
    #[test]
    fn running_young_and_unknown_containers_stay(
        (listed, pods) in nodes(), policy in policies(), aggressive: bool,
    ) {
        let items = plan(&listed, &pods, &policy, aggressive);
        let subjects: std::collections::BTreeSet<_> = items.iter().map(|item| &item.subject).collect();
        prop_assert_eq!((subjects.len(), items.len()), (listed.len(), listed.len()));
        let gone = ids(&items, Fate::Remove);
        for container in listed.iter().filter(|one| gone.contains(&one.id.to_string())) {
            use crate::decide::PodStates as _;
            prop_assert_ne!(container.state, ContainerState::Running);
            prop_assert!(container.created_at + policy.min_age <= now());
            prop_assert_ne!(pods.state(&container.pod_uid), PodState::SourcesNotReady);
        }
    }

    /// Afterwards both caps hold for the counted containers, and removed ones of a unit are older than kept
    /// ones.
    #[test]
    fn caps_hold_after_the_plan((listed, pods) in nodes(), policy in policies(), aggressive: bool) {
        let items = plan(&listed, &pods, &policy, aggressive);
        let outside = ["running", "too-young", "may-be-starting", "may-be-running"];
        let not_ready = |item: &Item| {
            use crate::decide::PodStates as _;
            let uid = &item.owner.as_ref().unwrap().uid;
            pods.state(uid) == PodState::SourcesNotReady
        };
        let mut units: BTreeMap<(PodUid, Arc<str>), usize> = BTreeMap::new();
        for item in items.iter().filter(|item| item.fate == Fate::Keep) {
            if !outside.contains(&item.rule) && !not_ready(item) {
                let key = (item.owner.as_ref().unwrap().uid.clone(), Arc::clone(&item.name));
                *units.entry(key).or_default() += 1;
            }
        }
        if let Some(cap) = policy.per_container {
            prop_assert!(units.values().all(|kept| *kept <= cap), "{:?}", units);
        }
        if let Some(cap) = policy.in_all {
            prop_assert!(units.values().sum::<usize>() <= cap, "{:?}", units);
        }
    }

    /// A higher cap of the node removes no more.
    #[test]
    fn higher_node_cap_removes_a_subset(
        (listed, pods) in nodes(), policy in policies(), aggressive: bool,
        cap in 0..20_usize, more in 0..20_usize,
    ) {
        let with = |in_all| ContainerPolicy { in_all, ..policy };
        let tight = ids(&plan(&listed, &pods, &with(Some(cap)), aggressive), Fate::Remove);
        for loose in [Some(cap + more), None] {
            let loose = ids(&plan(&listed, &pods, &with(loose), aggressive), Fate::Remove);
            prop_assert!(loose.iter().all(|id| tight.contains(id)), "{:?} not in {:?}", loose, tight);
        }
    }

    /// Equal inputs give equal plans, for any order of the list.
    #[test]
    fn plan_is_independent_of_the_list_order(
        (listed, pods) in nodes(), policy in policies(), aggressive: bool, turn in 0..40_usize,
    ) {
        let mut turned = listed.clone();
        turned.rotate_left(turn.min(listed.len()));
        turned.reverse();
        let plans = [&listed, &turned].map(|listed| plan(listed, &pods, &policy, aggressive));
        prop_assert_eq!(&plans[0], &plans[1]);
    }

    /// After a plan is carried out, the next one removes nothing.
    #[test]
    fn second_plan_removes_nothing(
        (listed, pods) in nodes(), policy in policies(), aggressive: bool,
    ) {
        let gone = ids(&plan(&listed, &pods, &policy, aggressive), Fate::Remove);
        let again = plan(&without(&listed, &gone), &pods, &policy, aggressive);
        prop_assert_eq!(ids(&again, Fate::Remove), [""; 0]);
    }
}
