//! Changes are noticed immediately, and found periodically if the notice was lost.

use super::*;
use testkit::logged::Logged;

/// A noticed change is read within this time.
const AT_ONCE: Duration = Duration::from_millis(50);

const A: &str = "/manifests/a.yaml";
const B: &str = "/manifests/b.yaml";

impl Bench {
    /// The next set, and how long it took.
    async fn next_set_after(&mut self) -> (Vec<String>, Duration) {
        let start = Instant::now();
        let set = self.next_set().await;
        (set, start.elapsed())
    }

    /// Waits until the versions of all files are reliable.
    async fn settle(&mut self) {
        self.expect_no_set().await;
    }
}

// behaviour: SRC-27
#[tokio::test(start_paused = true)]
async fn change_is_read_immediately() {
    let mut bench = Bench::reading(two());
    assert_eq!(bench.next_set().await, BOTH);
    bench.files.write(A, manifest("a", "x:2"));
    let (set, time) = bench.next_set_after().await;
    assert_eq!(set, ["default/a-node x:2", BOTH[1]]);
    assert!(time <= AT_ONCE, "{time:?}");
    bench.files.write("/manifests/c.yaml", manifest("c", "x:1"));
    let (set, time) = bench.next_set_after().await;
    assert_eq!(set.len(), 3);
    assert!(time <= AT_ONCE, "{time:?}");
    bench.files.remove(A);
    let (set, time) = bench.next_set_after().await;
    assert_eq!(set, [BOTH[1], "default/c-node x:1"]);
    // A removal is verified by a second scan.
    assert!(time <= AT_ONCE * 2, "{time:?}");
}

// behaviour: SRC-36
#[tokio::test(start_paused = true)]
async fn unnoticed_change_is_found_within_the_period_after_a_quiet_time() {
    let mut bench = Bench::reading(two());
    assert_eq!(bench.next_set().await, BOTH);
    bench.files.break_watches();
    for version in 2..5 {
        bench.settle().await;
        bench.files.write(A, manifest("a", &format!("x:{version}")));
        let (pods, time) = bench.next_set_after().await;
        assert_eq!(pods[0], format!("default/a-node x:{version}"));
        assert!(time <= PERIOD, "{time:?}");
    }
}

// behaviour: SRC-36
#[tokio::test(start_paused = true)]
async fn replaced_directory_is_found_by_the_next_scan() {
    let files = two();
    files.write("/next/c.yaml", manifest("c", "x:1"));
    let mut bench = Bench::reading(files);
    assert_eq!(bench.next_set().await, BOTH);
    bench.settle().await;
    bench.files.break_watches();
    bench.files.remove("/manifests");
    bench.files.rename("/next", "/manifests");
    let (set, time) = bench.next_set_after().await;
    assert_eq!(set, ["default/c-node x:1"]);
    assert!(time <= PERIOD + AT_ONCE, "{time:?}");
}

// behaviour: SRC-27
#[tokio::test(start_paused = true)]
async fn changes_are_found_periodically_without_notices() {
    let mut bench = Bench::reading(two());
    assert_eq!(bench.next_set().await, BOTH);
    bench.settle().await;
    bench.files.break_watches();
    bench.files.write(A, manifest("a", "x:2"));
    let (set, time) = bench.next_set_after().await;
    assert_eq!(set, ["default/a-node x:2", BOTH[1]]);
    assert!(time > AT_ONCE && time <= PERIOD, "{time:?}");
    bench.files.remove(B);
    let (set, time) = bench.next_set_after().await;
    assert_eq!(set, ["default/a-node x:2"]);
    assert!(time <= PERIOD + AT_ONCE, "{time:?}");
}

// behaviour: SRC-28
#[tokio::test(start_paused = true)]
async fn editor_save_is_one_change() {
    let mut bench = Bench::reading(two());
    assert_eq!(bench.next_set().await, BOTH);
    bench.settle().await;
    let reads = |bench: &Bench| [A, B].map(|path| bench.files.reads(path));
    let before = reads(&bench);
    let step = || sleep(Duration::from_millis(5));
    bench.files.write("/manifests/4913", "");
    step().await;
    bench.files.remove("/manifests/4913");
    bench.files.rename(A, "/manifests/a.yaml~");
    step().await;
    bench.files.write(A, "");
    step().await;
    bench.files.write(A, manifest("a", "x:2"));
    step().await;
    bench.files.remove("/manifests/a.yaml~");
    assert_eq!(bench.next_set().await, ["default/a-node x:2", BOTH[1]]);
    assert_eq!(reads(&bench), [before[0] + 1, before[1]]);
    assert_eq!(bench.files.reads("/manifests/4913"), 0);
}

