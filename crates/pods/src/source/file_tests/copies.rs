//! Several manifests of one pod.

use super::*;
use testkit::logged::Logged;

const Z: &str = "/manifests/z.yaml";
const COPY: &str = "/manifests/copy.yaml";

impl Bench {
    /// The images of the pods of the next published set, in order.
    async fn images(&mut self) -> Vec<String> {
        let set = self.next_set().await;
        set.iter().filter_map(|pod| pod.split(' ').next_back()).map(str::to_owned).collect()
    }

    async fn again(mut self) -> Self {
        self.stop.cancel();
        while self.tasks.join_next().await.is_some() {}
        Self::starting(self.files, "/manifests")
    }
}

fn original() -> MemoryFiles {
    let files = MemoryFiles::new();
    files.write(Z, manifest("web", "x:1"));
    files
}

// behaviour: SRC-34
#[tokio::test(start_paused = true)]
async fn copy_comes_after_the_original_and_is_reported() {
    let logged = Logged::new();
    let mut bench = Bench::reading(original());
    assert_eq!(bench.images().await, ["x:1"]);
    bench.files.write(COPY, manifest("web", "x:2"));
    assert_eq!(bench.images().await, ["x:1", "x:2"], "the merge takes the first");
    let refused = "/manifests/copy.yaml: default/web-node is already the pod of /manifests/z.yaml";
    bench.expect_no_set().await;
    assert_eq!(bench.refused(), [refused]);
    assert_eq!(logged.warnings().len(), 1, "logged once");
    // The original may change, and keeps its name.
    bench.files.write(Z, manifest("web", "x:3"));
    assert_eq!(bench.images().await, ["x:3", "x:2"]);
    bench.files.remove(Z);
    assert_eq!(bench.images().await, ["x:2"]);
    bench.expect_no_set().await;
    assert_eq!(bench.refused(), [""; 0]);
}

// behaviour: SRC-34
#[tokio::test(start_paused = true)]
async fn copy_does_not_replace_the_original_after_a_restart() {
    let mut bench = Bench::reading(original());
    assert_eq!(bench.images().await, ["x:1"]);
    bench.files.write(COPY, manifest("web", "x:2"));
    assert_eq!(bench.images().await, ["x:1", "x:2"]);
    let mut bench = bench.again().await;
    assert_eq!(bench.images().await, ["x:1", "x:2"]);
    // Also if the original was changed meanwhile.
    bench.files.write(Z, manifest("web", "x:3"));
    let mut bench = bench.again().await;
    assert_eq!(bench.images().await, ["x:3", "x:2"]);
}

#[tokio::test(start_paused = true)]
async fn first_of_two_simultaneous_manifests_gets_the_name() {
    let files = original();
    files.write(COPY, manifest("web", "x:2"));
    let mut bench = Bench::reading(files);
    assert_eq!(bench.images().await, ["x:2", "x:1"]);
    bench.expect_no_set().await;
    let refused = "/manifests/z.yaml: default/web-node is already the pod of /manifests/copy.yaml";
    assert_eq!(bench.refused(), [refused]);
    // With another pod name, it is no longer a copy.
    bench.files.write(Z, manifest("other", "x:1"));
    assert_eq!(bench.images().await, ["x:2", "x:1"]);
    bench.expect_no_set().await;
    assert_eq!(bench.refused(), [""; 0]);
}

// behaviour: SRC-35
#[tokio::test(start_paused = true)]
async fn refusal_is_reported_until_fixed() {
    let mut bench = Bench::reading(two());
    assert_eq!(bench.next_set().await, BOTH);
    assert_eq!(bench.refused(), [""; 0]);
    bench.files.write("/manifests/a.yaml", manifest("a", ""));
    bench.files.write("/manifests/c.yaml", "kind: [");
    bench.expect_no_set().await;
    let refused = bench.refused();
    assert_eq!(refused.len(), 2, "{refused:?}");
    let message = "spec.containers[0].image: Required value";
    assert!(refused[0].contains(message) && refused[0].ends_with("; stays"), "{refused:?}");
    assert!(refused[1].starts_with("/manifests/c.yaml: ") && !refused[1].contains("stays"));
    bench.files.write("/manifests/a.yaml", manifest("a", "x:1"));
    bench.files.remove("/manifests/c.yaml");
    bench.expect_no_set().await;
    assert_eq!(bench.refused(), [""; 0]);
    bench.files.fail("/manifests", ErrorKind::PermissionDenied);
    bench.expect_no_set().await;
    let refused = bench.refused();
    assert!(refused[0].starts_with("/manifests: list manifests"), "{refused:?}");
    bench.files.repair("/manifests");
    bench.expect_no_set().await;
    assert_eq!(bench.refused(), [""; 0]);
}
