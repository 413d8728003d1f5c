use std::sync::Arc;
use std::time::Duration;

use model::cluster::LeaseName;
use podgc::election::{Election, ElectionPorts, ElectionSettings};
use podgc::metrics::Metrics;
use prometheus::Registry;
use testkit::cluster::{Ask, MemoryCluster, Trouble};
use tokio::time::{Instant, timeout};

const SECOND: Duration = Duration::from_secs(1);

pub(crate) fn name() -> LeaseName {
    settings("anybody").lease
}

/// As it is held without flags: for 15 s, of which 10 s may pass without a renewal, tried every 2 s.
fn settings(identity: &str) -> ElectionSettings {
    ElectionSettings::new(&config::pod_gc::Election::default(), identity)
}

pub(crate) fn election(cluster: &MemoryCluster, identity: &str) -> Election {
    let clock = Arc::new(cluster.clock());
    let ports = ElectionPorts::new(&Arc::new(cluster.clone()), clock);
    Election::new(settings(identity), ports, Metrics::new(&Registry::new()).unwrap())
}

fn holder(cluster: &MemoryCluster) -> String {
    cluster.lease_of(&name()).map(|lease| lease.record.holder).unwrap_or_default()
}

// behaviour: PGC-66
#[tokio::test(start_paused = true)]
async fn one_leads_and_another_waits_until_it_renews_no_more() {
    let cluster = MemoryCluster::default();
    let (a, b) = (election(&cluster, "a"), election(&cluster, "b"));
    a.win().await;
    assert_eq!(holder(&cluster), "a");
    assert_eq!(cluster.events()[0].message, "a became leader");
    let lead = async { timeout(SECOND * 100, a.keep()).await.unwrap_err() };
    let wait = async { timeout(SECOND * 100, b.win()).await.unwrap_err() };
    tokio::join!(lead, wait);
    assert_eq!(holder(&cluster), "a");
    let since = Instant::now();
    b.win().await;
    assert_eq!(holder(&cluster), "b");
    assert!(since.elapsed() >= SECOND * 12 && since.elapsed() <= SECOND * 20, "{since:?}");
    assert_eq!(cluster.lease_of(&name()).unwrap().record.transitions, 1);
}

// behaviour: PGC-67
#[tokio::test(start_paused = true)]
async fn a_leader_that_cannot_renew_stops_before_another_may_begin() {
    for trouble in [Trouble::Unreachable, Trouble::Refused(500), Trouble::Late(SECOND * 60)] {
        let cluster = MemoryCluster::default();
        let a = election(&cluster, "a");
        a.win().await;
        cluster.trouble(Ask::Lease, trouble, 1000);
        let since = Instant::now();
        a.keep().await;
        assert!(since.elapsed() <= SECOND * 12, "{:?}", since.elapsed());
    }
}

// behaviour: PGC-68
#[tokio::test(start_paused = true)]
async fn a_leader_survives_what_passes_in_time() {
    let cluster = MemoryCluster::default();
    let a = election(&cluster, "a");
    a.win().await;
    cluster.trouble(Ask::Lease, Trouble::Unreachable, 2);
    cluster.trouble(Ask::Lease, Trouble::AnswerLost, 1);
    timeout(SECOND * 60, a.keep()).await.unwrap_err();
    assert_eq!(holder(&cluster), "a");
}

// behaviour: PGC-69
#[tokio::test(start_paused = true)]
async fn a_lease_that_is_given_back_is_taken_without_waiting() {
    let cluster = MemoryCluster::default();
    let (a, b) = (election(&cluster, "a"), election(&cluster, "b"));
    a.win().await;
    // Events of one object differ in their time.
    tokio::time::advance(SECOND).await;
    a.give_back().await;
    assert_eq!(holder(&cluster), "");
    tokio::time::advance(SECOND).await;
    timeout(SECOND, b.win()).await.unwrap();
    assert_eq!(holder(&cluster), "b");
    let messages: Vec<String> = cluster.events().into_iter().map(|event| event.message).collect();
    assert_eq!(messages, ["a became leader", "a stopped leading", "b became leader"]);
}

// behaviour: PGC-69
#[tokio::test(start_paused = true)]
async fn a_lease_that_was_written_without_an_answer_is_given_back_too() {
    for trouble in [Trouble::AnswerLost, Trouble::Late(SECOND * 60)] {
        let cluster = MemoryCluster::default();
        let (a, b) = (election(&cluster, "a"), election(&cluster, "b"));
        // The question what there is, and then the answer to the lease that is made.
        cluster.trouble(Ask::Lease, Trouble::Late(Duration::ZERO), 1);
        cluster.trouble(Ask::Lease, trouble, 1);
        timeout(SECOND, a.win()).await.unwrap_err();
        assert!(!a.leads());
        a.give_back().await;
        assert_eq!(holder(&cluster), "");
        timeout(SECOND, b.win()).await.unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn nobody_gives_back_what_is_not_theirs() {
    let cluster = MemoryCluster::default();
    let (a, b) = (election(&cluster, "a"), election(&cluster, "b"));
    a.win().await;
    timeout(SECOND * 5, b.win()).await.unwrap_err();
    b.give_back().await;
    assert_eq!(holder(&cluster), "a");
}