#[tokio::test(start_paused = true)]
async fn briefly_missing_file_is_not_removed() {
    let mut bench = Bench::reading(two());
    assert_eq!(bench.next_set().await, BOTH);
    bench.files.break_watches();
    // The periodic scan runs just when an editor has moved the file away.
    sleep(Duration::from_millis(19_990)).await;
    bench.files.rename(A, "/elsewhere");
    sleep(Duration::from_millis(20)).await;
    bench.files.rename("/elsewhere", A);
    bench.expect_no_set().await;
}

#[tokio::test(start_paused = true)]
async fn continuous_changes_are_read() {
    let mut bench = Bench::reading(two());
    assert_eq!(bench.next_set().await, BOTH);
    let files = Arc::clone(&bench.files);
    bench.tasks.spawn(async move {
        for number in 0.. {
            files.write(A, manifest("a", &format!("x:{number}")));
            sleep(Duration::from_millis(10)).await;
        }
    });
    let mut last = String::new();
    for _ in 0..10 {
        let (set, time) = bench.next_set_after().await;
        assert!(time <= AT_ONCE && set[0] != last, "{time:?} {set:?}");
        last.clone_from(&set[0]);
    }
}

// behaviour: SRC-28
#[tokio::test(start_paused = true)]
async fn only_changed_files_are_read_again() {
    let mut bench = Bench::reading(two());
    assert_eq!(bench.next_set().await, BOTH);
    bench.settle().await;
    // Read once more than published: the first read cannot rule out a change within the timestamp resolution.
    assert_eq!(bench.files.reads(A), 2);
    bench.settle().await;
    assert_eq!([A, B].map(|path| bench.files.reads(path)), [2, 2]);
    bench.files.write(B, manifest("b", "x:2"));
    bench.next_set().await;
    assert_eq!([A, B].map(|path| bench.files.reads(path)), [2, 3]);
    bench.settle().await;
    assert_eq!([A, B].map(|path| bench.files.reads(path)), [2, 4]);
}

#[tokio::test(start_paused = true)]
async fn change_within_timestamp_resolution_is_found() {
    let mut bench = Bench::reading(two());
    assert_eq!(bench.next_set().await, BOTH);
    bench.files.write_unseen(A, manifest("a", "x:2"));
    assert_eq!(bench.next_set().await, ["default/a-node x:2", BOTH[1]]);
    // Read twice, but so quickly that the next change may not change the version either.
    bench.files.write(A, manifest("a", "x:3"));
    assert_eq!(bench.next_set().await.len(), 2);
    bench.files.write("/manifests/c.yaml", manifest("c", "x:1"));
    assert_eq!(bench.next_set().await.len(), 3);
    bench.files.write_unseen(A, manifest("a", "x:4"));
    assert_eq!(bench.next_set().await[0], "default/a-node x:4");
}

// behaviour: SRC-29
#[tokio::test(start_paused = true)]
async fn created_removed_or_replaced_directory_is_watched() {
    let mut bench = Bench::reading(MemoryFiles::new());
    assert!(bench.next_set().await.is_empty());
    let at_once = |(set, time): (Vec<String>, Duration)| {
        assert!(time <= AT_ONCE * 2, "{time:?}");
        set
    };
    bench.files.write(A, manifest("a", "x:1"));
    assert_eq!(at_once(bench.next_set_after().await), BOTH[..1]);
    bench.files.write(B, manifest("b", "x:1"));
    assert_eq!(at_once(bench.next_set_after().await), BOTH);
    bench.files.remove("/manifests");
    assert!(at_once(bench.next_set_after().await).is_empty());
    bench.files.write("/new/b.yaml", manifest("b", "x:1"));
    bench.files.rename("/new", "/manifests");
    assert_eq!(at_once(bench.next_set_after().await), BOTH[1..]);
    // Replaced by another directory.
    bench.files.write("/new/a.yaml", manifest("a", "x:1"));
    bench.files.rename("/manifests", "/old");
    bench.files.rename("/new", "/manifests");
    assert_eq!(at_once(bench.next_set_after().await), BOTH[..1]);
    bench.files.write(B, manifest("b", "x:1"));
    assert_eq!(at_once(bench.next_set_after().await), BOTH);
}

