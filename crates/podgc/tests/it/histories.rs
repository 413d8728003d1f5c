//! Seeded histories: pods and nodes are created and deleted while watches stall, lists are outdated or
//! unfinished, responses fail or are lost, and the controller is replaced. In every history, no pod is deleted
//! that should stay, and in the end all pods are deleted that should be.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use model::cluster::{Deletion, NodeRecord, PodPhase, PodRecord, Uid};
use model::verdict::Input;
use podgc::plan::{Order, Rule};
use podgc::task::PERIOD;
use testkit::cluster::{ApiCall, CallFault, Feed, MemoryCluster, RemovedPod, node, pod};
use testkit::random::Random;

use crate::harness::{CacheView, Harness, aged, settle, threshold};

/// The threshold of terminated pods.
const THRESHOLD: usize = 6;
const NODES: u64 = 4;
const HISTORIES: u64 = 150;
const STEPS: u32 = 40;
/// How long a node must be missing before its pods are deleted.
const QUARANTINE: SignedDuration = SignedDuration::from_secs(40);

/// The state of the history beyond the cluster.
#[derive(Default)]
struct HistoryState {
    /// The nodes that exist.
    nodes: BTreeMap<String, NodeRecord>,
    /// The time since when the current controller may miss a node.
    missing: BTreeMap<String, Timestamp>,
    /// The nodes that it may have missed since the last cycle began.
    missed: BTreeSet<String>,
    /// The terminated pods that it may delete at the start of the cycle, in order.
    terminated: Vec<Uid>,
}

impl HistoryState {
    /// A cycle begins.
    fn begin(&mut self) {
        self.missing.retain(|name, _| self.missed.contains(name));
        self.missed.clear();
    }

    /// Records what the controller misses now.
    fn look(&mut self, harness: &CacheView) {
        for name in harness.missing() {
            self.missing.entry(name.clone()).or_insert_with(|| harness.now());
            self.missed.insert(name);
        }
    }
}

fn phase(random: &mut Random) -> PodPhase {
    random.pick(&[PodPhase::Running, PodPhase::Pending, PodPhase::Succeeded, PodPhase::Failed])
}

fn node_name(random: &mut Random) -> String {
    format!("n{}", random.below(NODES))
}

/// Changes a pod.
fn life_of_pods(random: &mut Random, cluster: &MemoryCluster) {
    let what = random.below(8);
    if what < 4 {
        // Few names, so that some are used again.
        cluster.create_pod(PodRecord {
            phase: phase(random),
            node: if random.below(4) == 0 { String::new() } else { node_name(random) },
            is_evicted: random.below(3) == 0,
            ..pod(&format!("p{}", random.below(20)))
        });
        return;
    }
    let pods = cluster.pods();
    if pods.is_empty() {
        return;
    }
    let (pod, to) = (random.pick(&pods), phase(random));
    match what {
        4 => cluster.update_pod(&pod, |pod| {
            if !pod.phase.is_final() {
                pod.phase = to;
            }
        }),
        5 | 6 => cluster.update_pod(&pod, |pod| {
            if pod.deletion == Deletion::None {
                pod.deletion = Deletion::Graceful;
            }
        }),
        _ => cluster.drop_pod(&pod),
    }
}

/// Changes the cluster.
fn life(random: &mut Random, cluster: &MemoryCluster, known: &mut HistoryState) {
    match random.below(12) {
        0..8 => life_of_pods(random, cluster),
        8 | 9 => {
            let name = node_name(random);
            let (is_ready, is_out_of_service) = (random.below(2) == 0, random.below(2) == 0);
            let node = NodeRecord { is_ready, is_out_of_service, ..node(&name) };
            cluster.put_node(node.clone());
            known.nodes.insert(name, node);
        }
        _ => {
            let name = node_name(random);
            cluster.drop_node(&name);
            known.nodes.remove(&name);
        }
    }
}

