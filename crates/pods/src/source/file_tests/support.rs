//! A version that the node cannot run does not replace the last good one.

use model::ports::files::draft_of;

use super::*;

const A: &str = "/manifests/a.yaml";

impl Bench {
    async fn after_restart(mut self) -> Self {
        self.stop.cancel();
        while self.tasks.join_next().await.is_some() {}
        Self::starting(self.files, "/manifests")
    }

    async fn published(&mut self) -> Vec<String> {
        self.next_set().await
    }

    async fn unchanged(&mut self) {
        self.expect_no_set().await;
    }

    /// The stored copies, as text.
    async fn stored(&self) -> String {
        let names = self.files.list("/state".as_ref()).await.unwrap_or_default();
        let contents = names.iter().filter_map(|name| self.files.content(format!("/state/{name}")));
        contents.map(|content| String::from_utf8_lossy(&content).into_owned()).collect()
    }
}

/// A pod that the node cannot run.
fn unsupported(image: &str) -> String {
    manifest("a", image).replace("spec: {", "spec: {volumes: [{name: v, emptyDir: {}}], ")
}

const REFUSED: &str = "/manifests/a.yaml: not supported: spec.volumes; stays";

// behaviour: SRC-67
#[tokio::test(start_paused = true)]
async fn unsupported_version_keeps_the_last_good_one_across_restarts() {
    let mut bench = Bench::reading(two());
    assert_eq!(bench.published().await, BOTH);
    let uid = |bench: &Bench| podspec::view::uid(&bench.pods.borrow().as_ref().unwrap()[0]);
    let before = uid(&bench);
    bench.files.write(A, unsupported("x:2"));
    bench.unchanged().await;
    assert_eq!(bench.refused(), [REFUSED]);
    assert!(!bench.stored().await.contains("x:2"));
    for _ in 0..2 {
        bench = bench.after_restart().await;
        assert_eq!(bench.published().await, BOTH);
        assert_eq!(uid(&bench), before);
        bench.unchanged().await;
        assert_eq!(bench.refused(), [REFUSED]);
    }
    // Another pod name does not make it another manifest.
    bench.files.write(A, unsupported("x:2").replace("{name: a}", "{name: b}"));
    bench.unchanged().await;
    bench.files.write(A, manifest("a", "x:3"));
    assert_eq!(bench.published().await, ["default/a-node x:3", BOTH[1]]);
    bench.unchanged().await;
    assert_eq!(bench.refused(), [""; 0]);
    assert!(bench.stored().await.contains("x:3"));
}

// behaviour: SRC-67
#[tokio::test(start_paused = true)]
async fn unsupported_version_without_a_last_good_one_is_published_and_not_stored() {
    let files = MemoryFiles::new();
    files.write(A, unsupported("x:1"));
    let mut bench = Bench::reading(files);
    assert_eq!(bench.published().await, ["default/a-node x:1"]);
    bench.files.write(A, unsupported("x:2"));
    assert_eq!(bench.published().await, ["default/a-node x:2"]);
    assert_eq!(bench.stored().await, "");
    assert_eq!(bench.refused(), [""; 0]);
    bench.files.write(A, manifest("a", "x:3"));
    assert_eq!(bench.published().await, ["default/a-node x:3"]);
    bench.files.write(A, unsupported("x:2"));
    bench.unchanged().await;
}

// behaviour: SRC-68
#[tokio::test(start_paused = true)]
async fn pod_of_a_stored_copy_is_marked_until_its_manifest_can_be_used() {
    let mut bench = Bench::reading(two());
    assert_eq!(bench.published().await, BOTH);
    assert!(bench.copies.borrow().is_empty());
    bench.files.write(A, "bad");
    bench.unchanged().await;
    assert!(bench.copies.borrow().is_empty(), "the running version is known");
    let before = bench.pods.borrow().as_ref().unwrap()[0].clone();
    for content in ["bad", unsupported("x:2").as_str()] {
        bench.files.write(A, content);
        bench = bench.after_restart().await;
        assert_eq!(bench.published().await, BOTH);
        let marked: Vec<_> = bench.copies.borrow().keys().cloned().collect();
        assert_eq!(marked, [podspec::view::uid(&before)], "{content}");
    }
    bench.files.write(A, manifest("a", "x:1"));
    bench.unchanged().await;
    assert!(bench.copies.borrow().is_empty());
}

// behaviour: SRC-68
#[tokio::test(start_paused = true)]
async fn copy_that_could_not_be_replaced_has_the_time_of_its_own_version() {
    let mut bench = Bench::reading(MemoryFiles::new());
    bench.published().await;
    sleep(PERIOD).await;
    bench.files.write(A, manifest("a", "x:1"));
    bench.published().await;
    let names = bench.files.list("/state".as_ref()).await.unwrap();
    let draft = format!("/state/{}", draft_of(&names[0]));
    bench.files.fail(&draft, ErrorKind::StorageFull);
    sleep(PERIOD * 2).await;
    bench.files.write(A, manifest("a", "x:2"));
    bench.published().await;
    bench.files.write(A, "bad");
    let mut bench = bench.after_restart().await;
    assert_eq!(bench.published().await, ["default/a-node x:1"]);
    let times: Vec<_> = bench.copies.borrow().values().copied().collect();
    let start = VirtualClock::new().now();
    assert!(times.len() == 1 && times[0] >= start + PERIOD, "{times:?}");
    assert!(times[0] < start + PERIOD * 2, "{times:?}");
}
