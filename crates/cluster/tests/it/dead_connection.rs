//! A server that receives requests and no longer answers, as behind a broken network.

use std::time::Duration;

use model::ids::PodName;
use model::objects::{DataObject, ObjectKey};
use model::ports::cluster::{Change, Sink};
use model::ports::objects::ObjectReads as _;
use model::ports::pod_api::PodApi as _;
use tokio::task::JoinSet;
use tokio::time::{Instant, pause, resume, timeout};

use crate::relay::Relay;
use crate::server::by_kubeconfig;
use crate::streams::Server;

/// Longer than any step takes.
const PATIENCE: Duration = Duration::from_secs(30);
/// The time to detect a dead connection, with a margin.
const NOTICED: Duration = Duration::from_secs(31);

#[derive(Debug)]
struct NoopSink;

impl Sink<DataObject, ()> for NoopSink {
    fn receive(&self, _: Change<DataObject, ()>) {}
}

// behaviour: API-32
#[tokio::test]
async fn dead_watch_is_detected_within_30_seconds_and_restarted() {
    let server = Server::start().await;
    let relay = Relay::to(server.socket()).await;
    let address = format!("https://{}", relay.address);
    let cluster = by_kubeconfig(&address, ", insecure-skip-tls-verify: true", "token: t").await;
    let mut tasks = JoinSet::new();
    tasks.spawn(async move {
        cluster.follow_object(&ObjectKey::config_map("ns", "a"), &NoopSink).await;
    });
    let mut seen = server.seen.clone();
    let watched = timeout(PATIENCE, seen.wait_for(|seen| seen.watches == 1)).await;
    drop(watched.expect("it is followed").unwrap());
    relay.lose_all();
    let (begin, mut ended) = (Instant::now(), relay.ended.clone());
    // Only timers make progress.
    pause();
    drop(timeout(PATIENCE * 10, ended.wait_for(|ended| *ended == 1)).await.unwrap().unwrap());
    let after = begin.elapsed();
    resume();
    assert!(after <= NOTICED, "{after:?}");
    let again = timeout(PATIENCE, seen.wait_for(|seen| seen.watches == 2)).await;
    drop(again.expect("it is followed again").unwrap());
}

// behaviour: API-32
#[tokio::test]
async fn call_without_response_fails_within_30_seconds() {
    let server = Server::start().await;
    let relay = Relay::to(server.socket()).await;
    let address = format!("https://{}", relay.address);
    let cluster = by_kubeconfig(&address, ", insecure-skip-tls-verify: true", "token: t").await;
    let (pod, patch) = (PodName::new("ns", "a"), "{}".to_owned());
    cluster.patch_status(&pod, patch.clone()).await.unwrap();
    relay.lose_all();
    let begin = Instant::now();
    pause();
    let error = cluster.patch_status(&pod, patch.clone()).await.unwrap_err();
    let after = begin.elapsed();
    resume();
    assert!(error.is_away() && after <= NOTICED, "{error:?} {after:?}");
    // The detection may take one more call.
    let again = async { while cluster.patch_status(&pod, patch.clone()).await.is_err() {} };
    timeout(PATIENCE, again).await.expect("another connection is used");
}
