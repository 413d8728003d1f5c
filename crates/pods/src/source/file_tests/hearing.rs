//! Changes are noticed at once, and found now and then if they were not.

use super::*;
use testkit::logged::Logged;

/// Within this time a change is read.
const AT_ONCE: Duration = Duration::from_millis(50);

const A: &str = "/manifests/a.yaml";
const B: &str = "/manifests/b.yaml";

impl Bench {
    /// The next set, and how long it took.
    async fn told_after(&mut self) -> (Vec<String>, Duration) {
        let start = Instant::now();
        let told = self.told().await;
        (told, start.elapsed())
    }

    /// Lets as much time pass as it takes to trust the versions of all files.
    async fn settle(&mut self) {
        self.told_nothing().await;
    }
}

// behaviour: SRC-27
#[tokio::test(start_paused = true)]
async fn a_change_is_read_at_once() {
    let mut bench = Bench::reading(two());
    assert_eq!(bench.told().await, BOTH);
    bench.files.write(A, manifest("a", "x:2"));
    let (told, time) = bench.told_after().await;
    assert_eq!(told, ["default/a-node x:2", BOTH[1]]);
    assert!(time <= AT_ONCE, "{time:?}");
    bench.files.write("/manifests/c.yaml", manifest("c", "x:1"));
    let (told, time) = bench.told_after().await;
    assert_eq!(told.len(), 3);
    assert!(time <= AT_ONCE, "{time:?}");
    bench.files.remove(A);
    let (told, time) = bench.told_after().await;
    assert_eq!(told, [BOTH[1], "default/c-node x:1"]);
    // That it is gone is looked at twice.
    assert!(time <= AT_ONCE * 2, "{time:?}");
}

// behaviour: SRC-36
#[tokio::test(start_paused = true)]
async fn change_without_a_notice_is_found_within_the_period_however_long_it_was_quiet() {
    let mut bench = Bench::reading(two());
    assert_eq!(bench.told().await, BOTH);
    bench.files.deafen();
    for version in 2..5 {
        bench.settle().await;
        bench.files.write(A, manifest("a", &format!("x:{version}")));
        let (pods, time) = bench.told_after().await;
        assert_eq!(pods[0], format!("default/a-node x:{version}"));
        assert!(time <= PERIOD, "{time:?}");
    }
}

// behaviour: SRC-36
#[tokio::test(start_paused = true)]
async fn that_another_directory_is_there_is_seen_by_the_next_look_at_the_path() {
    let files = two();
    files.write("/next/c.yaml", manifest("c", "x:1"));
    let mut bench = Bench::reading(files);
    assert_eq!(bench.told().await, BOTH);
    bench.settle().await;
    bench.files.deafen();
    bench.files.remove("/manifests");
    bench.files.rename("/next", "/manifests");
    let (told, time) = bench.told_after().await;
    assert_eq!(told, ["default/c-node x:1"]);
    assert!(time <= PERIOD + AT_ONCE, "{time:?}");
}

// behaviour: SRC-27
#[tokio::test(start_paused = true)]
async fn without_notices_changes_are_found_now_and_then() {
    let mut bench = Bench::reading(two());
    assert_eq!(bench.told().await, BOTH);
    bench.settle().await;
    bench.files.deafen();
    bench.files.write(A, manifest("a", "x:2"));
    let (told, time) = bench.told_after().await;
    assert_eq!(told, ["default/a-node x:2", BOTH[1]]);
    assert!(time > AT_ONCE && time <= PERIOD, "{time:?}");
    bench.files.remove(B);
    let (told, time) = bench.told_after().await;
    assert_eq!(told, ["default/a-node x:2"]);
    assert!(time <= PERIOD + AT_ONCE, "{time:?}");
}

// behaviour: SRC-28
#[tokio::test(start_paused = true)]
async fn what_an_editor_does_is_one_change() {
    let mut bench = Bench::reading(two());
    assert_eq!(bench.told().await, BOTH);
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
    assert_eq!(bench.told().await, ["default/a-node x:2", BOTH[1]]);
    assert_eq!(reads(&bench), [before[0] + 1, before[1]]);
    assert_eq!(bench.files.reads("/manifests/4913"), 0);
}

