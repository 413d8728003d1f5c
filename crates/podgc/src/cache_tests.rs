use std::collections::{BTreeMap, BTreeSet};

use model::cluster::{PodPhase, Version};
use proptest::prelude::*;

use super::*;
use crate::plan::TerminatedPods as _;

/// An event for the cache.
#[derive(Debug, Clone)]
enum CacheEvent {
    Pod(u8, PodRecord),
    PodGone(u8),
    Node(u8, bool, bool),
    NodeGone(u8),
    /// A list that has some of the existing pods, by number, and further pods.
    PodsAnew(BTreeSet<u8>, BTreeMap<u8, PodRecord>),
    NodesAnew(BTreeSet<u8>),
}

fn uid(number: u8) -> Uid {
    format!("u{number}").as_str().into()
}

fn record() -> impl Strategy<Value = PodRecord> {
    let phase =
        prop_oneof![Just(PodPhase::Running), Just(PodPhase::Failed), Just(PodPhase::Succeeded)];
    let deletion =
        prop_oneof![Just(Deletion::None), Just(Deletion::Graceful), Just(Deletion::Forced)];
    (0u8..3, 0u8..4, phase, deletion, 0i64..4, any::<(bool, bool)>()).prop_map(
        |(namespace, node, phase, deletion, created, (is_evicted, is_excluded))| PodRecord {
            namespace: format!("ns{namespace}"),
            name: "p".to_owned(),
            node: if node == 0 { String::new() } else { format!("n{node}") },
            phase,
            deletion,
            created,
            is_evicted,
            is_excluded,
            ..PodRecord::default()
        },
    )
}

fn happens() -> impl Strategy<Value = CacheEvent> {
    prop_oneof![
        6 => (0u8..8, record()).prop_map(|(number, record)| CacheEvent::Pod(number, record)),
        2 => (0u8..8).prop_map(CacheEvent::PodGone),
        3 => (1u8..4, any::<bool>(), any::<bool>())
            .prop_map(|(node, ready, out)| CacheEvent::Node(node, ready, out)),
        2 => (1u8..4).prop_map(CacheEvent::NodeGone),
        1 => (
            proptest::collection::btree_set(0u8..8, 0..8),
            proptest::collection::btree_map(0u8..8, record(), 0..4),
        )
            .prop_map(|(kept, others)| CacheEvent::PodsAnew(kept, others)),
        1 => proptest::collection::btree_set(1u8..4, 0..4).prop_map(CacheEvent::NodesAnew),
    ]
}

/// A model of the cache without indexes.
#[derive(Debug, Default)]
struct Model {
    pods: BTreeMap<u8, PodRecord>,
    nodes: BTreeMap<u8, (bool, bool)>,
}

/// Applies an event to both.
fn both(cache: &mut Cache, model: &mut Model, what: CacheEvent, version: u64) {
    match what {
        CacheEvent::Pod(number, record) => {
            let record = PodRecord { uid: uid(number), version: Version::from(version), ..record };
            cache.apply(record.clone());
            model.pods.insert(number, record);
        }
        CacheEvent::PodGone(number) => {
            cache.forget(&uid(number));
            model.pods.remove(&number);
        }
        CacheEvent::Node(node, is_ready, is_out_of_service) => {
            cache.apply_node(&NodeRecord { name: format!("n{node}"), is_ready, is_out_of_service });
            model.nodes.insert(node, (is_ready, is_out_of_service));
        }
        CacheEvent::NodeGone(node) => {
            cache.forget_node(&format!("n{node}"));
            model.nodes.remove(&node);
        }
        CacheEvent::PodsAnew(kept, others) => {
            let served = |cache: &Cache| (cache.pods(), cache.count(), cache.terminating().count());
            let (was_listed, before) = (cache.is_listed, served(cache));
            cache.restart_pods();
            model.pods.retain(|number, _| kept.contains(number));
            let version = Version::from(version);
            model.pods.extend(others.into_iter().map(|(number, record)| {
                (number, PodRecord { uid: uid(number), version, ..record })
            }));
            for record in model.pods.values() {
                cache.apply(record.clone());
            }
            assert!(!was_listed || served(cache) == before, "an unfinished list is served");
            cache.complete_pods();
        }
        CacheEvent::NodesAnew(listed) => {
            cache.restart_nodes();
            model.nodes.retain(|node, _| listed.contains(node));
            for (node, (is_ready, is_out_of_service)) in &model.nodes {
                let name = format!("n{node}");
                let (is_ready, is_out_of_service) = (*is_ready, *is_out_of_service);
                cache.apply_node(&NodeRecord { name, is_ready, is_out_of_service });
            }
            cache.complete_nodes();
        }
    }
}

