//! Uses of images, and how they are detected.

use std::time::Duration;

use gc::decide::images::{Keeper, KeptImage};
use gc::plan::Plan;
use model::ids::PodName;
use model::ports::runtime::{Code, ContainerService, Image, ImageService};
use testkit::runtime::{Fault, Method, RemoteImage, Rule};

use crate::harness::{Harness, error, fates};

// behaviour: IMG-27, IMG-34
#[tokio::test(start_paused = true)]
async fn mounted_image_stays_and_a_vanished_container_is_not_an_error() {
    let harness = Harness::new();
    let run = harness.image("run", 10);
    let volume = harness.image("volume", 10);
    let unused = harness.image("unused", 10);
    let known = harness.container("known", &run, Some(&volume)).await;
    harness.pods.mounts.lock().unwrap().insert(known, vec![volume.clone()]);
    let requested = harness.container("asked", &run, Some(&unused)).await;
    let running = harness.started(30).await;
    harness.runtime.forget_calls();
    let report = running.gc.delete_unused().await;
    assert_eq!(harness.left(), ["run", "unused", "volume"]);
    assert_eq!(harness.runtime.count(Method::ContainerStatus), 1, "known mounts are not requested");
    assert_eq!(fates(&report.plan).len(), 3);
    let rule = Rule::on(Method::ContainerStatus, Fault::error(Code::NotFound));
    harness.runtime.inject(rule.object(requested.as_str()));
    tokio::time::sleep(Duration::from_secs(1)).await;
    let report = running.gc.delete_unused().await;
    assert!(report.error.is_none(), "{report:?}");
    assert_eq!(harness.left(), ["run", "volume"]);
    harness.runtime.clear_faults();
    let rule = Rule::on(Method::ContainerStatus, Fault::error(Code::Internal));
    harness.runtime.inject(rule);
    let report = running.gc.delete_unused().await;
    assert!(error(&report).starts_with("inspect the mounts of a container"), "{report:?}");
}

// behaviour: IMG-28
#[tokio::test(start_paused = true)]
async fn image_stays_until_its_exited_container_is_removed() {
    let harness = Harness::new();
    let image = harness.image("a", 10);
    let container = harness.container("web", &image, None).await;
    harness.runtime.start_container(&container).await.unwrap();
    harness.runtime.kill_container(&container, 1);
    let running = harness.started(10).await;
    running.gc.delete_unused().await;
    assert_eq!(harness.left(), ["a"]);
    let subject = model::verdict::Subject::Container(container);
    harness.runtime.remove_container(&testkit::wanted::removal(subject)).await.unwrap();
    tokio::time::sleep(Duration::from_secs(1)).await;
    running.gc.delete_unused().await;
    assert_eq!(harness.left(), [""; 0]);
}

// behaviour: IMG-63
#[tokio::test(start_paused = true)]
async fn short_lived_container_between_lists_counts_as_a_use() {
    let mut harness = Harness::new();
    harness.policy.maximum_age = Duration::from_mins(12);
    harness.image("brief", 10);
    harness.image("never", 10);
    let running = harness.start();
    tokio::time::sleep(Duration::from_mins(9)).await;
    // Like the container starter. Its claim is released before the next detection.
    harness.claims.claim("brief:latest").used(harness.now());
    let planned = fates(&running.gc.plan().await.plan);
    assert_eq!(harness.claims.uses().len(), 1, "a plan records nothing: {planned:?}");
    tokio::time::sleep(Duration::from_mins(4)).await;
    let report = running.gc.run_now().await;
    let went = "never unused-longer-than-maximum-age";
    assert_eq!(fates(&report.plan), [went, "brief below-high-threshold"]);
    assert!(harness.claims.uses().is_empty(), "the use is recorded");
    running.kill().await;
    // The next agent reads it from the file.
    let running = harness.start();
    tokio::time::sleep(Duration::from_mins(7)).await;
    assert_eq!(fates(&running.gc.run_now().await.plan), ["brief below-high-threshold"]);
    tokio::time::sleep(Duration::from_mins(2)).await;
    let last = fates(&running.gc.run_now().await.plan);
    assert_eq!(last, ["brief unused-longer-than-maximum-age"]);
    running.stop().await;
}

// behaviour: IMG-46
#[tokio::test(start_paused = true)]
async fn image_claimed_during_a_pass_stays() {
    let harness = Harness::new();
    let running = harness.started(1 << 40).await;
    let images = ["a", "b", "c"].map(|name| RemoteImage::new(name).size(100));
    harness.one_by_one(&running, images.to_vec()).await;
    harness.disk.set_capacity(300);
    let held = harness.claims.claim("a");
    harness.disk.set_lag(Duration::from_mins(1));
    // The first removal gains nothing for 5 s. Meanwhile the last image is claimed for a moment.
    let pass = running.gc.run_now();
    let meanwhile = async {
        tokio::time::sleep(Duration::from_secs(2)).await;
        drop(harness.claims.claim("c"));
    };
    let (report, ()) = tokio::join!(pass, meanwhile);
    let expected = ["b disk-over-high-threshold", "c being-pulled", "a being-pulled"];
    assert_eq!(fates(&report.plan), expected);
    let claimed = Plan { items: report.claimed };
    assert_eq!(fates(&claimed), ["c being-pulled"], "the other was never planned");
    assert_eq!(harness.left(), ["a", "c"]);
    drop(held);
    running.gc.delete_unused().await;
    assert_eq!(harness.left(), [""; 0]);
}

