#[path = "file_tests/bad.rs"]
mod bad;
#[path = "file_tests/copies.rs"]
mod copies;
#[path = "file_tests/notices.rs"]
mod notices;
#[path = "file_tests/restart.rs"]
mod restart;
#[path = "file_tests/support.rs"]
mod support;

use std::io::ErrorKind;

use k8s_openapi::api::core::v1::Pod;
use testkit::clock::VirtualClock;
use testkit::files::MemoryFiles;
use tokio::task::JoinSet;

use super::*;
use crate::source::support::NoVolumes;
use crate::source::{CopyWatch, PodSetWatch, RefusalWatch};

const PERIOD: Duration = Duration::from_secs(20);

/// A source that reads `/manifests`.
struct Bench {
    files: Arc<MemoryFiles>,
    pods: PodSetWatch,
    refusals: RefusalWatch,
    copies: CopyWatch,
    stop: CancellationToken,
    tasks: JoinSet<()>,
}

impl Bench {
    fn reading(files: MemoryFiles) -> Self {
        Self::starting(Arc::new(files), "/manifests")
    }

    fn starting(files: Arc<MemoryFiles>, path: &str) -> Self {
        let settings = FileSourceSettings {
            path: path.into(),
            period: PERIOD,
            node_name: "node".into(),
            last_good: "/state".into(),
            clock: Arc::new(VirtualClock::new()),
            support: Arc::new(NoVolumes),
        };
        let (source, SourceWatch { pods, refusals, copies, .. }) =
            file_source(settings, Arc::clone(&files) as _);
        let copies = copies.expect("the source stores copies");
        let (stop, mut tasks) = (CancellationToken::new(), JoinSet::new());
        tasks.spawn(source.run(stop.clone()));
        Self { files, pods, refusals, copies, stop, tasks }
    }

    /// The pod names and images of the next published set.
    async fn next_set(&mut self) -> Vec<String> {
        timeout(PERIOD * 2, self.pods.changed()).await.expect("no set is published").unwrap();
        let pods = self.pods.borrow_and_update().clone().expect("a published set");
        let image = |pod: &Arc<Pod>| podspec::view::containers(pod)[0].image.clone().unwrap();
        pods.iter().map(|pod| format!("{} {}", podspec::view::pod_name(pod), image(pod))).collect()
    }

    /// The refusals as text: manifest, message, and whether the last good version stays.
    fn refused(&self) -> Vec<String> {
        let stays = |refusal: &Refusal| if refusal.last_good_stays { "; stays" } else { "" };
        let line = |refusal: &Refusal| {
            format!("{}: {}{}", refusal.manifest, refusal.message, stays(refusal))
        };
        self.refusals.borrow().iter().map(line).collect()
    }

    /// Waits for some scans, and expects that they publish nothing.
    async fn expect_no_set(&mut self) {
        let changed = timeout(PERIOD * 3 + PERIOD / 4, self.pods.changed()).await;
        assert!(changed.is_err(), "{:?}", self.pods.borrow().as_ref().map(|pods| pods.len()));
    }
}

fn manifest(name: &str, image: &str) -> String {
    format!(
        "apiVersion: v1\nkind: Pod\nmetadata: {{name: {name}}}\n\
         spec: {{containers: [{{name: main, image: \"{image}\"}}]}}\n"
    )
}

/// Two good manifests.
fn two() -> MemoryFiles {
    let files = MemoryFiles::new();
    files.write("/manifests/a.yaml", manifest("a", "x:1"));
    files.write("/manifests/b.yaml", manifest("b", "x:1"));
    files
}

const BOTH: [&str; 2] = ["default/a-node x:1", "default/b-node x:1"];