fn agree(cache: &Cache, model: &Model) -> Result<(), TestCaseError> {
    prop_assert_eq!(cache.pods(), model.pods.len());
    let counted: Vec<&PodRecord> = model.pods.values().filter(|pod| !pod.is_excluded).collect();
    let terminated = counted.iter().filter(|pod| pod.phase.is_terminated());
    prop_assert_eq!(cache.count(), terminated.clone().count());
    let order: Vec<(bool, i64)> =
        cache.in_order().map(|pod| (!pod.is_evicted, pod.created)).collect();
    prop_assert!(order.is_sorted());
    prop_assert_eq!(cache.by_finish().count(), cache.count());
    let terminating = counted.iter().filter(|pod| pod.deletion != Deletion::None).count();
    prop_assert_eq!(cache.terminating().count(), terminating);
    prop_assert_eq!(cache.all().count(), counted.len());
    let known: BTreeSet<String> = model.nodes.keys().map(|node| format!("n{node}")).collect();
    let named = counted.iter().map(|pod| pod.node.clone()).filter(|node| !node.is_empty());
    let missing: BTreeSet<String> = named.filter(|node| !known.contains(node)).collect();
    prop_assert_eq!(cache.missing_nodes().map(str::to_owned).collect::<BTreeSet<_>>(), missing);
    for (node, (ready, out)) in &model.nodes {
        let found = cache.node(&format!("n{node}")).unwrap();
        prop_assert_eq!((found.is_ready, found.is_out_of_service), (*ready, *out));
    }
    let mut namespaces: BTreeMap<&str, u32> = BTreeMap::new();
    for pod in terminated {
        *namespaces.entry(&pod.namespace).or_default() += 1;
    }
    let over: Vec<(&str, u32)> = namespaces.into_iter().filter(|(_, count)| *count > 1).collect();
    prop_assert_eq!(cache.namespaces_over(1), over);
    Ok(())
}

proptest! {
    #[test]
    fn indexes_match_the_pods_after_any_events(
        history in proptest::collection::vec(happens(), 0..60)
    ) {
        let (mut cache, mut model) = (Cache::new(Order::Creation, true), Model::default());
        for (version, what) in (1u64..).zip(history) {
            both(&mut cache, &mut model, what, version);
            agree(&cache, &model)?;
        }
        // When everything is removed, nothing is stored.
        both(&mut cache, &mut model, CacheEvent::PodsAnew(BTreeSet::new(), BTreeMap::new()), 1000);
        both(&mut cache, &mut model, CacheEvent::NodesAnew(BTreeSet::new()), 1001);
        prop_assert_eq!((cache.nodes.ids().len(), cache.namespaces.ids().len()), (0, 0));
    }
}

fn pod(version: u64, phase: PodPhase) -> PodRecord {
    let (uid, version) = (uid(1), Version::from(version));
    PodRecord { uid, version, phase, name: "p".to_owned(), ..PodRecord::default() }
}

#[test]
fn older_pod_version_is_ignored() {
    let mut cache = Cache::default();
    cache.apply(pod(5, PodPhase::Failed));
    cache.apply(pod(4, PodPhase::Running));
    assert_eq!(cache.count(), 1);
    cache.restart_pods();
    cache.apply(pod(3, PodPhase::Running));
    cache.complete_pods();
    assert_eq!((cache.pods(), cache.count()), (1, 1), "and stays although the list is old");
    cache.apply(pod(6, PodPhase::Running));
    assert_eq!(cache.count(), 0);
}

#[test]
fn interrupted_list_removes_nothing() {
    let mut cache = Cache::default();
    cache.apply(pod(1, PodPhase::Failed));
    cache.restart_pods();
    cache.restart_pods();
    assert_eq!(cache.pods(), 1);
    cache.complete_pods();
    assert_eq!(cache.pods(), 0);
}

