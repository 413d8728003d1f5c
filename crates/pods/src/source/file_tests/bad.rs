//! A bad manifest is logged once and does not affect others.

use super::*;
use testkit::logged::Logged;

const A: &str = "/manifests/a.yaml";

// behaviour: SRC-33
#[tokio::test(start_paused = true)]
async fn manifest_problem_is_logged_once_per_version() {
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
    assert_eq!(bench.next_set().await, BOTH);
    for (text, problem) in rows {
        bench.files.write(A, text);
        bench.expect_no_set().await;
        let warnings = logged.warnings();
        assert_eq!(warnings.len(), 1, "{problem}: {warnings:#?}");
        assert!(warnings[0].contains(A) && warnings[0].contains(problem), "{warnings:#?}");
        // Rewritten without a change.
        bench.files.write(A, text);
        bench.expect_no_set().await;
        assert_eq!(logged.warnings().len(), 0, "{problem}");
    }
}

// behaviour: SRC-33
#[tokio::test(start_paused = true)]
async fn unreadable_manifest_is_logged_once() {
    let logged = Logged::new();
    let mut bench = Bench::reading(two());
    assert_eq!(bench.next_set().await, BOTH);
    for kind in [ErrorKind::PermissionDenied, ErrorKind::ResourceBusy] {
        bench.files.fail(A, kind);
        bench.expect_no_set().await;
        let warnings = logged.warnings();
        assert_eq!(warnings.len(), 1, "{kind}: {warnings:#?}");
        assert!(warnings[0].contains("read /manifests/a.yaml"), "{warnings:#?}");
    }
    bench.files.repair(A);
    bench.expect_no_set().await;
    bench.files.fail(A, ErrorKind::PermissionDenied);
    bench.expect_no_set().await;
    assert_eq!(logged.warnings().len(), 1, "a recurring problem is logged again");
}

#[tokio::test(start_paused = true)]
async fn special_file_as_path_is_logged_once_and_publishes_nothing() {
    let logged = Logged::new();
    let files = MemoryFiles::new();
    files.special("/manifests");
    let mut bench = Bench::reading(files);
    bench.expect_no_set().await;
    assert!(bench.pods.borrow().is_none());
    let warnings = logged.warnings();
    assert_eq!(warnings.len(), 1, "{warnings:#?}");
    assert!(warnings[0].contains("/manifests is neither a file nor a directory"), "{warnings:?}");
    bench.files.remove("/manifests");
    bench.files.write(A, manifest("a", "x:1"));
    assert_eq!(bench.next_set().await, BOTH[..1]);
}

#[tokio::test(start_paused = true)]
async fn manifest_replaced_by_a_special_file_is_removed() {
    let mut bench = Bench::reading(two());
    assert_eq!(bench.next_set().await, BOTH);
    bench.files.remove(A);
    bench.files.special(A);
    assert_eq!(bench.next_set().await, BOTH[1..]);
    assert_eq!(bench.files.reads(A), 1, "reading it could hang");
}

// behaviour: SRC-22
#[tokio::test(start_paused = true)]
async fn hundred_bad_manifests_do_not_affect_two_good_ones() {
    let files = two();
    for number in 0..100 {
        files.write(format!("/manifests/{number:03}.yaml"), format!("kind: Pod # {number}\nx: ["));
    }
    let logged = Logged::new();
    let mut bench = Bench::reading(files);
    assert_eq!(bench.next_set().await, BOTH);
    bench.expect_no_set().await;
    assert_eq!(logged.warnings().len(), 100);
    bench.files.write(A, manifest("a", "x:2"));
    assert_eq!(bench.next_set().await, ["default/a-node x:2", BOTH[1]]);
    for number in 0..100 {
        let name = format!("p{number}");
        bench.files.write(format!("/manifests/{number:03}.yaml"), manifest(&name, "x:1"));
    }
    assert_eq!(bench.next_set().await.len(), 102);
}

#[tokio::test(start_paused = true)]
async fn zero_period_is_raised_to_the_minimum() {
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
    // Without a pause, the paused clock would not advance.
    sleep(Duration::from_secs(1)).await;
    assert!(files.reads(A) < 30, "{}", files.reads(A));
}
