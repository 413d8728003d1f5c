//! Seeded histories: pods and nodes come and go while feeds stall, lists are old, answers fail or are
//! lost, and the controller is replaced. Whatever happens, nothing is removed that should not be, and in
//! the end all is gone that should be.

use std::collections::BTreeSet;
use std::time::Duration;

use model::cluster::{Deletion, NodeRecord, PodPhase, PodRecord};
use model::verdict::Input;
use podgc::decide::quarantine::QUARANTINE;
use podgc::plan::Order;
use podgc::task::PERIOD;
use testkit::cluster::{Ask, Feed, MemoryCluster, RemovedPod, Trouble, node, pod};

use crate::world::{World, threshold};

/// How many terminated pods may stay.
const THRESHOLD: i64 = 6;
const NODES: u64 = 4;
const HISTORIES: u64 = 150;
const STEPS: u32 = 40;

/// Numbers that follow from a seed.
struct Random(u64);

impl Random {
    fn next(&mut self, below: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) % below
    }
}

/// What the history knows beside the cluster.
#[derive(Default)]
struct Known {
    /// The nodes that exist.
    nodes: BTreeSet<String>,
}

fn phase(random: &mut Random) -> PodPhase {
    [PodPhase::Running, PodPhase::Pending, PodPhase::Succeeded, PodPhase::Failed]
        [usize::try_from(random.next(4)).unwrap()]
}

/// Something happens in the cluster.
fn life(random: &mut Random, cluster: &MemoryCluster, known: &mut Known) {
    let name = |random: &mut Random| format!("n{}", random.next(NODES));
    let any = |random: &mut Random| {
        let pods = cluster.pods();
        let at = random.next(pods.len().max(1) as u64);
        pods.get(usize::try_from(at).unwrap()).cloned()
    };
    match random.next(12) {
        0..=3 => {
            // Few names, so that some are used again.
            let record = PodRecord {
                phase: phase(random),
                node: if random.next(4) == 0 { String::new() } else { name(random) },
                is_evicted: random.next(3) == 0,
                ..pod(&format!("p{}", random.next(20)))
            };
            cluster.create_pod(record);
        }
        4 => {
            if let Some(pod) = any(random) {
                let to = phase(random);
                cluster.update_pod(&pod, |pod| {
                    if !pod.phase.is_final() {
                        pod.phase = to;
                    }
                });
            }
        }
        5 | 6 => {
            if let Some(pod) = any(random) {
                cluster.update_pod(&pod, |pod| {
                    if pod.deletion == Deletion::None {
                        pod.deletion = Deletion::Graceful;
                    }
                });
            }
        }
        7 => {
            if let Some(pod) = any(random) {
                cluster.drop_pod(&pod);
            }
        }
        8 | 9 => {
            let name = name(random);
            let is_ready = random.next(2) == 0;
            let is_out_of_service = random.next(2) == 0;
            cluster.put_node(NodeRecord { is_ready, is_out_of_service, ..node(&name) });
            known.nodes.insert(name);
        }
        _ => {
            let name = name(random);
            cluster.drop_node(&name);
            known.nodes.remove(&name);
        }
    }
}

/// Something goes wrong.
fn trouble(random: &mut Random, cluster: &MemoryCluster) {
    let feed = if random.next(2) == 0 { Feed::Pods } else { Feed::Nodes };
    match random.next(8) {
        0 | 1 => cluster.freeze(feed, true),
        2 => cluster.freeze(feed, false),
        3 => cluster.expire(feed, usize::try_from(random.next(6)).unwrap()),
        _ => {
            let ask =
                [Ask::Node, Ask::FailPod, Ask::RemovePod][usize::try_from(random.next(3)).unwrap()];
            let trouble = match random.next(6) {
                0 => Trouble::Unreachable,
                1 => Trouble::AnswerLost,
                2 => Trouble::Refused(500),
                3 => Trouble::Refused(409),
                4 => Trouble::Throttled(Some(Duration::from_secs(random.next(5)))),
                _ => Trouble::Late(Duration::from_secs(random.next(30))),
            };
            cluster.trouble(ask, trouble, 1 + u32::try_from(random.next(3)).unwrap());
        }
    }
}

