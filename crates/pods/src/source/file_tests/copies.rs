//! Several manifests that want one pod.

use super::*;
use testkit::logged::Logged;

const Z: &str = "/manifests/z.yaml";
const COPY: &str = "/manifests/copy.yaml";

impl Bench {
    /// The images of all pods that are told, in order, once that is so many.
    async fn images(&mut self) -> Vec<String> {
        let told = self.told().await;
        told.iter().filter_map(|pod| pod.split(' ').next_back()).map(str::to_owned).collect()
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
async fn a_copy_comes_behind_the_original_and_is_told_to_be_one() {
    let logged = Logged::new();
    let mut bench = Bench::reading(original());
    assert_eq!(bench.images().await, ["x:1"]);
    bench.files.write(COPY, manifest("web", "x:2"));
    assert_eq!(bench.images().await, ["x:1", "x:2"], "the merge takes the first");
    let refused = "/manifests/copy.yaml: default/web-node is the pod of /manifests/z.yaml already";
    bench.told_nothing().await;
    assert_eq!(bench.refused(), [refused]);
    assert_eq!(logged.warnings().len(), 1, "it is said once");
    // The original may change and keeps its name.
    bench.files.write(Z, manifest("web", "x:3"));
    assert_eq!(bench.images().await, ["x:3", "x:2"]);
    bench.files.remove(Z);
    assert_eq!(bench.images().await, ["x:2"]);
    bench.told_nothing().await;
    assert_eq!(bench.refused(), [""; 0]);
}

// behaviour: SRC-34
#[tokio::test(start_paused = true)]
async fn a_copy_does_not_become_the_original_by_a_restart() {
    let mut bench = Bench::reading(original());
    assert_eq!(bench.images().await, ["x:1"]);
    bench.files.write(COPY, manifest("web", "x:2"));
    assert_eq!(bench.images().await, ["x:1", "x:2"]);
    let mut bench = bench.again().await;
    assert_eq!(bench.images().await, ["x:1", "x:2"]);
    // Also when the original was changed meanwhile.
    bench.files.write(Z, manifest("web", "x:3"));
    let mut bench = bench.again().await;
    assert_eq!(bench.images().await, ["x:3", "x:2"]);
}

#[tokio::test(start_paused = true)]
async fn of_two_that_come_together_the_first_has_the_name() {
    let files = original();
    files.write(COPY, manifest("web", "x:2"));
    let mut bench = Bench::reading(files);
    assert_eq!(bench.images().await, ["x:2", "x:1"]);
    bench.told_nothing().await;
    let refused = "/manifests/z.yaml: default/web-node is the pod of /manifests/copy.yaml already";
    assert_eq!(bench.refused(), [refused]);
    // It wants another name and so is none any more.
    bench.files.write(Z, manifest("other", "x:1"));
    assert_eq!(bench.images().await, ["x:2", "x:1"]);
    bench.told_nothing().await;
    assert_eq!(bench.refused(), [""; 0]);
}

// behaviour: SRC-35
#[tokio::test(start_paused = true)]
async fn what_is_wrong_is_told_for_as_long_as_it_is() {
    let mut bench = Bench::reading(two());
    assert_eq!(bench.told().await, BOTH);
    assert_eq!(bench.refused(), [""; 0]);
    bench.files.write("/manifests/a.yaml", manifest("a", ""));
    bench.files.write("/manifests/c.yaml", "kind: [");
    bench.told_nothing().await;
    let refused = bench.refused();
    assert_eq!(refused.len(), 2, "{refused:?}");
    let message = "spec.containers[0].image: Required value";
    assert!(refused[0].contains(message) && refused[0].ends_with("; stays"), "{refused:?}");
    assert!(refused[1].starts_with("/manifests/c.yaml: ") && !refused[1].contains("stays"));
    bench.files.write("/manifests/a.yaml", manifest("a", "x:1"));
    bench.files.remove("/manifests/c.yaml");
    bench.told_nothing().await;
    assert_eq!(bench.refused(), [""; 0]);
    bench.files.fail("/manifests", ErrorKind::PermissionDenied);
    bench.told_nothing().await;
    let refused = bench.refused();
    assert!(refused[0].starts_with("/manifests: cannot look for manifests"), "{refused:?}");
    bench.files.repair("/manifests");
    bench.told_nothing().await;
    assert_eq!(bench.refused(), [""; 0]);
}