// behaviour: SRC-20
#[tokio::test(start_paused = true)]
async fn directory_is_read_in_order_of_file_names() {
    let files = MemoryFiles::new();
    files.write("/manifests/20-first.yaml", manifest("first", "x:1"));
    files.write("/manifests/30-second.json", r#"{"apiVersion":"v1","kind":"Pod","metadata":{"name":"second"},"spec":{"containers":[{"name":"main","image":"x:2"}]}}"#);
    files.write("/manifests/10-last", manifest("last", "x:3"));
    let mut bench = Bench::reading(files);
    let expected = ["default/last-node x:3", "default/first-node x:1", "default/second-node x:2"];
    assert_eq!(bench.next_set().await, expected);
    bench.expect_no_set().await;
}

// behaviour: SRC-20
#[tokio::test(start_paused = true)]
async fn hidden_files_directories_and_special_files_are_skipped() {
    let files = two();
    files.write("/manifests/.hidden.yaml", manifest("hidden", "x:1"));
    files.write("/manifests/below/c.yaml", manifest("below", "x:1"));
    files.special("/manifests/pipe");
    files.put_link("/manifests/dangling.yaml", "/nowhere");
    files.write("/elsewhere.yaml", manifest("linked", "x:1"));
    files.put_link("/manifests/c.yaml", "/elsewhere.yaml");
    let mut bench = Bench::reading(files);
    assert_eq!(bench.next_set().await, [&BOTH[..], &["default/linked-node x:1"]].concat());
}

// behaviour: SRC-21
#[tokio::test(start_paused = true)]
async fn single_file_is_added_changed_and_removed() {
    let mut bench = Bench::reading(MemoryFiles::new());
    assert!(bench.next_set().await.is_empty(), "a path that is missing is an empty set");
    bench.files.write("/manifests", manifest("a", "x:1"));
    assert_eq!(bench.next_set().await, ["default/a-node x:1"]);
    bench.files.write("/manifests", manifest("a", "x:2"));
    assert_eq!(bench.next_set().await, ["default/a-node x:2"]);
    bench.files.remove("/manifests");
    assert!(bench.next_set().await.is_empty());
}

/// The first-seen annotation of the first pod of a set.
fn seen(pods: &PodSetWatch) -> String {
    let pods = pods.borrow().clone().expect("a published set");
    let marks = pods[0].metadata.annotations.clone().unwrap_or_default();
    marks.get(podspec::annotations::CONFIG_SEEN).cloned().unwrap_or_default()
}

// behaviour: SRC-64
#[tokio::test(start_paused = true)]
async fn first_seen_annotation_is_set_and_kept() {
    let fixed = |image| manifest("a", image).replace("{name: a}", "{name: a, uid: fixed}");
    let files = MemoryFiles::new();
    files.write("/manifests/a.yaml", fixed("x:1"));
    let mut bench = Bench::reading(files);
    bench.next_set().await;
    let first = seen(&bench.pods);
    assert!(first.parse::<jiff::Timestamp>().is_ok(), "{first:?}");
    sleep(PERIOD).await;
    bench.files.write("/manifests/a.yaml", fixed("x:2"));
    bench.next_set().await;
    assert_eq!(seen(&bench.pods), first, "it is the same pod");
    bench.files.write("/manifests/a.yaml", manifest("a", "x:2"));
    bench.next_set().await;
    assert_ne!(seen(&bench.pods), first);
}

// behaviour: SRC-23
#[tokio::test(start_paused = true)]
async fn removed_file_removes_its_pod_and_new_file_adds_one() {
    let mut bench = Bench::reading(two());
    assert_eq!(bench.next_set().await, BOTH);
    bench.files.remove("/manifests/a.yaml");
    assert_eq!(bench.next_set().await, BOTH[1..]);
    bench.files.write("/manifests/c.yaml", manifest("c", "x:1"));
    assert_eq!(bench.next_set().await, ["default/b-node x:1", "default/c-node x:1"]);
    // Rewriting the same content is not a change; a renamed file is another pod.
    bench.files.write("/manifests/b.yaml", manifest("b", "x:1"));
    bench.expect_no_set().await;
    let uid = |bench: &Bench| podspec::view::uid(&bench.pods.borrow().as_ref().unwrap()[0]);
    let before = uid(&bench);
    bench.files.remove("/manifests/b.yaml");
    bench.files.write("/manifests/bb.yaml", manifest("b", "x:1"));
    bench.next_set().await;
    assert_ne!(uid(&bench), before);
}

// behaviour: SRC-24
#[tokio::test(start_paused = true)]
async fn unreadable_directory_keeps_all_pods() {
    let mut bench = Bench::reading(two());
    assert_eq!(bench.next_set().await, BOTH);
    bench.files.fail("/manifests", ErrorKind::PermissionDenied);
    bench.expect_no_set().await;
    bench.files.repair("/manifests");
    bench.files.remove("/manifests/a.yaml");
    assert_eq!(bench.next_set().await, BOTH[1..]);
}

#[tokio::test(start_paused = true)]
async fn directory_that_was_never_read_publishes_nothing() {
    let files = two();
    files.fail("/manifests", ErrorKind::PermissionDenied);
    let mut bench = Bench::reading(files);
    bench.expect_no_set().await;
    assert!(bench.pods.borrow().is_none());
    bench.files.repair("/manifests");
    assert_eq!(bench.next_set().await, BOTH);
}

#[tokio::test(start_paused = true)]
async fn unreadable_file_keeps_its_pod_and_does_not_affect_others() {
    let mut bench = Bench::reading(two());
    assert_eq!(bench.next_set().await, BOTH);
    bench.files.fail("/manifests/a.yaml", ErrorKind::PermissionDenied);
    bench.expect_no_set().await;
    bench.files.write("/manifests/b.yaml", manifest("b", "x:2"));
    assert_eq!(bench.next_set().await, ["default/a-node x:1", "default/b-node x:2"]);
    bench.files.repair("/manifests/a.yaml");
    bench.expect_no_set().await;
}

// behaviour: SRC-22
#[tokio::test(start_paused = true)]
async fn bad_manifest_keeps_its_last_good_version_and_does_not_affect_others() {
    let bad = [
        "kind: Pod\nspec: [".to_owned(),
        String::new(),
        manifest("a", "x:1").replace("v1", "v2"),
        manifest("A_", "x:1"),
    ];
    for text in bad {
        let mut bench = Bench::reading(two());
        assert_eq!(bench.next_set().await, BOTH);
        bench.files.write("/manifests/a.yaml", text.as_str());
        bench.files.write("/manifests/c.yaml", text.as_str());
        bench.expect_no_set().await;
        bench.files.write("/manifests/b.yaml", manifest("b", "x:2"));
        assert_eq!(bench.next_set().await, ["default/a-node x:1", "default/b-node x:2"]);
        bench.files.write("/manifests/a.yaml", manifest("a", "x:3"));
        assert_eq!(bench.next_set().await, ["default/a-node x:3", "default/b-node x:2"]);
        bench.files.write("/manifests/a.yaml", text.as_str());
        bench.expect_no_set().await;
        // A removed manifest removes its pod, even if the manifest was bad.
        bench.files.remove("/manifests/a.yaml");
        assert_eq!(bench.next_set().await, ["default/b-node x:2"], "{text}");
    }
}

// behaviour: SRC-25
#[tokio::test(start_paused = true)]
async fn oversized_file_is_not_read() {
    let files = two();
    let comment = format!("# {}\n", "x".repeat(podspec::MAX_MANIFEST_BYTES));
    files.write("/manifests/c.yaml", comment.clone() + &manifest("c", "x:1"));
    let mut bench = Bench::reading(files);
    assert_eq!(bench.next_set().await, BOTH);
    bench.files.write("/manifests/a.yaml", comment + &manifest("a", "x:2"));
    bench.expect_no_set().await;
}

#[tokio::test(start_paused = true)]
async fn source_stops_and_closes_its_channel_when_cancelled() {
    let mut bench = Bench::reading(two());
    bench.next_set().await;
    bench.stop.cancel();
    timeout(Duration::from_secs(1), bench.tasks.join_next()).await.unwrap().unwrap().unwrap();
    bench.pods.changed().await.unwrap_err();
}