#[tokio::test(start_paused = true)]
async fn a_file_that_is_away_for_a_moment_is_not_gone() {
    let mut bench = Bench::reading(two());
    assert_eq!(bench.told().await, BOTH);
    bench.files.deafen();
    // The look now and then comes just when an editor has moved the file away.
    sleep(Duration::from_millis(19_990)).await;
    bench.files.rename(A, "/elsewhere");
    sleep(Duration::from_millis(20)).await;
    bench.files.rename("/elsewhere", A);
    bench.told_nothing().await;
}

#[tokio::test(start_paused = true)]
async fn changes_without_an_end_are_read_all_the_same() {
    let mut bench = Bench::reading(two());
    assert_eq!(bench.told().await, BOTH);
    let files = Arc::clone(&bench.files);
    bench.tasks.spawn(async move {
        for number in 0.. {
            files.write(A, manifest("a", &format!("x:{number}")));
            sleep(Duration::from_millis(10)).await;
        }
    });
    let mut last = String::new();
    for _ in 0..10 {
        let (told, time) = bench.told_after().await;
        assert!(time <= AT_ONCE && told[0] != last, "{time:?} {told:?}");
        last.clone_from(&told[0]);
    }
}

// behaviour: SRC-28
#[tokio::test(start_paused = true)]
async fn only_files_that_changed_are_read_again() {
    let mut bench = Bench::reading(two());
    assert_eq!(bench.told().await, BOTH);
    bench.settle().await;
    // Once more than told: the first time, its version might not have told it from the next.
    assert_eq!(bench.files.reads(A), 2);
    bench.settle().await;
    assert_eq!([A, B].map(|path| bench.files.reads(path)), [2, 2]);
    bench.files.write(B, manifest("b", "x:2"));
    bench.told().await;
    assert_eq!([A, B].map(|path| bench.files.reads(path)), [2, 3]);
    bench.settle().await;
    assert_eq!([A, B].map(|path| bench.files.reads(path)), [2, 4]);
}

#[tokio::test(start_paused = true)]
async fn a_change_too_soon_to_show_is_found() {
    let mut bench = Bench::reading(two());
    assert_eq!(bench.told().await, BOTH);
    bench.files.write_unseen(A, manifest("a", "x:2"));
    assert_eq!(bench.told().await, ["default/a-node x:2", BOTH[1]]);
    // Looked at twice, but so soon that the next change may not show either.
    bench.files.write(A, manifest("a", "x:3"));
    assert_eq!(bench.told().await.len(), 2);
    bench.files.write("/manifests/c.yaml", manifest("c", "x:1"));
    assert_eq!(bench.told().await.len(), 3);
    bench.files.write_unseen(A, manifest("a", "x:4"));
    assert_eq!(bench.told().await[0], "default/a-node x:4");
}

// behaviour: SRC-29
#[tokio::test(start_paused = true)]
async fn a_directory_that_comes_later_goes_or_is_replaced_is_listened_to() {
    let mut bench = Bench::reading(MemoryFiles::new());
    assert!(bench.told().await.is_empty());
    let at_once = |(told, time): (Vec<String>, Duration)| {
        assert!(time <= AT_ONCE * 2, "{time:?}");
        told
    };
    bench.files.write(A, manifest("a", "x:1"));
    assert_eq!(at_once(bench.told_after().await), BOTH[..1]);
    bench.files.write(B, manifest("b", "x:1"));
    assert_eq!(at_once(bench.told_after().await), BOTH);
    bench.files.remove("/manifests");
    assert!(at_once(bench.told_after().await).is_empty());
    bench.files.write("/new/b.yaml", manifest("b", "x:1"));
    bench.files.rename("/new", "/manifests");
    assert_eq!(at_once(bench.told_after().await), BOTH[1..]);
    // Another one in its place, at once.
    bench.files.write("/new/a.yaml", manifest("a", "x:1"));
    bench.files.rename("/manifests", "/old");
    bench.files.rename("/new", "/manifests");
    assert_eq!(at_once(bench.told_after().await), BOTH[..1]);
    bench.files.write(B, manifest("b", "x:1"));
    assert_eq!(at_once(bench.told_after().await), BOTH);
}

