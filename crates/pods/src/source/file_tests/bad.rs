//! What is wrong is said, once, and harms nothing else.

use super::*;
use testkit::logged::Logged;

const A: &str = "/manifests/a.yaml";

// behaviour: SRC-33
#[tokio::test(start_paused = true)]
async fn what_is_wrong_with_a_manifest_is_said_once_for_each_version() {
    let rows = [
        ("kind: Pod\nspec: [", "line 2"),
        ("", "manifest is empty"),
        (&*manifest("a", "x:1").replace("v1", "v2"), "expected v1 Pod, found"),
        (&*manifest("A_", "x:1"), "metadata.name: Invalid value"),
        (&*manifest("a", ""), "spec.containers[0].image: Required value"),
        (&*manifest("a", "x:1").replace("[{name: main, image: \"x:1\"}]", "3"), "spec.containers"),
    ];
    let logged = Logged::new();
    let mut bench = Bench::reading(two());
    assert_eq!(bench.told().await, BOTH);
    for (text, problem) in rows {
        bench.files.write(A, text);
        bench.told_nothing().await;
        let warnings = logged.warnings();
        assert_eq!(warnings.len(), 1, "{problem}: {warnings:#?}");
        assert!(warnings[0].contains(A) && warnings[0].contains(problem), "{warnings:#?}");
        // Written again as it was.
        bench.files.write(A, text);
        bench.told_nothing().await;
        assert_eq!(logged.warnings().len(), 0, "{problem}");
    }
}

// behaviour: SRC-33
#[tokio::test(start_paused = true)]
async fn that_a_manifest_cannot_be_read_is_said_once() {
    let logged = Logged::new();
    let mut bench = Bench::reading(two());
    assert_eq!(bench.told().await, BOTH);
    for kind in [ErrorKind::PermissionDenied, ErrorKind::ResourceBusy] {
        bench.files.fail(A, kind);
        bench.told_nothing().await;
        let warnings = logged.warnings();
        assert_eq!(warnings.len(), 1, "{kind}: {warnings:#?}");
        assert!(warnings[0].contains("read /manifests/a.yaml"), "{warnings:#?}");
    }
    bench.files.repair(A);
    bench.told_nothing().await;
    bench.files.fail(A, ErrorKind::PermissionDenied);
    bench.told_nothing().await;
    assert_eq!(logged.warnings().len(), 1, "what comes back is said again");
}

#[tokio::test(start_paused = true)]
async fn a_path_that_is_neither_file_nor_directory_is_said_once_and_no_news() {
    let logged = Logged::new();
    let files = MemoryFiles::new();
    files.special("/manifests");
    let mut bench = Bench::reading(files);
    bench.told_nothing().await;
    assert!(bench.pods.borrow().is_none());
    let warnings = logged.warnings();
    assert_eq!(warnings.len(), 1, "{warnings:#?}");
    assert!(warnings[0].contains("/manifests is neither a file nor a directory"), "{warnings:?}");
    bench.files.remove("/manifests");
    bench.files.write(A, manifest("a", "x:1"));
    assert_eq!(bench.told().await, BOTH[..1]);
}

#[tokio::test(start_paused = true)]
async fn a_manifest_that_becomes_something_else_is_gone() {
    let mut bench = Bench::reading(two());
    assert_eq!(bench.told().await, BOTH);
    bench.files.remove(A);
    bench.files.special(A);
    assert_eq!(bench.told().await, BOTH[1..]);
    assert_eq!(bench.files.reads(A), 1, "reading it could hang");
}

// behaviour: SRC-22
#[tokio::test(start_paused = true)]
async fn a_hundred_bad_manifests_do_not_harm_two_good_ones() {
    let files = two();
    for number in 0..100 {
        files.write(format!("/manifests/{number:03}.yaml"), format!("kind: Pod # {number}\nx: ["));
    }
    let logged = Logged::new();
    let mut bench = Bench::reading(files);
    assert_eq!(bench.told().await, BOTH);
    bench.told_nothing().await;
    assert_eq!(logged.warnings().len(), 100);
    bench.files.write(A, manifest("a", "x:2"));
    assert_eq!(bench.told().await, ["default/a-node x:2", BOTH[1]]);
    for number in 0..100 {
        let name = format!("p{number}");
        bench.files.write(format!("/manifests/{number:03}.yaml"), manifest(&name, "x:1"));
    }
    assert_eq!(bench.told().await.len(), 102);
}

#[tokio::test(start_paused = true)]
async fn a_period_of_nothing_is_not_all_the_agent_does() {
    let files = Arc::new(two());
    let settings = FileSourceSettings {
        path: "/manifests".into(),
        period: Duration::ZERO,
        node_name: "node".into(),
        last_good: "/state".into(),
        clock: Arc::new(VirtualClock::new()),
        support: Arc::new(NoVolumes),
    };
    let (source, SourceWatch { mut pods, .. }) = file_source(settings, Arc::clone(&files) as _);
    let mut tasks = JoinSet::new();
    tasks.spawn(source.run(CancellationToken::new()));
    pods.changed().await.unwrap();
    // Were there no pause, no time would pass.
    sleep(Duration::from_secs(1)).await;
    assert!(files.reads(A) < 30, "{}", files.reads(A));
}
