//! Plans of passes.

use std::time::Duration;

use testkit::runtime::{Fault, Method, RemoteImage, Rule};

use crate::harness::{Harness, error, fates, removals};

// behaviour: IMG-43
#[tokio::test(start_paused = true)]
async fn next_pass_removes_the_planned_images() {
    let mut harness = Harness::new();
    harness.policy.maximum_age = Duration::from_mins(11);
    harness.runtime.add_image(&RemoteImage::new("pinned").size(300).pinned());
    let used = harness.image("used", 300);
    harness.container("web", &used, None).await;
    for name in ["a", "b"] {
        harness.image(name, 40);
    }
    let running = harness.started(1 << 40).await;
    tokio::time::sleep(Duration::from_mins(9)).await;
    for name in ["c", "d", "e"] {
        harness.image(name, 100);
    }
    running.gc.run_now().await;
    tokio::time::sleep(Duration::from_secs(150)).await;
    harness.disk.set_capacity(1000);
    let before = (harness.left(), harness.records(), harness.reasons().len());
    let plan = running.gc.plan().await.plan;
    assert_eq!(
        before,
        (harness.left(), harness.records(), harness.reasons().len()),
        "nothing changed"
    );
    let rules: Vec<&str> = plan.items.iter().map(|item| item.rule).collect();
    let (old, space) = ("unused-longer-than-maximum-age", "disk-over-high-threshold");
    // 980 of 1000 are used; 80 are removed by age, and 100 for space.
    assert_eq!(rules[..3], [old, old, space]);
    assert_eq!(rules[3..5], ["enough-space-freed", "enough-space-freed"]);
    // In the order of ids.
    assert!(rules[5..].contains(&"image-in-use") && rules[5..].contains(&"image-pinned"));
    let report = running.gc.run_now().await;
    assert_eq!(removals(&report.plan), removals(&plan));
    assert_eq!(fates(&report.plan), fates(&plan));
    assert!(report.error.is_none(), "{report:?}");
}

#[tokio::test(start_paused = true)]
async fn plan_marks_reported_sizes() {
    let harness = Harness::new();
    for name in ["a", "b"] {
        let own = format!("own-{name}");
        let layers = [("base", 500), (own.as_str(), 100)];
        harness.runtime.add_image(&RemoteImage::new(name).layers(layers));
    }
    let running = harness.started(700).await;
    let plan = running.gc.plan().await.plan;
    assert_eq!(removals(&plan).len(), 1);
    let text = plan.items[0].detail.to_string();
    assert!(text.contains("estimated true") && text.contains("availableWanted 140"), "{text}");
    let report = running.gc.run_now().await;
    assert_eq!(removals(&report.plan).len(), 2, "the measurement decides");
}

#[tokio::test(start_paused = true)]
async fn plan_without_a_measurement_removes_by_age_only() {
    let harness = Harness::new();
    harness.image("a", 10);
    let running = harness.started(10).await;
    harness.runtime.set_image_directories(Vec::new());
    let planned = running.gc.plan().await;
    assert_eq!(fates(&planned.plan), ["a disk-cannot-be-measured"]);
    assert_eq!(error(&planned), "the runtime reports no image filesystem");
    let code = model::ports::runtime::Code::Unavailable;
    harness.runtime.inject(Rule::on(Method::ListImages, Fault::error(code)).once());
    let planned = running.gc.plan().await;
    assert!(error(&planned).starts_with("list images"), "{planned:?}");
    assert!(planned.plan.items.is_empty(), "{planned:?}");
}

// behaviour: IMG-67
#[tokio::test(start_paused = true)]
async fn plan_contains_the_insufficient_space_event() {
    let harness = Harness::new();
    let used = harness.image("used", 950);
    harness.container("web", &used, None).await;
    harness.image("goes", 40);
    let running = harness.started(1 << 40).await;
    assert_eq!(running.gc.plan().await.not_enough, None, "there is enough space");
    harness.disk.set_capacity(1000);
    let planned = running.gc.plan().await;
    assert!(planned.error.is_none(), "{planned:?}");
    assert_eq!(removals(&planned.plan).len(), 1);
    assert_eq!(harness.reasons(), [""; 0], "a plan records no event");
    let report = running.gc.run_now().await;
    assert_eq!(harness.reasons(), ["FreeDiskSpaceFailed"]);
    assert_eq!(planned.not_enough.as_ref(), Some(&harness.events.all()[0].message));
    assert_eq!(Some(error(&report)), planned.not_enough);
    assert_eq!(report.not_enough, None, "it is an error now");
}

// behaviour: IMG-61
#[tokio::test(start_paused = true)]
async fn plan_problem_names_the_directory_that_cannot_be_measured() {
    let harness = Harness::new();
    harness.image("a", 10);
    let running = harness.started(10).await;
    harness.runtime.set_image_directories(vec!["/elsewhere".into()]);
    let planned = running.gc.plan().await;
    assert_eq!(fates(&planned.plan), ["a disk-cannot-be-measured"]);
    assert_eq!(error(&planned), "invalid capacity 0 on image filesystem: /elsewhere");
    harness.runtime.set_image_directories(vec![testkit::runtime::IMAGE_DIRECTORY.into()]);
    harness.disk.fail(Some(std::io::ErrorKind::PermissionDenied));
    let planned = running.gc.plan().await;
    assert!(error(&planned).contains(testkit::runtime::IMAGE_DIRECTORY), "{planned:?}");
    assert_eq!(harness.reasons(), [""; 0], "a plan records no event");
}

// behaviour: IMG-62
#[tokio::test(start_paused = true)]
async fn unobserved_images_stay_with_that_reason() {
    let harness = Harness::new();
    let used = harness.image("used", 500);
    harness.image("unused", 500);
    harness.container("web", &used, None).await;
    // As in a command: no agent is running.
    let running = harness.start();
    let gc = running.gc.clone();
    running.kill().await;
    let planned = gc.plan_unobserved().await;
    let stays = ["unused below-high-threshold", "used image-in-use"];
    assert_eq!(
        (fates(&planned.plan), error(&planned)),
        (stays.map(str::to_owned).to_vec(), String::new())
    );
    harness.disk.set_capacity(1000);
    let plan = gc.plan_unobserved().await.plan;
    assert_eq!(fates(&plan), ["unused image-age-unknown", "used image-in-use"]);
    for item in &plan.items {
        let first = item.detail.0.iter().find(|(name, _)| *name == "firstDetected");
        assert_eq!(first, Some(&("firstDetected", model::verdict::Input::Nothing)), "{item:?}");
    }
    assert_eq!(harness.records(), "", "nothing is recorded");
}

#[tokio::test(start_paused = true)]
async fn request_to_a_stopping_agent_returns_an_error() {
    let harness = Harness::new();
    let running = harness.started(10).await;
    let gc = running.gc.clone();
    running.stop().await;
    assert_eq!(error(&gc.run_now().await), "the agent stops");
}
