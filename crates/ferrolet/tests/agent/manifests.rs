//! The source of manifests on the host's real files.
#![allow(clippy::disallowed_methods, reason = "a test on real files")]
#![allow(clippy::unwrap_used, reason = "a test, helpers included")]

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use hostfs::Host;
use k8s_openapi::api::core::v1::Pod;
use pods::source::file::{FileSourceSettings, file_source};
use pods::source::{PodSetWatch, SourceWatch, SupportCheck};
use testkit::clock::VirtualClock;
use tokio::task::JoinSet;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

/// Far longer than any test: only the watch can find changes.
const PERIOD: Duration = Duration::from_hours(1);
const SOON: Duration = Duration::from_secs(10);

/// A node that supports every pod.
#[derive(Debug)]
struct AllSupported;

impl SupportCheck for AllSupported {
    fn unsupported(&self, _pod: &Pod) -> Option<String> {
        None
    }
}

struct Bench {
    place: tempfile::TempDir,
    pods: PodSetWatch,
    stop: CancellationToken,
    tasks: JoinSet<()>,
}

impl Bench {
    fn start(place: tempfile::TempDir) -> Self {
        let settings = FileSourceSettings {
            path: place.path().join("manifests"),
            period: PERIOD,
            node_name: "node".into(),
            last_good: place.path().join("state/manifests"),
            clock: Arc::new(VirtualClock::new()),
            support: Arc::new(AllSupported),
        };
        let (source, SourceWatch { pods, .. }) = file_source(settings, Arc::new(Host::default()));
        let (stop, mut tasks) = (CancellationToken::new(), JoinSet::new());
        tasks.spawn(source.run(stop.clone()));
        Self { place, pods, stop, tasks }
    }

    async fn restart(mut self) -> Self {
        self.stop.cancel();
        while self.tasks.join_next().await.is_some() {}
        Self::start(self.place)
    }

    fn manifest(&self, name: &str) -> PathBuf {
        self.place.path().join("manifests").join(name)
    }

    /// Waits until the source lists exactly these pods, as name and image.
    async fn lists(&mut self, expected: &[&str]) {
        let reported = self.pods.wait_for(|reported| {
            let Some(reported) = reported else { return false };
            let reported = reported.iter().map(|pod| {
                let image = podspec::view::containers(pod)[0].image.clone().unwrap();
                format!("{} {image}", podspec::view::pod_name(pod).name)
            });
            reported.collect::<Vec<_>>() == expected
        });
        timeout(SOON, reported).await.unwrap_or_else(|_| panic!("{expected:?}")).unwrap();
    }
}

fn write(path: impl AsRef<Path>, name: &str, image: &str) {
    let text = format!(
        "apiVersion: v1\nkind: Pod\nmetadata: {{name: {name}}}\n\
         spec: {{containers: [{{name: main, image: \"{image}\"}}]}}\n"
    );
    fs::write(path, text).unwrap();
}

/// A directory of manifests with one in it.
fn place() -> tempfile::TempDir {
    let place = tempfile::tempdir().unwrap();
    fs::create_dir(place.path().join("manifests")).unwrap();
    write(place.path().join("manifests/a.yaml"), "a", "x:1");
    place
}

// behaviour: SRC-27, SRC-28
#[tokio::test]
async fn manifest_changes_are_noticed_by_watch() {
    let mut bench = Bench::start(place());
    bench.lists(&["a-node x:1"]).await;
    write(bench.manifest("b.yaml"), "b", "x:1");
    bench.lists(&["a-node x:1", "b-node x:1"]).await;
    fs::remove_file(bench.manifest("b.yaml")).unwrap();
    bench.lists(&["a-node x:1"]).await;
    // The old file is renamed away before the new one is written, as editors do.
    fs::rename(bench.manifest("a.yaml"), bench.manifest("a.yaml~")).unwrap();
    write(bench.manifest("a.yaml"), "a", "x:2");
    fs::remove_file(bench.manifest("a.yaml~")).unwrap();
    bench.lists(&["a-node x:2"]).await;
    // Written to a hidden file first, then renamed.
    write(bench.manifest(".a.yaml.new"), "a", "x:3");
    fs::rename(bench.manifest(".a.yaml.new"), bench.manifest("a.yaml")).unwrap();
    bench.lists(&["a-node x:3"]).await;
    write(bench.place.path().join("elsewhere"), "linked", "x:1");
    symlink("../elsewhere", bench.manifest("link")).unwrap();
    bench.lists(&["a-node x:3", "linked-node x:1"]).await;
}

// behaviour: SRC-29
#[tokio::test]
async fn manifest_directory_may_be_removed_and_replaced() {
    let mut bench = Bench::start(place());
    bench.lists(&["a-node x:1"]).await;
    let manifests = bench.place.path().join("manifests");
    fs::remove_dir_all(&manifests).unwrap();
    bench.lists(&[]).await;
    fs::create_dir(&manifests).unwrap();
    write(bench.manifest("b.yaml"), "b", "x:1");
    bench.lists(&["b-node x:1"]).await;
    let other = bench.place.path().join("other");
    fs::create_dir(&other).unwrap();
    write(other.join("c.yaml"), "c", "x:1");
    fs::rename(&manifests, bench.place.path().join("old")).unwrap();
    fs::rename(&other, &manifests).unwrap();
    bench.lists(&["c-node x:1"]).await;
    write(bench.manifest("d.yaml"), "d", "x:1");
    bench.lists(&["c-node x:1", "d-node x:1"]).await;
}

// behaviour: SRC-30, SRC-31
#[tokio::test]
async fn last_valid_manifest_is_used_after_a_restart() {
    let mut bench = Bench::start(place());
    bench.lists(&["a-node x:1"]).await;
    fs::write(bench.manifest("a.yaml"), "kind: Pod\nspec: [").unwrap();
    let mut bench = bench.restart().await;
    bench.lists(&["a-node x:1"]).await;
    let kept = bench.place.path().join("state/manifests");
    assert_eq!(fs::read_dir(&kept).unwrap().count(), 1);
    fs::remove_file(bench.manifest("a.yaml")).unwrap();
    bench.lists(&[]).await;
    assert_eq!(fs::read_dir(&kept).unwrap().count(), 0);
}

#[tokio::test]
async fn fifo_in_the_manifest_directory_is_not_opened() {
    let place = place();
    // Opening it would block until there is a writer.
    let pipe = place.path().join("manifests/pipe");
    assert!(Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    symlink(&pipe, place.path().join("manifests/0-link")).unwrap();
    symlink("/dev/zero", place.path().join("manifests/zero")).unwrap();
    let mut bench = Bench::start(place);
    bench.lists(&["a-node x:1"]).await;
    write(bench.manifest("b.yaml"), "b", "x:1");
    bench.lists(&["a-node x:1", "b-node x:1"]).await;
}
