use model::cluster::{Deletion, PodPhase, PodRecord, Version};
use proptest::prelude::*;

use super::*;
use crate::cache::Cache;
use crate::plan::Order;

/// A terminated pod with few possible values, so that many are equal.
fn pods() -> impl Strategy<Value = Vec<PodRecord>> {
    let phase = prop_oneof![
        Just(PodPhase::Succeeded),
        Just(PodPhase::Failed),
        Just(PodPhase::Running),
        Just(PodPhase::Other)
    ];
    let deletion = prop_oneof![4 => Just(Deletion::None), 1 => Just(Deletion::Graceful), 1 => Just(Deletion::Forced)];
    let pod = (0u8..3, 0u8..6, 0u8..3, phase, any::<bool>(), 0i64..5, deletion);
    proptest::collection::vec(pod, 0..30).prop_map(|pods| {
        let mut number = 0u64;
        let mut record = |(namespace, name, node, phase, is_evicted, created, deletion)| {
            number += 1;
            PodRecord {
                namespace: format!("ns{namespace}"),
                name: format!("p{name}"),
                uid: format!("u{number}").as_str().into(),
                version: Version::from(number),
                node: if node == 0 { String::new() } else { format!("n{node}") },
                phase,
                is_evicted,
                created,
                finished: (created > 2).then_some(created + 3),
                deletion,
                ..PodRecord::default()
            }
        };
        let mut names = BTreeSet::new();
        let all = pods.into_iter().map(&mut record);
        // A name is used once at a time.
        all.filter(|pod| names.insert((pod.namespace.clone(), pod.name.clone()))).collect()
    })
}

fn cache(pods: &[PodRecord]) -> Cache {
    let mut cache = Cache::new(Order::Creation, true);
    for pod in pods {
        cache.apply(pod.clone());
    }
    cache
}

fn policy(threshold: i64) -> TerminatedPolicy {
    TerminatedPolicy { threshold, ..TerminatedPolicy::default() }
}

const NOW: Timestamp = Timestamp::constant(6, 0);

/// Upstream's rule: all terminated pods, sorted, the first of them.
fn by_upstreams_rule(pods: &[PodRecord], threshold: usize) -> Vec<(String, String, i64)> {
    let mut terminated: Vec<&PodRecord> =
        pods.iter().filter(|pod| pod.phase.is_terminated()).collect();
    terminated.sort_by_key(|pod| {
        let evicted = pod.is_evicted && pod.phase == PodPhase::Failed;
        (!evicted, pod.created, pod.name.clone(), pod.namespace.clone())
    });
    terminated.truncate(terminated.len().saturating_sub(threshold));
    // Pods that only wait for their finalizers keep their position and are not deleted again.
    terminated.retain(|pod| pod.deletion != Deletion::Forced || !pod.phase.is_final());
    terminated.iter().map(|pod| (pod.name.clone(), pod.namespace.clone(), pod.created)).collect()
}

fn chosen(cache: &Cache, policy: &TerminatedPolicy) -> Vec<(String, String, i64)> {
    let removals = terminated(cache, policy, NOW);
    let views = removals.iter().map(|removal| cache.view(removal.pod).unwrap());
    views.map(|view| (view.name.to_owned(), view.namespace.to_owned(), view.created)).collect()
}

