//! Garbage collection of images by the agent.

use std::time::Duration;

use futures_util::StreamExt as _;
use gc::decide::images::Policy;
use server::wire::{GcDone, GcLine};
use testkit::pods::pod;
use testkit::runtime::RemoteImage;

use crate::harness::Harness;

/// A node whose disk is full of images, one of which is unused.
fn full_node() -> Harness {
    let mut harness = Harness::new();
    harness.images.policy = Policy { minimum_age: Duration::from_mins(2), ..Policy::default() };
    harness.runtime.add_image(&RemoteImage::new("ferrolet.test/unused:1"));
    harness.disk.set_capacity(2_000_000);
    harness.write_manifest("web", "Always", "[sleep, forever]");
    harness
}

fn left(harness: &Harness) -> Vec<String> {
    let mut names: Vec<String> =
        harness.runtime.images().into_iter().flat_map(|image| image.repo_tags).collect();
    names.sort();
    names
}

#[tokio::test(start_paused = true)]
async fn unused_image_is_removed_when_old_enough_and_the_disk_is_full() {
    let harness = full_node();
    let agent = harness.start();
    harness.one_runs("web").await;
    tokio::time::sleep(Duration::from_mins(4)).await;
    assert_eq!(left(&harness), ["ferrolet.test/unused:1", "ferrolet.test/workload:1"]);
    let plan = agent.image_gc().plan().await.plan;
    let fates: Vec<(&str, &str)> = plan.items.iter().map(|item| (&*item.name, item.rule)).collect();
    assert_eq!(
        fates,
        [
            ("ferrolet.test/unused:1", "disk-over-high-threshold"),
            ("ferrolet.test/workload:1", "image-in-use")
        ]
    );
    tokio::time::sleep(Duration::from_mins(2)).await;
    assert_eq!(left(&harness), ["ferrolet.test/workload:1"]);
    assert_eq!(harness.running("web").len(), 1);
    let reported = harness.metrics();
    for line in [
        "kubelet_image_garbage_collected_total{reason=\"space\"} 1",
        "ferrolet_removals_total{kind=\"image\",outcome=\"removed\",\
         rule=\"disk-over-high-threshold\"} 1",
    ] {
        assert!(reported.lines().any(|reported| reported == line), "{line}: {reported}");
    }
    agent.stop().await;
}

#[tokio::test(start_paused = true)]
async fn images_of_static_pods_are_kept_when_configured() {
    let mut harness = full_node();
    harness.images.keep_static_and_critical = true;
    // No container of this pod is ever created: its image is referenced, but not used.
    harness.runtime.set_network_ready(false);
    let agent = harness.start();
    tokio::time::sleep(Duration::from_mins(6)).await;
    assert_eq!(left(&harness), ["ferrolet.test/workload:1"]);
    agent.stop().await;
}

// behaviour: IMG-52, IMG-68
#[tokio::test(start_paused = true)]
async fn images_of_critical_pods_are_kept_before_the_first_api_list() {
    let (mut harness, api) = Harness::in_cluster();
    harness.images.policy = Policy { minimum_age: Duration::from_mins(2), ..Policy::default() };
    harness.images.keep_static_and_critical = true;
    for name in ["ferrolet.test/critical:1", "ferrolet.test/unused:1"] {
        harness.runtime.add_image(&RemoteImage::new(name));
    }
    harness.disk.set_capacity(2_000_000);
    // No container of it is ever created: its image is referenced, but not used.
    harness.runtime.set_network_ready(false);
    let proxy = pod("proxy").on_node("node").spec(|spec| spec.priority = Some(2_000_000_000));
    let proxy = proxy.container("main", "ferrolet.test/critical:1", ["sleep", "forever"]);
    api.make(proxy.build());
    api.away(true);
    let agent = harness.start();
    tokio::time::sleep(Duration::from_mins(16)).await;
    assert_eq!(left(&harness).len(), 3);
    let rules = async || -> Vec<&str> {
        agent.image_gc().plan().await.plan.items.iter().map(|item| item.rule).collect()
    };
    assert_eq!(rules().await, ["source-not-ready"; 3]);
    api.away(false);
    tokio::time::sleep(Duration::from_mins(11)).await;
    assert_eq!(left(&harness), ["ferrolet.test/critical:1"]);
    assert_eq!(rules().await, ["kept-for-critical-pod"]);
    agent.stop().await;
}

// behaviour: IMG-63
#[tokio::test(start_paused = true)]
async fn image_use_is_recorded_for_a_pod_between_two_image_lists() {
    let mut harness = Harness::new();
    let maximum_age = Duration::from_mins(6);
    harness.images.policy = Policy { maximum_age, ..Policy::default() };
    harness.runtime.add_image(&RemoteImage::new("ferrolet.test/unused:1"));
    let agent = harness.start();
    // Images are listed at the start and every five minutes.
    tokio::time::sleep(Duration::from_mins(2)).await;
    harness.write_manifest("web", "Always", "[sleep, forever]");
    harness.one_runs("web").await;
    harness.remove_manifest("web");
    let gone = |harness: &Harness| harness.runtime.containers().is_empty().then_some(());
    harness.until("nothing is left of the pod", gone).await;
    tokio::time::sleep(Duration::from_secs(270)).await;
    agent.image_gc().run_now().await;
    assert_eq!(left(&harness), ["ferrolet.test/workload:1"], "used less than five minutes ago");
    tokio::time::sleep(Duration::from_mins(2)).await;
    agent.image_gc().run_now().await;
    assert_eq!(left(&harness), [""; 0]);
    agent.stop().await;
}

// behaviour: IMG-46
#[tokio::test(start_paused = true)]
async fn image_used_again_during_a_pass_is_reported_as_kept() {
    let harness = Harness::new();
    harness.write_manifest("web", "Always", "[sleep, forever]");
    harness.runtime.add_image(&RemoteImage::new("ferrolet.test/old:1"));
    let agent = harness.start();
    harness.one_runs("web").await;
    tokio::time::sleep(Duration::from_mins(1)).await;
    harness.runtime.add_image(&RemoteImage::new("ferrolet.test/wanted:1"));
    // Both images are detected before the disk is full.
    tokio::time::sleep(Duration::from_mins(8)).await;
    harness.disk.set_capacity(3_000_000);
    // The first removal frees nothing for 5 s. Meanwhile a pod starts to use the second.
    harness.disk.set_lag(Duration::from_mins(1));
    let lines = agent.collector().run().await.collect::<Vec<GcLine>>();
    let meanwhile = async {
        tokio::time::sleep(Duration::from_secs(2)).await;
        let container = "{name: main, image: \"ferrolet.test/wanted:1\", args: [sleep, forever]}";
        harness.write_spec("other", &format!("  containers:\n  - {container}\n"));
    };
    let (lines, ()) = tokio::join!(lines, meanwhile);
    let (mut reported, mut last) = (Vec::new(), GcDone::default());
    for line in lines {
        match line {
            GcLine::Removed { item } => reported.push(format!("removed {}", item.name)),
            GcLine::Kept { item } => reported.push(format!("kept {} {}", item.name, item.rule)),
            GcLine::Failed { item, error } => panic!("{item:?}: {error}"),
            GcLine::Done(done) => last = done,
        }
    }
    let expected = ["removed ferrolet.test/old:1", "kept ferrolet.test/wanted:1 being-pulled"];
    assert_eq!(reported, expected);
    assert_eq!(last.kept, [("image".to_owned(), 1)].into(), "{last:?}");
    assert_eq!((last.removed.get("image"), last.left_out), (Some(&1), 0));
    agent.stop().await;
}
