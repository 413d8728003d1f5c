use std::time::Duration;

use testkit::pods::pod;
use tokio::sync::watch;
use tokio::time::timeout;

use super::*;
use crate::decide::merge::Changes;
use crate::source::{PodList, RefusalList};

struct TestSource {
    pods: watch::Sender<Option<PodList>>,
    refusals: watch::Sender<RefusalList>,
}

fn test_source() -> (TestSource, SourceWatch) {
    let (pods, pods_receiver) = watch::channel(None);
    let (refusals, refusals_receiver) = watch::channel(RefusalList::default());
    (
        TestSource { pods, refusals },
        SourceWatch {
            pods: pods_receiver,
            refusals: refusals_receiver,
            unread: None,
            copies: None,
        },
    )
}

fn two() -> (TestSource, TestSource, Sources) {
    let (file, http) = (test_source(), test_source());
    let sources = vec![(SourceName::File, file.1), (SourceName::Http, http.1)];
    (file.0, http.0, Sources::new(sources))
}

fn publish(test_source: &TestSource, names: &[&str]) {
    let pods = names.iter().map(|name| Arc::new(pod(name).build())).collect();
    test_source.pods.send_replace(Some(Arc::new(pods)));
}

async fn next(sources: &mut Sources) -> SourceChange {
    timeout(Duration::from_secs(1), sources.changed())
        .await
        .expect("a change")
        .expect("the sources run")
}

async fn nothing(sources: &mut Sources) {
    let change = timeout(Duration::from_secs(1), sources.changed()).await;
    assert!(change.is_err(), "{change:?}");
}

fn names(pods: &[Arc<Pod>]) -> Vec<&str> {
    pods.iter().map(|pod| pod.metadata.name.as_deref().unwrap()).collect()
}

// behaviour: SRC-40
#[tokio::test(start_paused = true)]
async fn all_sources_are_ready_once_each_has_published() {
    let (file, http, mut sources) = two();
    nothing(&mut sources).await;
    publish(&file, &["a"]);
    assert!(!sources.all_ready());
    assert_eq!(names(&next(&mut sources).await.changes.added), ["a"]);
    assert!(!sources.all_ready());
    publish(&http, &[]);
    assert!(!sources.all_ready(), "not before the change is returned");
    let change = next(&mut sources).await;
    assert_eq!((change.source, change.changes), (SourceName::Http, Changes::default()));
    assert!(sources.all_ready());
    publish(&http, &[]);
    nothing(&mut sources).await;
}

// behaviour: SRC-1
#[tokio::test(start_paused = true)]
async fn sets_are_returned_as_changes_and_only_the_latest_counts() {
    let (file, http, mut sources) = two();
    publish(&http, &["x"]);
    publish(&file, &["a", "b"]);
    publish(&file, &["b", "c"]);
    let change = next(&mut sources).await;
    assert_eq!((change.source, names(&change.changes.added)), (SourceName::File, vec!["b", "c"]));
    assert_eq!(next(&mut sources).await.source, SourceName::Http);
    publish(&file, &["c", "d"]);
    let change = next(&mut sources).await.changes;
    assert_eq!((names(&change.removed), names(&change.added)), (vec!["b"], vec!["d"]));
    assert_eq!(sources.pods().count(), 3);
    assert!(sources.get(&"uid-of-d".into()).is_some());
    assert!(sources.get(&"uid-of-b".into()).is_none());
}

// behaviour: SRC-41
#[tokio::test(start_paused = true)]
async fn rejected_pod_is_added_when_its_name_is_free() {
    let (file, http, mut sources) = two();
    publish(&file, &["x"]);
    next(&mut sources).await;
    let other = Arc::new(pod("x").uid("other").build());
    http.pods.send_replace(Some(Arc::new(vec![other])));
    let change = next(&mut sources).await;
    assert_eq!(change.refused[0].holder, Some(SourceName::File));
    publish(&file, &[]);
    assert_eq!(names(&next(&mut sources).await.changes.removed), ["x"]);
    let change = next(&mut sources).await;
    assert_eq!((change.source, names(&change.changes.added)), (SourceName::Http, vec!["x"]));
    nothing(&mut sources).await;
}

#[tokio::test(start_paused = true)]
async fn set_published_before_merging_is_returned() {
    let (test_source, mut receiver) = test_source();
    publish(&test_source, &["a"]);
    receiver.pods.borrow_and_update();
    let mut sources = Sources::new(vec![(SourceName::File, receiver)]);
    assert_eq!(names(&next(&mut sources).await.changes.added), ["a"]);
}

#[tokio::test(start_paused = true)]
async fn end_of_a_source_is_returned_after_its_last_set() {
    let (file, _http, mut sources) = two();
    publish(&file, &["a"]);
    drop(file);
    next(&mut sources).await;
    assert_eq!(sources.changed().await, None);
}

#[tokio::test(start_paused = true)]
async fn merge_of_no_sources_is_ready() {
    let mut sources = Sources::new(Vec::new());
    assert!(sources.all_ready());
    nothing(&mut sources).await;
}

// behaviour: SRC-35
#[tokio::test(start_paused = true)]
async fn refusal_is_a_change_without_pods() {
    let (file, http, mut sources) = two();
    let refusal = Refusal {
        manifest: "/manifests/a.yaml".to_owned(),
        message: "bad".to_owned(),
        pod: None,
        uid: None,
        last_good_stays: false,
    };
    file.refusals.send_replace(Arc::new(vec![refusal.clone()]));
    assert_eq!(next(&mut sources).await.changes, Changes::default());
    assert!(!sources.all_ready(), "no pods were published");
    assert_eq!(sources.refusals(), [refusal]);
    nothing(&mut sources).await;
    file.refusals.send_replace(Arc::default());
    next(&mut sources).await;
    assert_eq!(sources.refusals(), []);
    // Pods rejected for another source's pod are listed too.
    publish(&file, &["x"]);
    publish(&http, &["x"]);
    next(&mut sources).await;
    next(&mut sources).await;
    let refusals = sources.refusals();
    assert_eq!(refusals.len(), 1, "{refusals:?}");
    assert_eq!(refusals[0].manifest, "default/x of the source http");
}