fn uids(cache: &Cache) -> Vec<String> {
    let uids = cache.in_order().filter_map(|pod| cache.target(pod.id));
    let mut uids: Vec<String> = uids.map(|(_, target, _)| target.uid.to_string()).collect();
    uids.sort();
    uids
}

#[test]
fn unfinished_relist_is_served_when_it_is_complete() {
    let numbered =
        |number: u8, version, phase| PodRecord { uid: uid(number), ..pod(version, phase) };
    let mut cache = Cache::default();
    cache.restart_pods();
    for number in 1..=3 {
        cache.apply(numbered(number, 1, PodPhase::Failed));
    }
    cache.complete_pods();
    let deleted = cache.in_order().next().unwrap().id;
    cache.mark_asked(deleted);
    cache.restart_pods();
    // Of the existing pods one is unchanged, one changed, and one is gone.
    cache.apply(numbered(1, 1, PodPhase::Failed));
    cache.apply(numbered(2, 9, PodPhase::Running));
    cache.apply(numbered(4, 5, PodPhase::Failed));
    cache.apply(numbered(5, 6, PodPhase::Failed));
    // Changes before the end of a streaming list, and a repeated older version.
    cache.apply(numbered(4, 7, PodPhase::Running));
    cache.apply(numbered(4, 5, PodPhase::Failed));
    cache.apply(numbered(6, 8, PodPhase::Failed));
    cache.forget(&uid(6));
    assert_eq!((uids(&cache), cache.pods()), (["u1", "u2", "u3"].map(str::to_owned).to_vec(), 3));
    cache.complete_pods();
    assert_eq!((uids(&cache), cache.pods()), (["u1", "u5"].map(str::to_owned).to_vec(), 4));
    assert!(
        cache.view(deleted).unwrap().is_deletion_requested,
        "a pod that did not change is not deleted twice"
    );
    // Afterwards changes are visible at once.
    cache.forget(&uid(5));
    assert_eq!((cache.pods(), cache.count()), (3, 1));
}

#[test]
fn pods_of_an_interrupted_relist_are_dropped() {
    let mut cache = Cache::default();
    cache.complete_pods();
    cache.restart_pods();
    cache.apply(pod(1, PodPhase::Failed));
    cache.restart_pods();
    cache.complete_pods();
    assert_eq!(cache.pods(), 0);
}

// behaviour: PGC-129
#[test]
fn undecodable_object_keeps_its_last_state() {
    let mut cache = Cache::default();
    cache.apply(pod(1, PodPhase::Failed));
    cache.restart_pods();
    cache.keep(&uid(1));
    cache.keep(&uid(9));
    cache.complete_pods();
    assert_eq!(cache.pods(), 1);
    // A node that could not be decoded exists: its pods are not orphaned.
    let known = NodeRecord { name: "n".to_owned(), is_ready: false, is_out_of_service: true };
    cache.apply_node(&known);
    cache.restart_nodes();
    cache.keep_node("n".to_owned());
    cache.keep_node("m".to_owned());
    cache.complete_nodes();
    assert_eq!(cache.node("n"), Some(known));
    let taken = cache.node("m").unwrap();
    assert!(taken.is_ready && !taken.is_out_of_service);
    cache.forget_node("m");
    cache.forget_node("n");
    assert_eq!(cache.nodes.ids().len(), 0, "no name is in use");
}

#[test]
fn pod_in_a_reused_slot_is_not_mistaken_for_the_old_one() {
    let mut cache = Cache::default();
    cache.apply(pod(1, PodPhase::Failed));
    let first = cache.in_order().next().unwrap().id;
    cache.forget(&uid(1));
    assert_eq!(cache.view(first), None);
    cache.apply(PodRecord { uid: uid(2), ..pod(2, PodPhase::Failed) });
    assert_eq!(cache.view(first), None, "though it is in the same slot");
    cache.mark_asked(first);
    assert!(!cache.in_order().next().unwrap().is_deletion_requested);
}

#[test]
fn pod_slot_is_small() {
    assert!(size_of::<Slot>() <= 112, "{}", size_of::<Slot>());
}
