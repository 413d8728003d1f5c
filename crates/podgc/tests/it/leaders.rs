//! Seeded histories of two processes that alternate: for any fault of the lease, no process deletes while
//! another one leads, and the work is done in the end.

use std::time::Duration;

use model::cluster::PodPhase;
use podgc::plan::Order;
use testkit::cluster::{ApiCall, CallFault, MemoryCluster};
use testkit::random::Random;
use tokio::task::JoinSet;
use tokio::time::sleep;

use crate::election::{election, name};
use crate::harness::{Harness, aged, threshold};

const HISTORIES: u64 = 40;
const STEPS: u32 = 60;
const PROCESSES: [&str; 2] = ["a", "b"];
const SECOND: Duration = Duration::from_secs(1);

/// A process like the program: it waits for the lease and works until the lease is lost. Then it exits, drops
/// its calls in progress, and its supervisor starts it again.
async fn process(cluster: MemoryCluster, who: &'static str) {
    for life in 0.. {
        let election = election(&cluster, &format!("{who}-{life}"));
        election.win().await;
        let harness = Harness::on(cluster.clone(), threshold(1), Order::Creation);
        tokio::select! {
            biased;
            () = election.keep() => {}
            () = harness.gc.run(harness.stop.clone()) => unreachable!("it is not stopped"),
        }
        sleep(SECOND).await;
    }
}

/// Injects a fault for one of them.
fn trouble(random: &mut Random, cluster: &MemoryCluster) {
    let who = random.pick(&PROCESSES);
    let seconds = |random: &mut Random| SECOND * u32::try_from(random.below(25)).unwrap();
    if random.below(3) == 0 {
        cluster.inject_fault_for(who, ApiCall::RemovePod, CallFault::Late(seconds(random)), 5);
        return;
    }
    let trouble = match random.below(4) {
        0 => CallFault::Unreachable,
        1 => CallFault::AnswerLost,
        2 => CallFault::Refused(500),
        _ => CallFault::Late(seconds(random)),
    };
    let times = 1 + u32::try_from(random.below(20)).unwrap();
    cluster.inject_fault_for(who, ApiCall::Lease, trouble, times);
}

/// Returns how often the lease changed hands.
async fn history(seed: u64) -> u32 {
    let mut random = Random::new(seed);
    let cluster = MemoryCluster::default();
    let mut processes = JoinSet::new();
    for who in PROCESSES {
        processes.spawn(process(cluster.as_client(who), who));
    }
    let mut made = 0;
    for _ in 0..STEPS {
        for _ in 0..random.below(4) {
            made += 1;
            cluster.create_pod(aged(&format!("p{made:04}"), PodPhase::Failed, made));
        }
        if random.below(3) == 0 {
            trouble(&mut random, &cluster);
        }
        sleep(SECOND * u32::try_from(random.below(10)).unwrap()).await;
    }
    cluster.clear_faults();
    sleep(SECOND * 120).await;
    for removed in cluster.removed() {
        let holder = removed.holders.first().map(String::as_str).unwrap_or_default();
        let leads = holder.starts_with(&removed.by);
        assert!(leads, "seed {seed}: {holder} leads, and {} deletes: {removed:?}", removed.by);
    }
    assert_eq!(cluster.pods(), [format!("default/p{made:04}")], "seed {seed}");
    u32::try_from(cluster.lease_of(&name()).unwrap().record.transitions).unwrap()
}

// behaviour: PGC-128
#[tokio::test(start_paused = true)]
async fn only_the_leader_deletes() {
    let mut changes = 0;
    for seed in 0..HISTORIES {
        changes += history(seed).await;
    }
    assert!(changes > u32::try_from(HISTORIES).unwrap(), "it changed hands only {changes} times");
}