/// What must hold of every removal.
fn lawful(removed: &RemovedPod, seed: u64) {
    let pod = &removed.record;
    let told = || format!("seed {seed}: {removed:?}");
    assert!(pod.phase.is_final(), "marked as failed before: {}", told());
    match removed.verdict.rule {
        "terminated-pod-threshold" => {}
        "node-gone" => {
            assert!(!pod.node.is_empty(), "{}", told());
            assert!(removed.node.is_none(), "its node lives: {}", told());
            let missing_for =
                removed.verdict.detail.0.iter().find_map(|(name, input)| match input {
                    Input::Span(span) if *name == "missingFor" => Some(*span),
                    _ => None,
                });
            assert!(missing_for >= Some(QUARANTINE), "before the quarantine was over: {}", told());
        }
        "node-out-of-service" => {
            let node = removed.node.as_ref();
            let is_out = node.is_some_and(|node| !node.is_ready && node.is_out_of_service);
            assert!(is_out, "its node is in service: {}", told());
            assert!(pod.deletion != Deletion::None, "{}", told());
        }
        "never-scheduled" => {
            assert!(pod.deletion != Deletion::None && pod.node.is_empty(), "{}", told());
        }
        other => panic!("{other}: {}", told()),
    }
}

/// What is left once nothing goes wrong any more.
fn settled(cluster: &MemoryCluster, seed: u64) {
    let pods: Vec<PodRecord> = cluster.pods().iter().filter_map(|name| cluster.pod(name)).collect();
    let terminated = pods.iter().filter(|pod| pod.phase.is_terminated()).count();
    assert!(
        terminated <= usize::try_from(THRESHOLD).unwrap(),
        "seed {seed}: {terminated} terminated"
    );
    for pod in &pods {
        let stuck = pod.node.is_empty() && pod.deletion != Deletion::None;
        assert!(!stuck, "seed {seed}: never scheduled and there: {pod:?}");
    }
}

async fn history(seed: u64) {
    let mut random = Random(seed);
    let cluster = MemoryCluster::default();
    let mut known = Known::default();
    let mut world = World::on(cluster.clone(), threshold(THRESHOLD), Order::Creation);
    world.settle().await;
    let mut judged = 0;
    for _ in 0..STEPS {
        for _ in 0..random.next(4) {
            life(&mut random, &cluster, &mut known);
        }
        if random.next(3) == 0 {
            trouble(&mut random, &cluster);
        }
        if random.next(15) == 0 {
            // Another one takes over; it knows nothing of what the first waited for.
            world = World::on(cluster.clone(), threshold(THRESHOLD), Order::Creation);
        }
        world.cycle().await;
        for removed in &cluster.removed()[judged..] {
            lawful(removed, seed);
        }
        judged = cluster.removed().len();
        tokio::time::sleep(PERIOD).await;
    }
    cluster.end_troubles();
    cluster.freeze(Feed::Pods, false);
    cluster.freeze(Feed::Nodes, false);
    cluster.expire(Feed::Pods, 0);
    cluster.expire(Feed::Nodes, 0);
    world.cycles(Duration::from_mins(5)).await;
    for removed in &cluster.removed()[judged..] {
        lawful(removed, seed);
    }
    settled(&cluster, seed);
    for pod in cluster.pods() {
        let pod = cluster.pod(&pod).unwrap();
        let orphan = !pod.node.is_empty() && !known.nodes.contains(&pod.node);
        assert!(!orphan, "seed {seed}: its node is gone and it is there: {pod:?}");
    }
}

// behaviour: PGC-120
#[tokio::test(start_paused = true)]
async fn whatever_goes_wrong_only_what_should_go_goes_and_all_of_it_in_the_end() {
    for seed in 0..HISTORIES {
        history(seed).await;
    }
}
