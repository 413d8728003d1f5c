//! Removals, measurements and events of passes.

use std::io::ErrorKind;
use std::time::Duration;

use gc::images::ImagesLeft;
use model::ports::runtime::{Code, ImageService};
use model::verdict::{Input, Subject};
use testkit::runtime::{Fault, Method, RemoteImage, Rule};
use testkit::wanted::removal;

use crate::harness::{Harness, error, fates};
use testkit::logged::Logged;

const MIB: u64 = 1 << 20;

// behaviour: IMG-6
#[tokio::test(start_paused = true)]
async fn only_unused_images_are_removed_and_freed_space_is_measured() {
    let harness = Harness::new();
    harness.image("unused", 1024);
    let used = harness.image("used", 2048);
    harness.container("web", &used, None).await;
    let running = harness.started(3072).await;
    let report = running.gc.run_now().await;
    assert_eq!(fates(&report.plan), ["unused disk-over-high-threshold", "used image-in-use"]);
    let after = report.plan.items[0].detail.0.last().unwrap();
    assert_eq!(*after, ("availableAfter", Input::Number(1024)));
    assert_eq!(report.error.as_ref().map(ToString::to_string), None);
    assert_eq!((harness.left(), harness.counted("space")), (vec!["used".to_owned()], 1));
}

// behaviour: IMG-10, IMG-11
#[tokio::test(start_paused = true)]
async fn pinned_images_stay_for_any_amount_of_needed_space() {
    let harness = Harness::new();
    harness.runtime.add_image(&RemoteImage::new("pinned").size(1000).pinned());
    harness.image("loose", 1000);
    let running = harness.started(2000).await;
    let report = running.gc.delete_unused().await;
    assert_eq!(fates(&report.plan), ["loose node-short-of-disk", "pinned image-pinned"]);
    assert!(report.error.is_none());
    let report = running.gc.delete_unused().await;
    assert_eq!(fates(&report.plan), ["pinned image-pinned"]);
    assert!(report.error.is_none());
}

// behaviour: IMG-12, IMG-29
#[tokio::test(start_paused = true)]
async fn all_unused_images_are_removed_under_disk_pressure() {
    let mut harness = Harness::new();
    (harness.policy.high_threshold, harness.policy.low_threshold) = (100, 99);
    let used = harness.image("a", 10);
    harness.image("b", 10);
    harness.image("c", 10);
    harness.container("web", &used, None).await;
    let running = harness.started(30).await;
    tokio::time::sleep(Duration::from_mins(30)).await;
    assert_eq!(harness.left().len(), 3);
    assert_eq!(harness.disk.looks(), 0);
    assert!(running.gc.delete_unused().await.error.is_none());
    assert_eq!((harness.left(), harness.counted("space")), (vec!["a".to_owned()], 2));
    running.stop().await;
}

// behaviour: IMG-13
#[tokio::test(start_paused = true)]
async fn young_images_stay_under_disk_pressure() {
    let mut harness = Harness::new();
    harness.policy.minimum_age = Duration::from_secs(3);
    harness.image("a", 10);
    harness.image("b", 10);
    let running = harness.start();
    running.gc.delete_unused().await;
    assert_eq!(harness.left().len(), 2);
    tokio::time::sleep(Duration::from_secs(3)).await;
    running.gc.delete_unused().await;
    assert_eq!(harness.left().len(), 0);
}

// behaviour: IMG-16
#[tokio::test(start_paused = true)]
async fn first_failed_measurement_removes_nothing_and_records_no_event() {
    let harness = Harness::new();
    harness.image("a", 100);
    let running = harness.started(100).await;
    harness.disk.fail(Some(ErrorKind::PermissionDenied));
    let report = running.gc.run_now().await;
    assert!(error(&report).starts_with("measure the image filesystem"), "{}", error(&report));
    assert_eq!(fates(&report.plan), ["a disk-cannot-be-measured"]);
    harness.disk.fail(None);
    harness.runtime.inject(Rule::on(Method::ImageFsInfo, Fault::error(Code::Unavailable)).once());
    let report = running.gc.run_now().await;
    assert!(error(&report).starts_with("request the image filesystem"), "{}", error(&report));
    harness.runtime.set_image_directories(Vec::new());
    let report = running.gc.run_now().await;
    assert_eq!(error(&report), "the runtime reports no image filesystem");
    assert_eq!((harness.left().len(), harness.reasons().len()), (1, 0));
}

