//! Growing and quiet logs.

use std::time::Duration;

use logs::{REPAIR, Settings};
use model::observed::ContainerState;
use tokio::time::sleep;

use crate::harness::{Harness, assert_contiguous, bytes_per_second, has_extension, log_of, small};

const SECOND: Duration = Duration::from_secs(1);

// behaviour: ROT-1, ROT-6
#[tokio::test(start_paused = true)]
async fn growing_log_is_rotated_and_all_but_the_newest_rotated_file_compressed() {
    let harness = Harness::new(small());
    harness.run("web", &["main"]);
    let mut lines = bytes_per_second(400);
    harness.write_for("web-main", &mut lines, 30 * SECOND).await;
    let names = harness.names("web");
    assert_eq!(names.len(), 5, "{names:?}");
    assert_eq!(names[0], "0.log");
    assert!(names[1..4].iter().all(|name| has_extension(name, "gz")), "{names:?}");
    assert!(!has_extension(&names[4], "gz"), "{names:?}");
    let (kept, sizes) = harness.kept("web");
    assert_contiguous(&kept, &lines);
    // The limit, plus the writes of 1.2 s.
    assert!(sizes.iter().all(|size| *size <= 1000 + 480), "{sizes:?}");
    assert!(sizes[..4].iter().all(|size| *size >= 1000), "{sizes:?}");
    harness.stop().await;
}

// behaviour: ROT-5
#[tokio::test(start_paused = true)]
async fn log_is_rotated_at_most_once_a_second() {
    let harness = Harness::new(small());
    harness.run("web", &["main"]);
    let mut lines = bytes_per_second(20_000);
    harness.write_for("web-main", &mut lines, 10 * SECOND).await;
    let (kept, sizes) = harness.kept("web");
    assert_contiguous(&kept, &lines);
    assert_eq!(sizes.len(), 5);
    assert!(sizes.iter().all(|size| *size <= 1000 + 24_000), "{sizes:?}");
    let reopened = harness.containers.reopened();
    assert!((8..=10).contains(&reopened), "{reopened}");
    let verdicts = harness.verdicts();
    assert_eq!(verdicts.len(), reopened - 4, "{verdicts:?}");
    let first = "of pod default/web (web) by log-max-files (bytes ";
    assert!(verdicts[0].contains(first), "{verdicts:?}");
    harness.stop().await;
}

// behaviour: ROT-2
#[tokio::test(start_paused = true)]
async fn quiet_log_is_checked_every_five_minutes() {
    let harness = Harness::new(small());
    for pod in ["a", "b"] {
        harness.run(pod, &["main"]);
        harness.containers.write(&format!("{pod}-main"), "text\n");
    }
    sleep(30 * SECOND).await;
    let before = harness.files.log_looks();
    assert_eq!(harness.files.watched_logs(), 2);
    sleep(REPAIR.saturating_sub(31 * SECOND)).await;
    assert_eq!(harness.files.log_looks(), before);
    // One check after the period, and one after the next watch.
    sleep(REPAIR).await;
    assert!(harness.files.log_looks() <= before + 2 * 2, "{}", harness.files.log_looks() - before);
    // A write is detected at once, and measured 200 ms later.
    let before = harness.files.log_looks();
    harness.containers.write("a-main", &"x".repeat(1000));
    sleep(Duration::from_millis(300)).await;
    assert_eq!(harness.containers.reopened(), 1);
    assert!(harness.files.log_looks() > before);
    harness.stop().await;
}

// behaviour: ROT-3
#[tokio::test(start_paused = true)]
async fn slow_log_is_checked_once_an_interval() {
    let harness = Harness::new(Settings::default());
    harness.run("web", &["main"]);
    let mut lines = bytes_per_second(100);
    harness.write_for("web-main", &mut lines, 60 * SECOND).await;
    let before = harness.files.log_looks();
    harness.write_for("web-main", &mut lines, 100 * SECOND).await;
    let looks = harness.files.log_looks() - before;
    assert!((9..=11).contains(&looks), "{looks}");
    harness.stop().await;
}