proptest! {
    // behaviour: PGC-1, PGC-5, PGC-8, PGC-11
    #[test]
    fn threshold_selects_the_same_pods_as_upstream(pods in pods(), threshold in 1usize..12) {
        let cache = cache(&pods);
        let policy = policy(i64::try_from(threshold).unwrap());
        prop_assert_eq!(chosen(&cache, &policy), by_upstreams_rule(&pods, threshold));
    }

    // behaviour: PGC-1
    #[test]
    fn remaining_pods_equal_the_threshold_or_were_fewer(pods in pods(), threshold in 1usize..12) {
        let pods: Vec<PodRecord> =
            pods.into_iter().map(|pod| PodRecord { deletion: Deletion::None, ..pod }).collect();
        let cache = cache(&pods);
        let terminated = cache.count();
        let gone = chosen(&cache, &policy(i64::try_from(threshold).unwrap())).len();
        prop_assert_eq!(terminated - gone, terminated.min(threshold));
    }

    // behaviour: PGC-90, PGC-91, PGC-92, PGC-93
    #[test]
    fn every_rule_holds_with_the_fewest_removals(
        pods in pods(), ttl in 1u64..6, per_namespace in 1u32..4, per_node in 1u32..4
    ) {
        let pods: Vec<PodRecord> =
            pods.into_iter().map(|pod| PodRecord { deletion: Deletion::None, ..pod }).collect();
        let cache = cache(&pods);
        let policy = TerminatedPolicy {
            threshold: 7,
            ttl: Some(Duration::from_secs(ttl)),
            per_namespace: Some(per_namespace),
            per_node: Some(per_node),
        };
        let removals = terminated(&cache, &policy, NOW);
        let mut gone: BTreeSet<PodId> = BTreeSet::new();
        for removal in &removals {
            prop_assert!(gone.insert(removal.pod), "once each");
        }
        let left: Vec<_> = cache.in_order().filter(|pod| !gone.contains(&pod.id)).collect();
        prop_assert!(left.len() <= 7);
        let old = |pod: &PodView<'_>| NOW.as_second() - pod.finished >= i64::try_from(ttl).unwrap();
        prop_assert!(!left.iter().any(old));
        for name in ["ns0", "ns1", "ns2"] {
            let count = left.iter().filter(|pod| pod.namespace == name).count();
            prop_assert!(count <= per_namespace as usize);
        }
        for name in ["n1", "n2"] {
            let count = left.iter().filter(|pod| pod.node == name).count();
            prop_assert!(count <= per_node as usize);
        }
        for removal in &removals {
            let view = cache.view(removal.pod).unwrap();
            prop_assert!(view.phase.is_terminated());
            let needed = match removal.rule {
                Rule::OverTtl { .. } => old(&view),
                Rule::OverNamespaceCap(excess)
                | Rule::OverNodeCap(excess)
                | Rule::OverThreshold(excess) => {
                    excess.position <= excess.terminated - excess.allowed
                }
                _ => false,
            };
            prop_assert!(needed, "{:?}", removal);
        }
    }

    #[test]
    fn plan_is_independent_of_the_event_order(
        pods in pods(), threshold in 1i64..12, seed in any::<u64>()
    ) {
        let mut shuffled = pods.clone();
        shuffled.sort_by_key(|pod| (pod.uid.to_string().len() as u64 * 31 + pod.version.0.unwrap().get()) ^ seed);
        prop_assert_eq!(
            chosen(&cache(&pods), &policy(threshold)),
            chosen(&cache(&shuffled), &policy(threshold))
        );
    }
}

// behaviour: PGC-2
#[test]
fn policy_without_rules_selects_no_pods() {
    let pod = PodRecord { phase: PodPhase::Failed, uid: "u".into(), ..PodRecord::default() };
    for threshold in [0, -1, i64::MIN] {
        assert_eq!(chosen(&cache(std::slice::from_ref(&pod)), &policy(threshold)), []);
    }
}

/// A cluster with exactly as many terminated pods as may stay. The decision only needs to read the
/// pod that ended first.
struct Quiet;

const ENDED_FIRST: PodView<'static> = PodView {
    id: PodId { slot: 0, stamp: 0 },
    namespace: "ns",
    name: "first",
    node: "n",
    phase: PodPhase::Succeeded,
    is_evicted: false,
    created: 0,
    finished: 1,
    order: 0,
    deletion: Deletion::None,
    is_deletion_requested: false,
};

impl TerminatedPods for Quiet {
    fn count(&self) -> usize {
        12_500
    }

    fn in_order(&self) -> Box<dyn Iterator<Item = PodView<'_>> + '_> {
        panic!("no pod is to go, and yet pods are read")
    }

    fn by_finish(&self) -> Box<dyn Iterator<Item = PodView<'_>> + '_> {
        let first: PodView<'_> = ENDED_FIRST;
        Box::new(std::iter::once(first).chain(std::iter::once_with(|| {
            panic!("the first pod may stay, and yet another one is read")
        })))
    }

    fn namespaces_over(&self, _: u32) -> Vec<(&str, u32)> {
        Vec::new()
    }

    fn nodes_over(&self, _: u32) -> Vec<(&str, u32)> {
        Vec::new()
    }
}

// behaviour: PGC-130
#[test]
fn only_the_oldest_pod_is_read_below_the_threshold() {
    let policy = TerminatedPolicy {
        threshold: 12_500,
        ttl: Some(Duration::from_secs(6)),
        per_namespace: Some(1000),
        per_node: Some(1000),
    };
    assert_eq!(terminated(&Quiet, &policy, NOW), []);
}

// behaviour: PGC-90
#[test]
fn fractional_ttl_is_not_rounded_down() {
    let ended = |finished| PodRecord {
        name: format!("p{finished}"),
        uid: format!("u{finished}").as_str().into(),
        phase: PodPhase::Failed,
        finished: Some(finished),
        ..PodRecord::default()
    };
    // At second 6.
    let cache = cache(&[ended(3), ended(4), ended(5), ended(6), ended(7)]);
    let rows = [(1, &["p3", "p4", "p5"][..]), (500, &["p3", "p4", "p5"]), (1500, &["p3", "p4"])];
    for (millis, expected) in rows {
        let ttl = Some(Duration::from_millis(millis));
        let mut gone = chosen(&cache, &TerminatedPolicy { ttl, ..policy(0) });
        gone.sort();
        let names: Vec<&str> = gone.iter().map(|(name, ..)| name.as_str()).collect();
        assert_eq!(names, expected, "{millis} ms");
    }
}
