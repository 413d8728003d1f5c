use std::sync::Arc;
use std::time::Duration;

use model::cluster::LeaseName;
use podgc::election::{Election, ElectionPorts, ElectionSettings};
use podgc::metrics::Metrics;
use prometheus::Registry;
use testkit::cluster::{ApiCall, CallFault, MemoryCluster};
use tokio::time::{Instant, timeout};

const SECOND: Duration = Duration::from_secs(1);

pub(crate) fn name() -> LeaseName {
    settings("any").lease
}

/// The default settings: a lease of 15 s, a renewal deadline of 10 s, attempts every 2 s.
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
async fn second_process_leads_when_the_first_stops_renewing() {
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
async fn leader_stops_before_its_unrenewed_lease_expires() {
    for trouble in [CallFault::Unreachable, CallFault::Refused(500), CallFault::Late(SECOND * 60)] {
        let cluster = MemoryCluster::default();
        let a = election(&cluster, "a");
        a.win().await;
        cluster.inject_fault(ApiCall::Lease, trouble, 1000);
        let since = Instant::now();
        a.keep().await;
        assert!(since.elapsed() <= SECOND * 12, "{:?}", since.elapsed());
    }
}

// behaviour: PGC-68
#[tokio::test(start_paused = true)]
async fn leader_survives_short_failures() {
    let cluster = MemoryCluster::default();
    let a = election(&cluster, "a");
    a.win().await;
    cluster.inject_fault(ApiCall::Lease, CallFault::Unreachable, 2);
    cluster.inject_fault(ApiCall::Lease, CallFault::AnswerLost, 1);
    timeout(SECOND * 60, a.keep()).await.unwrap_err();
    assert_eq!(holder(&cluster), "a");
}

// behaviour: PGC-69
#[tokio::test(start_paused = true)]
async fn election_takes_a_released_lease_without_waiting() {
    let cluster = MemoryCluster::default();
    let (a, b) = (election(&cluster, "a"), election(&cluster, "b"));
    a.win().await;
    // Events of one object differ in their time.
    tokio::time::advance(SECOND).await;
    a.release_lease().await;
    assert_eq!(holder(&cluster), "");
    tokio::time::advance(SECOND).await;
    timeout(SECOND, b.win()).await.unwrap();
    assert_eq!(holder(&cluster), "b");
    let messages: Vec<String> = cluster.events().into_iter().map(|event| event.message).collect();
    assert_eq!(messages, ["a became leader", "a stopped leading", "b became leader"]);
}

// behaviour: PGC-69
#[tokio::test(start_paused = true)]
async fn lease_written_without_a_response_is_released() {
    for trouble in [CallFault::AnswerLost, CallFault::Late(SECOND * 60)] {
        let cluster = MemoryCluster::default();
        let (a, b) = (election(&cluster, "a"), election(&cluster, "b"));
        // The read of the lease, and then the response to its creation.
        cluster.inject_fault(ApiCall::Lease, CallFault::Late(Duration::ZERO), 1);
        cluster.inject_fault(ApiCall::Lease, trouble, 1);
        timeout(SECOND, a.win()).await.unwrap_err();
        assert!(!a.leads());
        a.release_lease().await;
        assert_eq!(holder(&cluster), "");
        timeout(SECOND, b.win()).await.unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn foreign_lease_is_not_released() {
    let cluster = MemoryCluster::default();
    let (a, b) = (election(&cluster, "a"), election(&cluster, "b"));
    a.win().await;
    timeout(SECOND * 5, b.win()).await.unwrap_err();
    b.release_lease().await;
    assert_eq!(holder(&cluster), "a");
}