#[tokio::test(start_paused = true)]
async fn a_directory_far_from_existing_is_found_now_and_then() {
    let path = "/etc/kubernetes/manifests";
    let mut bench = Bench::starting(Arc::new(MemoryFiles::new()), path);
    assert!(bench.told().await.is_empty());
    bench.files.write(format!("{path}/a.yaml"), manifest("a", "x:1"));
    assert_eq!(bench.told().await, BOTH[..1]);
    bench.files.write(format!("{path}/b.yaml"), manifest("b", "x:1"));
    let (told, time) = bench.told_after().await;
    assert_eq!(told, BOTH);
    assert!(time <= AT_ONCE, "{time:?}");
}

#[tokio::test(start_paused = true)]
async fn a_link_to_another_directory_is_found_now_and_then() {
    let files = MemoryFiles::new();
    files.write("/one/a.yaml", manifest("a", "x:1"));
    files.write("/two/a.yaml", manifest("a", "x:2"));
    files.put_link("/manifests", "/one");
    let mut bench = Bench::reading(files);
    assert_eq!(bench.told().await, ["default/a-node x:1"]);
    bench.files.put_link("/manifests", "/two");
    assert_eq!(bench.told().await, ["default/a-node x:2"]);
    bench.files.write("/two/b.yaml", manifest("b", "x:2"));
    let (told, time) = bench.told_after().await;
    assert_eq!(told.len(), 2);
    assert!(time <= AT_ONCE, "{time:?}");
}

#[tokio::test(start_paused = true)]
async fn files_around_a_single_manifest_are_not_its_business() {
    let files = MemoryFiles::new();
    files.write("/etc/pod.yaml", manifest("a", "x:1"));
    let mut bench = Bench::starting(Arc::new(files), "/etc/pod.yaml");
    assert_eq!(bench.told().await, ["default/a-node x:1"]);
    bench.files.write("/etc/hosts", "localhost");
    bench.files.remove("/etc/hosts");
    sleep(AT_ONCE).await;
    assert_eq!(bench.files.reads("/etc/pod.yaml"), 1);
    bench.files.write("/etc/new", manifest("a", "x:2"));
    bench.files.rename("/etc/new", "/etc/pod.yaml");
    let (told, time) = bench.told_after().await;
    assert_eq!(told, ["default/a-node x:2"]);
    assert!(time <= AT_ONCE, "{time:?}");
}

#[tokio::test(start_paused = true)]
async fn manifests_may_be_links_as_in_a_mounted_config_map() {
    let files = MemoryFiles::new();
    files.write("/manifests/..1/a.yaml", manifest("a", "x:1"));
    files.put_link("/manifests/..data", "..1");
    files.put_link(A, "..data/a.yaml");
    let mut bench = Bench::reading(files);
    assert_eq!(bench.told().await, ["default/a-node x:1"]);
    bench.files.write("/manifests/..2/a.yaml", manifest("a", "x:2"));
    bench.files.put_link("/manifests/..tmp", "..2");
    bench.files.rename("/manifests/..tmp", "/manifests/..data");
    let (told, time) = bench.told_after().await;
    assert_eq!(told, ["default/a-node x:2"]);
    assert!(time <= AT_ONCE, "{time:?}");
    // What a link leads to is watched by nobody.
    bench.files.write("/manifests/..2/a.yaml", manifest("a", "x:3"));
    assert_eq!(bench.told().await, ["default/a-node x:3"]);
}

// behaviour: SRC-29
#[tokio::test(start_paused = true)]
async fn without_a_watch_there_is_one_warning_and_the_period() {
    let logged = Logged::new();
    let files = two();
    files.refuse_watches(ErrorKind::QuotaExceeded);
    let mut bench = Bench::reading(files);
    assert_eq!(bench.told().await, BOTH);
    bench.files.write(A, manifest("a", "x:2"));
    let (told, time) = bench.told_after().await;
    assert_eq!(told, ["default/a-node x:2", BOTH[1]]);
    assert!(time > AT_ONCE && time <= PERIOD, "{time:?}");
    bench.settle().await;
    let warnings = logged.warnings();
    assert_eq!(warnings.len(), 1, "{warnings:?}");
    assert!(warnings[0].contains("watch /manifests"), "{warnings:?}");
    bench.files.allow_watches();
    bench.settle().await;
    bench.files.write(A, manifest("a", "x:3"));
    let (_, time) = bench.told_after().await;
    assert!(time <= AT_ONCE, "{time:?}");
}
