//! What happens to logs that grow, and to those that do not.

use std::time::Duration;

use logs::{REPAIR, Settings};
use model::observed::ContainerState;
use tokio::time::sleep;

use crate::harness::{World, assert_contiguous, bytes_per_second, has_extension, log_of, small};

const SECOND: Duration = Duration::from_secs(1);

// behaviour: ROT-1, ROT-6
#[tokio::test(start_paused = true)]
async fn growing_log_is_rotated_and_all_but_the_newest_rotated_file_compressed() {
    let world = World::new(small());
    world.run("web", &["main"]);
    let mut lines = bytes_per_second(400);
    world.write_for("web-main", &mut lines, 30 * SECOND).await;
    let names = world.names("web");
    assert_eq!(names.len(), 5, "{names:?}");
    assert_eq!(names[0], "0.log");
    assert!(names[1..4].iter().all(|name| has_extension(name, "gz")), "{names:?}");
    assert!(!has_extension(&names[4], "gz"), "{names:?}");
    let (kept, sizes) = world.kept("web");
    assert_contiguous(&kept, &lines);
    // The limit, and what is written in 1.2 s.
    assert!(sizes.iter().all(|size| *size <= 1000 + 480), "{sizes:?}");
    assert!(sizes[..4].iter().all(|size| *size >= 1000), "{sizes:?}");
    world.stop().await;
}

// behaviour: ROT-5
#[tokio::test(start_paused = true)]
async fn log_is_rotated_at_most_once_a_second() {
    let world = World::new(small());
    world.run("web", &["main"]);
    let mut lines = bytes_per_second(20_000);
    world.write_for("web-main", &mut lines, 10 * SECOND).await;
    let (kept, sizes) = world.kept("web");
    assert_contiguous(&kept, &lines);
    assert_eq!(sizes.len(), 5);
    assert!(sizes.iter().all(|size| *size <= 1000 + 24_000), "{sizes:?}");
    let reopened = world.containers.reopened();
    assert!((8..=10).contains(&reopened), "{reopened}");
    let verdicts = world.verdicts();
    assert_eq!(verdicts.len(), reopened - 4, "{verdicts:?}");
    let first = "of pod default/web (web) by log-max-files (bytes ";
    assert!(verdicts[0].contains(first), "{verdicts:?}");
    world.stop().await;
}

// behaviour: ROT-2
#[tokio::test(start_paused = true)]
async fn quiet_log_costs_one_look_every_five_minutes() {
    let world = World::new(small());
    for pod in ["a", "b"] {
        world.run(pod, &["main"]);
        world.containers.write(&format!("{pod}-main"), "text\n");
    }
    sleep(30 * SECOND).await;
    let before = world.files.log_looks();
    assert_eq!(world.files.watched_logs(), 2);
    sleep(REPAIR.saturating_sub(31 * SECOND)).await;
    assert_eq!(world.files.log_looks(), before);
    // A look after the period, and one after the next watch.
    sleep(REPAIR).await;
    assert!(world.files.log_looks() <= before + 2 * 2, "{}", world.files.log_looks() - before);
    // A write is noticed at once, and measured 200 ms later.
    let before = world.files.log_looks();
    world.containers.write("a-main", &"x".repeat(1000));
    sleep(Duration::from_millis(300)).await;
    assert_eq!(world.containers.reopened(), 1);
    assert!(world.files.log_looks() > before);
    world.stop().await;
}

// behaviour: ROT-3
#[tokio::test(start_paused = true)]
async fn slow_log_is_looked_at_once_an_interval() {
    let world = World::new(Settings::default());
    world.run("web", &["main"]);
    let mut lines = bytes_per_second(100);
    world.write_for("web-main", &mut lines, 60 * SECOND).await;
    let before = world.files.log_looks();
    world.write_for("web-main", &mut lines, 100 * SECOND).await;
    let looks = world.files.log_looks() - before;
    assert!((9..=11).contains(&looks), "{looks}");
    world.stop().await;
}

// behaviour: ROT-10
#[tokio::test(start_paused = true)]
async fn log_of_a_stopped_container_is_not_rotated_and_its_size_stays_known() {
    let world = World::new(small());
    world.run("web", &["main"]);
    sleep(SECOND).await;
    world.observe("web", &["main"], ContainerState::Exited);
    sleep(SECOND).await;
    world.containers.write("web-main", &"x".repeat(5000));
    sleep(2 * REPAIR).await;
    assert_eq!((world.containers.reopened(), world.names("web").len()), (0, 1));
    assert_eq!(world.rotation.used().len(), 1);
    world.observe("web", &[], ContainerState::Exited);
    sleep(SECOND).await;
    assert_eq!(world.rotation.used(), []);
    world.stop().await;
}

// behaviour: ROT-11
#[tokio::test(start_paused = true)]
async fn negative_size_disables_rotation_and_sizes_stay_known() {
    let world = World::new(Settings { max_size: None, ..small() });
    for name in ["0.log.20250101-000000", "0.log.20250102-000000", "0.log.20250101-000000.tmp"] {
        world.files.write(log_of("web").with_file_name(name), "");
    }
    world.run("web", &["main"]);
    let mut lines = bytes_per_second(1000);
    world.write_for("web-main", &mut lines, 60 * SECOND).await;
    sleep(30 * SECOND).await;
    assert_eq!(world.names("web").len(), 4);
    assert_eq!(world.rotation.used()[0].live, u64::from(lines.next) * 10);
    world.stop().await;
}

// behaviour: ROT-15
#[tokio::test(start_paused = true)]
async fn metric_has_the_bytes_of_all_files_of_a_container() {
    let world = World::new(small());
    world.files.write(log_of("web").with_file_name("9.log"), "of an earlier instance");
    world.run("web", &["main", "other"]);
    let mut lines = bytes_per_second(400);
    world.write_for("web-main", &mut lines, 10 * SECOND).await;
    sleep(30 * SECOND).await;
    let names = world.names("web");
    let sizes = names
        .iter()
        .map(|name| world.files.content(log_of("web").with_file_name(name)).unwrap().len());
    let bytes: usize = sizes.sum();
    let line = |container: &str, bytes: usize| {
        format!(
            "kubelet_container_log_filesystem_used_bytes{{container=\"{container}\",\
             namespace=\"default\",pod=\"web\",uid=\"web\"}} {bytes}"
        )
    };
    let metrics = world.metrics();
    for expected in [line("main", bytes), line("other", 0)] {
        assert!(metrics.lines().any(|line| line == expected), "{expected}\n{metrics}");
    }
    world.stop().await;
}

// behaviour: ROT-12
#[tokio::test(start_paused = true)]
async fn logs_of_a_pod_stay_below_their_common_limit() {
    let limit = 1 << 20;
    let settings = Settings { max_size: Some(1 << 20), max_bytes_per_pod: Some(limit), ..small() };
    let world = World::new(settings);
    world.run("web", &["main", "other"]);
    let mut lines = bytes_per_second(40_000);
    for _ in 0..60 {
        world.write_for("web-main", &mut lines, SECOND).await;
        world.containers.write("web-other", &"x".repeat(10_000));
        let used: u64 = world.rotation.used().iter().map(logs::LogUse::bytes).sum();
        assert!(used <= limit, "{used}");
    }
    let (kept, _) = world.kept("web");
    assert_contiguous(&kept, &lines);
    let verdicts = world.verdicts();
    assert!(verdicts.iter().any(|verdict| verdict.contains("by pod-log-limit")), "{verdicts:?}");
    world.stop().await;
}