// behaviour: IMG-17
#[tokio::test(start_paused = true)]
async fn image_larger_than_the_needed_space_is_removed() {
    let harness = Harness::new();
    harness.image("a", 450);
    harness.disk.set_others(500);
    let running = harness.started(1000).await;
    let report = running.gc.run_now().await;
    assert!(report.error.is_none());
    assert_eq!(harness.left(), [""; 0]);
}

// behaviour: IMG-18
#[tokio::test(start_paused = true)]
async fn insufficient_space_event_has_the_numbers() {
    let harness = Harness::new();
    harness.image("a", 500 * MIB);
    let capacity = 10 << 30;
    harness.disk.set_others(capacity / 20 * 19 - 500 * MIB);
    let running = harness.started(capacity).await;
    let report = running.gc.run_now().await;
    assert_eq!(harness.left(), [""; 0]);
    let event = &harness.events.all()[0];
    assert_eq!(event.reason, "FreeDiskSpaceFailed");
    for part in ["95%", "10.0 GiB", "524288000 bytes"] {
        assert!(event.message.contains(part), "{}", event.message);
    }
    assert_eq!(error(&report), event.message);
}

// behaviour: IMG-19, IMG-20
#[tokio::test(start_paused = true)]
async fn disk_without_capacity_is_reported() {
    let harness = Harness::new();
    harness.image("a", 100);
    let running = harness.started(0).await;
    let report = running.gc.run_now().await;
    let directory = testkit::runtime::IMAGE_DIRECTORY;
    let expected = format!("invalid capacity 0 on image filesystem: {directory}");
    assert_eq!(error(&report), expected);
    harness.disk.set_capacity(100);
    harness.runtime.set_image_directories(vec!["/elsewhere".into()]);
    running.gc.run_now().await;
    assert_eq!(harness.reasons(), ["InvalidDiskCapacity", "InvalidDiskCapacity"]);
    assert_eq!(harness.events.all()[0].message, "invalid capacity 0 on image filesystem");
    assert_eq!(harness.left().len(), 1);
}

// behaviour: IMG-49
#[tokio::test(start_paused = true)]
async fn first_image_filesystem_counts() {
    let harness = Harness::new();
    harness.image("a", 100);
    let first = testkit::runtime::IMAGE_DIRECTORY;
    harness.runtime.set_image_directories(vec![first.into(), "/elsewhere".into()]);
    let logged = Logged::new();
    let running = harness.started(100).await;
    assert!(running.gc.run_now().await.error.is_none());
    assert_eq!(harness.left(), [""; 0]);
    assert!(running.gc.run_now().await.error.is_none());
    assert_eq!(logged.warnings_of("Several image filesystems"), 1);
}

// behaviour: IMG-23, IMG-25
#[tokio::test(start_paused = true)]
async fn failed_age_removal_does_not_prevent_other_removals() {
    let mut harness = Harness::new();
    harness.policy.maximum_age = Duration::from_mins(11);
    let stuck = harness.image("stuck", 10);
    harness.image("old", 10);
    let running = harness.started(1 << 40).await;
    tokio::time::sleep(Duration::from_mins(9)).await;
    harness.image("new", 100);
    harness
        .runtime
        .inject(Rule::on(Method::RemoveImage, Fault::error(Code::Internal)).object(&stuck));
    tokio::time::sleep(Duration::from_secs(130)).await;
    harness.disk.set_capacity(130);
    harness.disk.set_others(20);
    let report = running.gc.run_now().await;
    let fates = fates(&report.plan);
    assert!(fates.contains(&"stuck removal-failed".to_owned()), "{fates:?}");
    assert!(fates.contains(&"new disk-over-high-threshold".to_owned()), "{fates:?}");
    assert!(error(&report).starts_with("wanted to free images older than 660s"), "{report:?}");
    assert_eq!((harness.left(), harness.counted("age")), (vec!["stuck".to_owned()], 1));
}

// behaviour: IMG-26
#[tokio::test(start_paused = true)]
async fn failed_removal_is_followed_by_the_next_image() {
    let harness = Harness::new();
    let stuck = harness.image("a-stuck", 500);
    harness.image("b", 500);
    harness
        .runtime
        .inject(Rule::on(Method::RemoveImage, Fault::error(Code::Internal)).object(&stuck));
    let running = harness.started(1000).await;
    let report = running.gc.run_now().await;
    assert!(error(&report).contains("but freed 500 bytes space with errors"), "{report:?}");
    assert_eq!((harness.left(), harness.reasons()), (vec!["a-stuck".to_owned()], vec![]));
}