// behaviour: ROT-10
#[tokio::test(start_paused = true)]
async fn log_of_a_stopped_container_is_not_rotated_and_its_size_is_reported() {
    let harness = Harness::new(small());
    harness.run("web", &["main"]);
    sleep(SECOND).await;
    harness.observe("web", &["main"], ContainerState::Exited);
    sleep(SECOND).await;
    harness.containers.write("web-main", &"x".repeat(5000));
    sleep(2 * REPAIR).await;
    assert_eq!((harness.containers.reopened(), harness.names("web").len()), (0, 1));
    assert_eq!(harness.rotation.used().len(), 1);
    harness.observe("web", &[], ContainerState::Exited);
    sleep(SECOND).await;
    assert_eq!(harness.rotation.used(), []);
    harness.stop().await;
}

// behaviour: ROT-11
#[tokio::test(start_paused = true)]
async fn negative_size_disables_rotation_and_sizes_are_reported() {
    let harness = Harness::new(Settings { max_size: None, ..small() });
    for name in ["0.log.20250101-000000", "0.log.20250102-000000", "0.log.20250101-000000.tmp"] {
        harness.files.write(log_of("web").with_file_name(name), "");
    }
    harness.run("web", &["main"]);
    let mut lines = bytes_per_second(1000);
    harness.write_for("web-main", &mut lines, 60 * SECOND).await;
    sleep(30 * SECOND).await;
    assert_eq!(harness.names("web").len(), 4);
    assert_eq!(harness.rotation.used()[0].live, u64::from(lines.next) * 10);
    harness.stop().await;
}

// behaviour: ROT-15
#[tokio::test(start_paused = true)]
async fn metric_has_the_bytes_of_all_files_of_a_container() {
    let harness = Harness::new(small());
    harness.files.write(log_of("web").with_file_name("9.log"), "of an earlier instance");
    harness.run("web", &["main", "other"]);
    let mut lines = bytes_per_second(400);
    harness.write_for("web-main", &mut lines, 10 * SECOND).await;
    sleep(30 * SECOND).await;
    let names = harness.names("web");
    let sizes = names
        .iter()
        .map(|name| harness.files.content(log_of("web").with_file_name(name)).unwrap().len());
    let bytes: usize = sizes.sum();
    let line = |container: &str, bytes: usize| {
        format!(
            "kubelet_container_log_filesystem_used_bytes{{container=\"{container}\",\
             namespace=\"default\",pod=\"web\",uid=\"web\"}} {bytes}"
        )
    };
    let metrics = harness.metrics();
    for expected in [line("main", bytes), line("other", 0)] {
        assert!(metrics.lines().any(|line| line == expected), "{expected}\n{metrics}");
    }
    harness.stop().await;
}

// behaviour: ROT-12
#[tokio::test(start_paused = true)]
async fn logs_of_a_pod_stay_below_their_common_limit() {
    let limit = 1 << 20;
    let settings = Settings { max_size: Some(1 << 20), max_bytes_per_pod: Some(limit), ..small() };
    let harness = Harness::new(settings);
    harness.run("web", &["main", "other"]);
    let mut lines = bytes_per_second(40_000);
    for _ in 0..60 {
        harness.write_for("web-main", &mut lines, SECOND).await;
        harness.containers.write("web-other", &"x".repeat(10_000));
        let used: u64 = harness.rotation.used().iter().map(logs::LogUse::bytes).sum();
        assert!(used <= limit, "{used}");
    }
    let (kept, _) = harness.kept("web");
    assert_contiguous(&kept, &lines);
    let verdicts = harness.verdicts();
    assert!(verdicts.iter().any(|verdict| verdict.contains("by pod-log-limit")), "{verdicts:?}");
    harness.stop().await;
}