#[tokio::test(start_paused = true)]
async fn directory_without_parent_is_found_periodically() {
    let path = "/etc/kubernetes/manifests";
    let mut bench = Bench::starting(Arc::new(MemoryFiles::new()), path);
    assert!(bench.next_set().await.is_empty());
    bench.files.write(format!("{path}/a.yaml"), manifest("a", "x:1"));
    assert_eq!(bench.next_set().await, BOTH[..1]);
    bench.files.write(format!("{path}/b.yaml"), manifest("b", "x:1"));
    let (set, time) = bench.next_set_after().await;
    assert_eq!(set, BOTH);
    assert!(time <= AT_ONCE, "{time:?}");
}

#[tokio::test(start_paused = true)]
async fn retargeted_directory_link_is_found_periodically() {
    let files = MemoryFiles::new();
    files.write("/one/a.yaml", manifest("a", "x:1"));
    files.write("/two/a.yaml", manifest("a", "x:2"));
    files.put_link("/manifests", "/one");
    let mut bench = Bench::reading(files);
    assert_eq!(bench.next_set().await, ["default/a-node x:1"]);
    bench.files.put_link("/manifests", "/two");
    assert_eq!(bench.next_set().await, ["default/a-node x:2"]);
    bench.files.write("/two/b.yaml", manifest("b", "x:2"));
    let (set, time) = bench.next_set_after().await;
    assert_eq!(set.len(), 2);
    assert!(time <= AT_ONCE, "{time:?}");
}

#[tokio::test(start_paused = true)]
async fn siblings_of_a_single_manifest_are_ignored() {
    let files = MemoryFiles::new();
    files.write("/etc/pod.yaml", manifest("a", "x:1"));
    let mut bench = Bench::starting(Arc::new(files), "/etc/pod.yaml");
    assert_eq!(bench.next_set().await, ["default/a-node x:1"]);
    bench.files.write("/etc/hosts", "localhost");
    bench.files.remove("/etc/hosts");
    sleep(AT_ONCE).await;
    assert_eq!(bench.files.reads("/etc/pod.yaml"), 1);
    bench.files.write("/etc/new", manifest("a", "x:2"));
    bench.files.rename("/etc/new", "/etc/pod.yaml");
    let (set, time) = bench.next_set_after().await;
    assert_eq!(set, ["default/a-node x:2"]);
    assert!(time <= AT_ONCE, "{time:?}");
}

#[tokio::test(start_paused = true)]
async fn manifest_links_are_followed_as_in_a_mounted_config_map() {
    let files = MemoryFiles::new();
    files.write("/manifests/..1/a.yaml", manifest("a", "x:1"));
    files.put_link("/manifests/..data", "..1");
    files.put_link(A, "..data/a.yaml");
    let mut bench = Bench::reading(files);
    assert_eq!(bench.next_set().await, ["default/a-node x:1"]);
    bench.files.write("/manifests/..2/a.yaml", manifest("a", "x:2"));
    bench.files.put_link("/manifests/..tmp", "..2");
    bench.files.rename("/manifests/..tmp", "/manifests/..data");
    let (set, time) = bench.next_set_after().await;
    assert_eq!(set, ["default/a-node x:2"]);
    assert!(time <= AT_ONCE, "{time:?}");
    // The targets of links are not watched.
    bench.files.write("/manifests/..2/a.yaml", manifest("a", "x:3"));
    assert_eq!(bench.next_set().await, ["default/a-node x:3"]);
}

// behaviour: SRC-29
#[tokio::test(start_paused = true)]
async fn missing_watch_is_logged_once_and_falls_back_to_polling() {
    let logged = Logged::new();
    let files = two();
    files.refuse_watches(ErrorKind::QuotaExceeded);
    let mut bench = Bench::reading(files);
    assert_eq!(bench.next_set().await, BOTH);
    bench.files.write(A, manifest("a", "x:2"));
    let (set, time) = bench.next_set_after().await;
    assert_eq!(set, ["default/a-node x:2", BOTH[1]]);
    assert!(time > AT_ONCE && time <= PERIOD, "{time:?}");
    bench.settle().await;
    let warnings = logged.warnings();
    assert_eq!(warnings.len(), 1, "{warnings:?}");
    assert!(warnings[0].contains("watch /manifests"), "{warnings:?}");
    bench.files.allow_watches();
    bench.settle().await;
    bench.files.write(A, manifest("a", "x:3"));
    let (_, time) = bench.next_set_after().await;
    assert!(time <= AT_ONCE, "{time:?}");
}