// behaviour: IMG-69
#[tokio::test(start_paused = true)]
async fn image_pulled_by_another_name_during_a_pass_stays() {
    let harness = Harness::new();
    let running = harness.started(1 << 40).await;
    let images = ["a", "b"].map(|name| RemoteImage::new(name).size(100).content(name));
    harness.one_by_one(&running, images.to_vec()).await;
    harness.disk.set_capacity(200);
    harness.disk.set_lag(Duration::from_mins(1));
    // The first removal gains nothing for 5 s. Meanwhile a pod pulls the other image by a name that the list
    // did not contain.
    let meanwhile = async {
        tokio::time::sleep(Duration::from_secs(2)).await;
        let claim = harness.claims.claim("other:1");
        harness.runtime.add_image(&RemoteImage::new("other:1").content("b"));
        claim
    };
    let (report, claim) = tokio::join!(running.gc.run_now(), meanwhile);
    assert_eq!(fates(&report.plan), ["a disk-over-high-threshold", "b being-pulled"]);
    assert_eq!(harness.left(), ["b"]);
    drop(claim);
    // An image that cannot be inspected stays.
    let fault = Rule::on(Method::ImageStatus, Fault::error(Code::Internal));
    harness.runtime.inject(fault.once());
    let report = running.gc.delete_unused().await;
    assert_eq!(report.not_removed(), 1, "{report:?}");
    running.gc.delete_unused().await;
    assert_eq!(harness.left(), [""; 0]);
}

// behaviour: IMG-69
#[tokio::test(start_paused = true)]
async fn image_stays_while_its_digest_is_pulled_from_another_repository() {
    let harness = Harness::new();
    harness.runtime.publish(RemoteImage::new("a"));
    harness.runtime.pull_image("a", None, None).await.unwrap();
    let digests = harness.runtime.images()[0].repo_digests.clone();
    let (_, digest) = digests[0].split_once('@').unwrap();
    let running = harness.started(1 << 40).await;
    for name in [format!("mirror.test/a@{digest}"), format!("a:1@{digest}")] {
        let claim = harness.claims.claim(&name);
        let report = running.gc.delete_unused().await;
        assert_eq!(fates(&report.plan), ["a being-pulled"], "{name}");
        drop(claim);
    }
    running.gc.delete_unused().await;
    assert_eq!(harness.left(), [""; 0]);
}

// behaviour: IMG-47
#[tokio::test(start_paused = true)]
async fn oversized_image_use_list_is_requested_in_parts() {
    // The runtime cannot send it, or the client cannot receive it.
    for code in [Code::ResourceExhausted, Code::OutOfRange] {
        let harness = Harness::new();
        let used = harness.image("used", 10);
        harness.image("unused", 10);
        harness.container("web", &used, None).await;
        harness.container("other", &used, None).await;
        let running = harness.started(20).await;
        let fault = Fault::error(code);
        harness.runtime.inject(Rule::on(Method::ListContainers, fault).object(""));
        harness.runtime.inject(Rule::on(Method::ListPodSandbox, fault).object("").once());
        harness.runtime.forget_calls();
        let report = running.gc.delete_unused().await;
        assert!(report.error.is_none(), "{code:?}: {report:?}");
        assert_eq!(harness.left(), ["used"], "{code:?}");
        let lists = harness.runtime.count(Method::ListContainers);
        assert_eq!(lists, 1 + 4 + 4 * 2, "all, by state, and each state by sandbox");
    }
}

// behaviour: IMG-50, IMG-51, IMG-52
#[tokio::test(start_paused = true)]
async fn images_pinned_by_the_operator_stay() {
    let mut harness = Harness::new();
    harness.pins = vec!["registry.test/*", "label:keep=yes"];
    harness.image("registry.test/pinned", 10);
    harness.runtime.add_image(&RemoteImage::new("labelled").label("keep", "yes"));
    harness.runtime.add_image(&RemoteImage::new("other").label("keep", "no"));
    harness.image("static", 10);
    harness.pods.named.lock().unwrap().push(KeptImage {
        name: "static:latest".to_owned(),
        keeper: Keeper::Static,
        pod: PodName::new("default", "web"),
    });
    let unread = harness.image("unread", 10);
    let fault = Rule::on(Method::ImageStatus, Fault::error(Code::Internal)).object(&unread);
    harness.runtime.inject(fault);
    let running = harness.started(1 << 40).await;
    let requested = harness.runtime.count(Method::ImageStatus);
    let mut fates = fates(&running.gc.delete_unused().await.plan);
    fates.sort();
    let expected = [
        "labelled pinned-by-label",
        "other node-short-of-disk",
        "pinned pinned-by-name",
        "static kept-for-static-pod",
        "unread labels-unknown",
    ];
    assert_eq!(fates, expected);
    // Labels are requested once; a removed image is inspected before its removal.
    assert_eq!(harness.runtime.count(Method::ImageStatus), requested + 2);
}

