//! Limits of local storage, on paused time.

use k8s_openapi::api::core::v1::{EmptyDirVolumeSource, Volume};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity as ApiQuantity;

use super::*;
use crate::decide::test_pods::volume;

/// A pod with a volume that is limited to 1 MiB.
fn limited(name: &str) -> PodBuilder {
    let size_limit = Some(ApiQuantity("1Mi".to_owned()));
    let empty_dir = Some(EmptyDirVolumeSource { medium: None, size_limit });
    let volume = Volume { name: "cache".to_owned(), empty_dir, ..Volume::default() };
    plain(name).spec(|spec| spec.volumes = Some(vec![volume]))
}

// behaviour: EVI-24, EVI-29, EVI-38
#[tokio::test(start_paused = true)]
async fn all_pods_beyond_their_limits_are_evicted_in_one_round() {
    let critical = limited("critical").spec(|spec| spec.priority = Some(2_000_000_000));
    let pods: Vec<Pod> = [limited("a"), limited("b"), limited("c"), critical]
        .into_iter()
        .map(PodBuilder::build)
        .collect();
    let stats: Vec<PodStats> = pods
        .iter()
        .zip([2 * MIB, MIB, 3 * MIB, 9 * MIB])
        .map(|(pod, used)| PodStats { volumes: vec![volume("cache", used)], ..no_stats(pod) })
        .collect();
    // The disk is full, too.
    let bench = Setup { thresholds: disk(), pods, ..Setup::default() }.start();
    bench.usage.set(|summary| {
        summary.pods = stats;
        set_disk(summary, 50);
    });
    sleep(seconds(1)).await;
    assert_eq!(bench.evicted(), [(0, "a".to_owned()), (0, "c".to_owned())]);
    assert!(bench.calls().is_empty(), "limits come first");
    let failures = bench.pods.evicted.lock().unwrap().clone();
    let message = "Usage of EmptyDir volume \"cache\" exceeds the limit \"1Mi\". ";
    for (_, _, grace, failure) in failures {
        assert_eq!((grace, failure.message.as_str(), failure.disruption), (1, message, None));
    }
    assert_eq!(bench.metric("kubelet_evictions", "emptydirfs.limit"), 0, "they have not ended yet");
    sleep(seconds(3)).await;
    assert_eq!(bench.metric("kubelet_evictions", "emptydirfs.limit"), 2);
    assert_eq!(bench.evicted()[2], (3, "b".to_owned()), "for the full disk, in the next round");
}

// behaviour: EVI-29
#[tokio::test(start_paused = true)]
async fn limits_are_checked_once_in_a_period_when_rounds_are_requested() {
    let pod = limited("web").build();
    let stats = PodStats { volumes: vec![volume("cache", 2 * MIB)], ..no_stats(&pod) };
    let bench = Setup { thresholds: disk(), pods: vec![pod], ..Setup::default() }.start();
    sleep(Duration::from_millis(500)).await;
    bench.usage.set(|summary| summary.pods = vec![stats]);
    for second in 1..=9 {
        bench.handle.begin_round();
        sleep(seconds(1)).await;
        assert_eq!((bench.rounds(), bench.usage.summaries()), (1 + second, 1));
    }
    bench.handle.begin_round();
    sleep(seconds(1)).await;
    assert_eq!((bench.usage.summaries(), bench.evicted()), (2, vec![(10, "web".to_owned())]));
}