/// Injects a fault.
fn trouble(random: &mut Random, cluster: &MemoryCluster) {
    let feed = if random.below(2) == 0 { Feed::Pods } else { Feed::Nodes };
    let few = |random: &mut Random| usize::try_from(random.below(6)).unwrap();
    match random.below(11) {
        0 | 1 => cluster.freeze(feed, true),
        2 => cluster.freeze(feed, false),
        3 => cluster.expire(feed, few(random)),
        listing @ (4 | 5) => {
            // A list begins, now or when the feed resumes, and is held in the middle or before its end.
            cluster.hold_lists(feed, Some(few(random) * 5));
            cluster.expire(feed, 0);
            cluster.freeze(feed, listing == 5);
        }
        6 => cluster.hold_lists(feed, None),
        _ => {
            let call = random.pick(&[ApiCall::Node, ApiCall::FailPod, ApiCall::RemovePod]);
            let trouble = match random.below(6) {
                0 => CallFault::Unreachable,
                1 => CallFault::AnswerLost,
                2 => CallFault::Refused(500),
                3 => CallFault::Refused(409),
                4 => CallFault::Throttled(Some(Duration::from_secs(random.below(5)))),
                _ => CallFault::Late(Duration::from_secs(random.below(30))),
            };
            cluster.inject_fault(call, trouble, 1 + u32::try_from(random.below(3)).unwrap());
        }
    }
}

/// The properties of every deletion.
fn lawful(removed: &RemovedPod, known: &HistoryState, seed: u64) {
    let pod = &removed.record;
    let context = || format!("seed {seed}: {removed:?}");
    let requested = (&removed.target.uid, removed.target.version);
    assert!(
        pod.version.0.is_some() && requested == (&pod.uid, pod.version),
        "as seen: {}",
        context()
    );
    assert!(pod.phase.is_final(), "marked as failed before: {}", context());
    match removed.verdict.rule {
        Rule::OVER_THRESHOLD => {
            let place = known.terminated.iter().position(|uid| *uid == pod.uid);
            let excess = known.terminated.len().saturating_sub(THRESHOLD);
            assert!(
                place.is_some_and(|place| place < excess),
                "{place:?} of {excess}: {}",
                context()
            );
            let numbers = [("terminated", known.terminated.len()), ("allowed", THRESHOLD)];
            let position = ("position", place.map_or(0, |place| place + 1));
            for (name, expected) in numbers.into_iter().chain([position]) {
                let expected = Input::Number(i64::try_from(expected).unwrap());
                let input = removed.verdict.detail.0.iter().find(|(known, _)| *known == name);
                assert_eq!(input.map(|(_, input)| input), Some(&expected), "{name}: {}", context());
            }
        }
        Rule::NODE_GONE => {
            assert!(!pod.node.is_empty(), "{}", context());
            assert!(removed.node.is_none(), "its node exists: {}", context());
            let since = known.missing.get(&pod.node);
            let missing_for = since.map(|since| removed.at.duration_since(*since));
            assert!(missing_for >= Some(QUARANTINE), "missing for {missing_for:?}: {}", context());
        }
        Rule::NODE_OUT_OF_SERVICE => {
            let node = removed.node.as_ref();
            let is_out = node.is_some_and(|node| !node.is_ready && node.is_out_of_service);
            assert!(is_out, "its node is in service: {}", context());
            assert!(pod.deletion != Deletion::None, "{}", context());
        }
        Rule::NEVER_SCHEDULED => {
            assert!(pod.deletion != Deletion::None && pod.node.is_empty(), "{}", context());
        }
        other => panic!("{other}: {}", context()),
    }
}

/// The pods that stay by the rules, computed without a cache, once nothing changes any more.
fn staying(cluster: &MemoryCluster, nodes: &BTreeMap<String, NodeRecord>) -> Vec<String> {
    let pods: Vec<PodRecord> = cluster.pods().iter().filter_map(|name| cluster.pod(name)).collect();
    let mut terminated: Vec<&PodRecord> =
        pods.iter().filter(|pod| pod.phase.is_terminated()).collect();
    terminated.sort_by_key(|pod| {
        let is_evicted = pod.is_evicted && pod.phase == PodPhase::Failed;
        (!is_evicted, pod.created, pod.name.clone())
    });
    let excess = terminated.len().saturating_sub(THRESHOLD);
    let goes = |pod: &PodRecord| {
        let is_terminating = pod.deletion != Deletion::None;
        let is_excess = terminated[..excess].iter().any(|one| one.uid == pod.uid);
        is_excess
            || match nodes.get(&pod.node) {
                None if pod.node.is_empty() => is_terminating,
                None => true,
                Some(node) => is_terminating && !node.is_ready && node.is_out_of_service,
            }
    };
    let staying = pods.iter().filter(|pod| !goes(pod));
    staying.map(|pod| format!("{}/{}", pod.namespace, pod.name)).collect()
}