// behaviour: IMG-53
#[tokio::test(start_paused = true)]
async fn sandbox_image_stays_if_the_runtime_reports_it() {
    let harness = Harness::new();
    let run = harness.image("run", 10);
    harness.image("pause", 10);
    harness.runtime.set_sandbox_image("docker.io/library/pause:latest");
    harness.container("web", &run, None).await;
    let running = harness.started(20).await;
    running.gc.delete_unused().await;
    assert_eq!(harness.left(), ["pause", "run"]);
    running.gc.delete_unused().await;
    assert_eq!(harness.runtime.count(Method::PodSandboxStatus), 1, "requested once");
}

// behaviour: IMG-65
#[tokio::test(start_paused = true)]
async fn no_image_is_removed_while_the_sandbox_image_is_unknown() {
    let harness = Harness::new();
    let run = harness.image("run", 10);
    harness.image("pause", 10);
    harness.image("unused", 10);
    harness.runtime.set_sandbox_image("docker.io/library/pause:latest");
    let running = harness.started(30).await;
    harness.container("web", &run, None).await;
    let unavailable = Fault::error(Code::Unavailable);
    for method in [Method::ListPodSandbox, Method::PodSandboxStatus] {
        harness.runtime.inject(Rule::on(method, unavailable).once());
        let report = running.gc.delete_unused().await;
        assert!(error(&report).starts_with("inspect sandboxes for their image"), "{report:?}");
        assert_eq!(harness.left(), ["pause", "run", "unused"]);
    }
    // A sandbox that is removed meanwhile is not an error, and has no image.
    let gone = Rule::on(Method::PodSandboxStatus, Fault::error(Code::NotFound));
    harness.runtime.inject(gone.once());
    assert!(running.gc.plan().await.error.is_none());
    // After one successful read, a failure is tolerated.
    assert!(running.gc.plan().await.error.is_none());
    harness.runtime.inject(Rule::on(Method::ListPodSandbox, unavailable));
    let report = running.gc.delete_unused().await;
    assert!(report.error.is_none(), "{report:?}");
    assert_eq!(harness.left(), ["pause", "run"]);
}

// behaviour: IMG-70
#[tokio::test(start_paused = true)]
async fn pass_continues_when_one_sandbox_cannot_be_inspected() {
    let harness = Harness::new();
    let run = harness.image("run", 10);
    harness.image("pause", 10);
    harness.image("unused", 10);
    harness.runtime.set_sandbox_image("docker.io/library/pause:latest");
    let running = harness.started(30).await;
    harness.container("older", &run, None).await;
    tokio::time::sleep(Duration::from_secs(1)).await;
    harness.container("broken", &run, None).await;
    let broken = harness.runtime.sandboxes().into_iter().max_by_key(|one| one.created_at).unwrap();
    let fault = Rule::on(Method::PodSandboxStatus, Fault::error(Code::Internal));
    harness.runtime.inject(fault.object(broken.id.as_str()));
    let report = running.gc.delete_unused().await;
    assert!(report.error.is_none(), "{report:?}");
    assert_eq!(harness.left(), ["pause", "run"], "an older sandbox has the image");
    // While no sandbox can be inspected, and none could before, no image is removed.
    running.stop().await;
    harness.image("unused", 10);
    harness.runtime.inject(Rule::on(Method::PodSandboxStatus, Fault::error(Code::Internal)));
    let running = harness.started(30).await;
    let report = running.gc.delete_unused().await;
    assert!(error(&report).starts_with("inspect sandboxes for their image"), "{report:?}");
    assert_eq!(harness.left(), ["pause", "run", "unused"]);
}

// behaviour: IMG-54
#[tokio::test(start_paused = true)]
async fn image_without_an_id_is_reported() {
    let harness = Harness::new();
    harness.runtime.list_additional(Image {
        id: String::new(),
        repo_tags: vec!["nameless:1".to_owned()],
        repo_digests: Vec::new(),
        size: 1,
        pinned: false,
        user: None,
        runtime_handler: String::new(),
    });
    let running = harness.started(10).await;
    assert!(running.gc.delete_unused().await.error.is_none());
    let events = harness.events.all();
    assert!(events.iter().all(|event| event.reason == "InvalidImageID"), "{events:?}");
    assert!(events[0].message.ends_with("image: nameless:1"), "{events:?}");
}