// behaviour: IMG-26, IMG-32
#[tokio::test(start_paused = true)]
async fn remaining_images_are_published_after_a_sweep() {
    let mut harness = Harness::new();
    harness.policy.minimum_age = Duration::from_mins(2);
    let used = harness.image("used", 100);
    let pinned = harness.runtime.add_image(&RemoteImage::new("pinned").size(100).pinned());
    harness.image("goes", 100);
    harness.container("web", &used, None).await;
    let running = harness.started(1 << 40).await;
    let mut left = running.gc.left();
    tokio::time::sleep(Duration::from_mins(2)).await;
    let young = harness.image("young", 100);
    harness.disk.set_capacity(400);
    let began = harness.now();
    assert!(running.gc.run_now().await.error.is_none());
    let images_left = |ids: &[&String]| ImagesLeft {
        began: harness.now(),
        ids: ids.iter().copied().cloned().collect(),
    };
    let expected = ImagesLeft { began, ..images_left(&[&used, &pinned, &young]) };
    assert_eq!(left.borrow_and_update().as_deref(), Some(&expected));
    tokio::time::sleep(Duration::from_mins(2)).await;
    harness.disk.set_others(60);
    harness.runtime.inject(Rule::on(Method::RemoveImage, Fault::error(Code::Internal)).once());
    assert!(running.gc.run_now().await.error.is_some());
    assert!(!left.has_changed().unwrap(), "whether the image is there is unknown");
    let expected = images_left(&[&used, &pinned]);
    assert!(running.gc.run_now().await.error.is_none());
    assert_eq!(left.borrow_and_update().as_deref(), Some(&expected));
    assert!(running.gc.delete_unused().await.error.is_none());
    assert_eq!(left.borrow_and_update().as_deref(), Some(&expected));
}

// behaviour: IMG-32
#[tokio::test(start_paused = true)]
async fn age_removals_do_not_publish_remaining_images() {
    let mut harness = Harness::new();
    harness.policy.maximum_age = Duration::from_mins(3);
    harness.image("old", 100);
    let running = harness.started(1 << 40).await;
    tokio::time::sleep(Duration::from_mins(6)).await;
    assert_eq!((harness.left().len(), harness.counted("age")), (0, 1));
    assert_eq!(*running.gc.left().borrow(), None);
}

// behaviour: IMG-31
#[tokio::test(start_paused = true)]
async fn second_consecutive_failure_records_an_event() {
    let harness = Harness::new();
    harness.runtime.inject(Rule::on(Method::ListImages, Fault::error(Code::Unavailable)).times(2));
    let running = harness.start();
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(harness.reasons(), [""; 0]);
    tokio::time::sleep(Duration::from_mins(5)).await;
    assert_eq!(harness.reasons(), ["ImageGCFailed"]);
    let message = "rpc error: code = Unavailable desc = injected by a test";
    assert_eq!(harness.events.all()[0].message, message);
    tokio::time::sleep(Duration::from_mins(5)).await;
    harness.runtime.inject(Rule::on(Method::ListImages, Fault::error(Code::Unavailable)).once());
    tokio::time::sleep(Duration::from_mins(5)).await;
    assert_eq!(harness.reasons(), ["ImageGCFailed"]);
    running.stop().await;
}

// behaviour: IMG-40, IMG-41
#[tokio::test(start_paused = true)]
async fn shared_layers_count_with_the_last_image_that_has_them() {
    let harness = Harness::new();
    let running = harness.started(1 << 40).await;
    // By image sizes, the first one would be enough: 600 of 1000.
    let images = ["a", "b", "c", "d"].map(|name| {
        let own = format!("own-{name}");
        RemoteImage::new(name).layers([("base", 500), (own.as_str(), 100)])
    });
    harness.one_by_one(&running, images.to_vec()).await;
    harness.disk.set_capacity(1000);
    harness.disk.set_lag(Duration::from_secs(2));
    // The usage is 90 %, the goal 80 %: 100 bytes, the unshared layer of one image.
    let report = running.gc.run_now().await;
    assert!(report.error.is_none(), "{report:?}");
    assert_eq!(harness.left(), ["b", "c", "d"]);
    // The usage is 98 % now. One unshared layer is not enough, although the image size would be.
    harness.disk.set_others(180);
    let report = running.gc.run_now().await;
    assert!(report.error.is_none(), "{report:?}");
    assert_eq!(harness.left(), ["d"]);
}