/// Runs a cycle with concurrent pod changes, and checks its deletions.
async fn cycle(harness: &mut Harness, known: &mut HistoryState, random: &mut Random, seed: u64) {
    known.begin();
    settle().await;
    let looking = harness.looking();
    known.look(&looking);
    known.terminated = looking.terminated();
    let (judged, cluster) = (harness.cluster.removed().len(), harness.cluster.clone());
    let meanwhile = async {
        for _ in 0..random.below(3) {
            // Terminated pods are selected at the beginning of the cycle.
            tokio::time::sleep(Duration::from_millis(1 + random.below(4000))).await;
            life_of_pods(random, &cluster);
            settle().await;
            known.look(&looking);
        }
    };
    tokio::join!(harness.cycle(), meanwhile);
    for removed in &cluster.removed()[judged..] {
        lawful(removed, known, seed);
    }
}

async fn history(seed: u64) {
    let mut random = Random::new(seed);
    let cluster = MemoryCluster::default();
    let mut known = HistoryState::default();
    let settings = || threshold(i64::try_from(THRESHOLD).unwrap());
    let mut harness = Harness::on(cluster.clone(), settings(), Order::Creation);
    for _ in 0..STEPS {
        for _ in 0..random.below(4) {
            life(&mut random, &cluster, &mut known);
        }
        if random.below(3) == 0 {
            trouble(&mut random, &cluster);
        }
        if random.below(15) == 0 {
            // Another controller takes over; it has no state of the first.
            harness = Harness::on(cluster.clone(), settings(), Order::Creation);
            known.missing.clear();
        }
        cycle(&mut harness, &mut known, &mut random, seed).await;
        tokio::time::sleep(PERIOD).await;
    }
    cluster.clear_faults();
    for feed in [Feed::Pods, Feed::Nodes] {
        cluster.hold_lists(feed, None);
        cluster.freeze(feed, false);
        cluster.expire(feed, 0);
    }
    let staying = staying(&cluster, &known.nodes);
    harness.cycles(Duration::from_mins(5)).await;
    assert_eq!(cluster.pods(), staying, "seed {seed}");
}

// behaviour: PGC-120
#[tokio::test(start_paused = true)]
async fn histories_delete_exactly_the_right_pods_despite_faults() {
    for seed in 0..HISTORIES {
        history(seed).await;
    }
}

// behaviour: PGC-142
#[tokio::test(start_paused = true)]
async fn unfinished_relist_is_not_counted() {
    let mut harness = Harness::new(threshold(3));
    let cluster = harness.cluster.clone();
    let evicted = |name: &str| PodRecord { is_evicted: true, ..aged(name, PodPhase::Failed, 200) };
    for name in ["a", "b", "c"] {
        cluster.create_pod(aged(name, PodPhase::Succeeded, 100));
    }
    harness.cycle().await;
    // The watch is lost while all of them are replaced by pods that sort before them.
    cluster.freeze(Feed::Pods, true);
    for name in ["a", "b", "c"] {
        cluster.drop_pod(name);
    }
    for name in ["x", "y", "z"] {
        cluster.create_pod(evicted(name));
    }
    for listed in 0..4 {
        cluster.hold_lists(Feed::Pods, Some(listed));
        cluster.expire(Feed::Pods, 0);
        cluster.freeze(Feed::Pods, false);
        harness.cycle().await;
        assert_eq!(harness.left(), ["x", "y", "z"], "after {listed} pods of the list");
    }
    // A change after the list counts once the list is complete.
    cluster.create_pod(evicted("w"));
    harness.cycle().await;
    assert_eq!(harness.left(), ["w", "x", "y", "z"]);
    cluster.hold_lists(Feed::Pods, None);
    harness.cycle().await;
    assert_eq!(harness.left().len(), 3);
}
