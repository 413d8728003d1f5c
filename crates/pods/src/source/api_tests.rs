use std::time::Duration;

use model::ids::PodName;
use podspec::view;
use testkit::cluster::MemoryPods;
use testkit::pods::pod;
use tokio::task::JoinSet;
use tokio::time::timeout;

use super::*;
use crate::source::{SourceName, Sources};

/// A running source, its merged sets and its copies.
fn started(server: &MemoryPods) -> (Sources, ApiCopies, JoinSet<()>) {
    let (source, watch, copies) = api_source("node".to_owned(), Arc::new(server.clone()));
    let mut tasks = JoinSet::new();
    tasks.spawn(source.run(CancellationToken::new()));
    (Sources::new(vec![(SourceName::Api, watch)]), copies, tasks)
}

fn bound(name: &str) -> Pod {
    pod(name).on_node("node").container("main", "image:1", []).build()
}

fn named(name: &str) -> PodName {
    PodName::new("default", name)
}

async fn next(sources: &mut Sources) -> crate::source::SourceChange {
    timeout(Duration::from_secs(5), sources.changed())
        .await
        .expect("a change")
        .expect("the source runs")
}

// behaviour: API-1, API-6
#[tokio::test(start_paused = true)]
async fn pods_of_this_node_are_added_changed_and_removed_with_their_uids() {
    let server = MemoryPods::default();
    let uid = server.make(bound("a"));
    server.make(pod("elsewhere").on_node("other").build());
    let (mut sources, copies, _tasks) = started(&server);
    assert!(!sources.all_ready());
    let first = next(&mut sources).await.changes;
    assert!(sources.all_ready());
    assert_eq!(first.added.iter().map(|pod| view::uid(pod)).collect::<Vec<_>>(), vec![uid.clone()]);
    server.delete(&named("a"), Duration::from_secs(30));
    let change = next(&mut sources).await.changes;
    assert_eq!(change.deleted.len(), 1, "{change:?}");
    assert_eq!(change.deleted[0].metadata.deletion_grace_period_seconds, Some(30));
    assert_eq!(copies.copy(&uid, None), server.pod(&named("a")));
    server.delete(&named("a"), Duration::ZERO);
    assert_eq!(next(&mut sources).await.changes.removed.len(), 1);
    let again = server.make(bound("a"));
    let change = next(&mut sources).await.changes;
    assert_eq!(change.added.iter().map(|pod| view::uid(pod)).collect::<Vec<_>>(), [again]);
}

// behaviour: API-7
#[tokio::test(start_paused = true)]
async fn pods_are_kept_while_api_server_is_unreachable_and_relisted_afterwards() {
    let server = MemoryPods::default();
    server.make(bound("stays"));
    server.make(bound("goes"));
    let (mut sources, _copies, _tasks) = started(&server);
    next(&mut sources).await;
    server.away(true);
    server.delete(&named("goes"), Duration::ZERO);
    server.make(bound("comes"));
    let silence = timeout(Duration::from_mins(10), sources.changed()).await;
    assert!(silence.is_err(), "{silence:?}");
    assert_eq!(sources.pods().count(), 2);
    server.away(false);
    let change = next(&mut sources).await.changes;
    let names = |pods: &[Arc<Pod>]| pods.iter().map(|pod| view::pod_name(pod)).collect::<Vec<_>>();
    assert_eq!(
        (names(&change.removed), names(&change.added)),
        (vec![named("goes")], vec![named("comes")])
    );
}

#[tokio::test(start_paused = true)]
async fn unreachable_server_publishes_nothing() {
    let server = MemoryPods::default();
    server.away(true);
    let (mut sources, copies, _tasks) = started(&server);
    assert!(timeout(Duration::from_mins(10), sources.changed()).await.is_err());
    assert!(!sources.all_ready());
    assert_eq!(copies.mirrors(), None);
}

// behaviour: STW-36
#[tokio::test(start_paused = true)]
async fn relist_notifies_readers_without_a_change() {
    let server = MemoryPods::default();
    server.make(bound("a"));
    let (mut sources, copies, _tasks) = started(&server);
    next(&mut sources).await;
    let (before, mut changes) = (copies.listings(), copies.changes());
    changes.mark_unchanged();
    server.restore(server.backup());
    let next_change = timeout(Duration::from_secs(5), changes.changed()).await;
    next_change.expect("a notification").expect("the source runs");
    assert_eq!(copies.listings(), before + 1);
}