// behaviour: IMG-41, IMG-42
#[tokio::test(start_paused = true)]
async fn fruitless_removals_end_the_pass() {
    let harness = Harness::new();
    for number in 0..9 {
        let name = format!("image-{number}");
        harness.runtime.add_image(&RemoteImage::new(&name).layers([("base", 1000)]));
    }
    let running = harness.started(1000).await;
    let began = tokio::time::Instant::now();
    let report = running.gc.run_now().await;
    assert_eq!(harness.left().len(), 6);
    assert_eq!(began.elapsed().as_secs(), 15, "each removal is measured for five seconds");
    let stayed = fates(&report.plan).iter().filter(|fate| fate.ends_with("gain-nothing")).count();
    assert_eq!((stayed, harness.reasons()), (6, vec!["FreeDiskSpaceFailed"]));
}

// behaviour: IMG-60
#[tokio::test(start_paused = true)]
async fn other_writers_do_not_end_the_pass() {
    let harness = Harness::new();
    for number in 0..6 {
        harness.image(&format!("image-{number}"), 100);
    }
    let running = harness.started(1000).await;
    // The space is released long after the measurement, and other processes use two bytes a second.
    harness.disk.set_lag(Duration::from_mins(10));
    let pass = running.gc.run_now();
    let others = async {
        for second in 0..200 {
            harness.disk.set_others(300 + 2 * second);
            tokio::time::sleep(Duration::from_secs(1)).await;
        }
    };
    let report = tokio::select! {
        biased;
        () = others => panic!("the pass does not end"),
        report = pass => report,
    };
    assert_eq!(harness.left(), [""; 0]);
    let fruitless = fates(&report.plan).iter().any(|fate| fate.ends_with("gain-nothing"));
    assert!(!fruitless, "{report:?}");
    assert_eq!(harness.reasons(), ["FreeDiskSpaceFailed"]);
}

// behaviour: IMG-12
#[tokio::test(start_paused = true)]
async fn freed_space_is_the_sum_of_sizes_when_all_images_are_removed() {
    let harness = Harness::new();
    let stuck = harness.image("a-stuck", 500);
    harness.image("b", 300);
    harness.image("c", 200);
    harness
        .runtime
        .inject(Rule::on(Method::RemoveImage, Fault::error(Code::Internal)).object(&stuck));
    let running = harness.started(1 << 40).await;
    let report = running.gc.delete_unused().await;
    assert!(error(&report).contains("but freed 500 bytes space with errors"), "{report:?}");
    assert_eq!(harness.left(), ["a-stuck"]);
}

#[tokio::test(start_paused = true)]
async fn removal_that_succeeded_despite_an_error_counts() {
    let harness = Harness::new();
    harness.image("a", 500);
    harness.image("b", 500);
    harness.runtime.inject(Rule::on(Method::RemoveImage, Fault::late_success()).once());
    let running = harness.started(1000).await;
    let report = running.gc.run_now().await;
    assert_eq!(harness.left().len(), 1);
    assert!(error(&report).contains("freed 500 bytes"), "{report:?}");
}

#[tokio::test(start_paused = true)]
async fn removal_of_a_missing_image_is_not_an_error() {
    let harness = Harness::new();
    let gone = harness.image("gone", 500);
    harness.runtime.inject(Rule::on(Method::RemoveImage, Fault::error(Code::NotFound)).once());
    let running = harness.started(500).await;
    let report = running.gc.run_now().await;
    assert!(matches!(&report.plan.items[0].subject, Subject::Image(id) if *id == gone));
    assert!(matches!(report.error, Some(gc::images::ImageGcError::NotEnough(_))), "{report:?}");
    harness.runtime.remove_image(&removal(Subject::Image(gone))).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn image_pass_runs_every_five_minutes() {
    let harness = Harness::new();
    let running = harness.start();
    tokio::time::sleep(Duration::from_mins(21)).await;
    assert_eq!(harness.runtime.count(Method::ListImages), 5);
    running.stop().await;
}

// behaviour: WRK-38
#[tokio::test(start_paused = true)]
async fn panic_in_one_image_removal_does_not_prevent_others() {
    let harness = Harness::new();
    let broken = harness.image("a", 10);
    harness.image("b", 10);
    let running = harness.started(30).await;
    let rule = Rule::on(Method::RemoveImage, Fault::panic());
    harness.runtime.inject(rule.object(broken.as_str()).once());
    let report = running.gc.delete_unused().await;
    assert_eq!((report.not_removed(), harness.left()), (1, vec!["a".to_owned()]));
    let error = report.error.expect("one image could not be removed").to_string();
    assert!(error.contains("panic in image_gc: injected by a test"), "{error}");
    assert!(running.gc.delete_unused().await.error.is_none());
    assert_eq!(harness.left(), [""; 0]);
}
