//! The memory usage of the cache, in its own process so that nothing else counts.
#![allow(
    clippy::unwrap_used,
    clippy::disallowed_methods,
    reason = "a test that reads kernel files"
)]

use model::cluster::{PodPhase, PodRecord, Version};
use podgc::cache::Cache;
use podgc::plan::{Order, TerminatedPods as _};

const PODS: u64 = 150_000;

fn anonymous_bytes() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with("RssAnon")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap() * 1024
}

fn pod(number: u64) -> PodRecord {
    PodRecord {
        namespace: format!("namespace-{}", number % 100),
        name: format!("web-frontend-7d9c6b5f4-{number:06}"),
        uid: format!("00112233-4455-4677-8899-{number:012x}").as_str().into(),
        version: Version::from(number + 1),
        node: format!("node-{:05}", number / 100),
        // One in ten has terminated.
        phase: if number.is_multiple_of(10) { PodPhase::Succeeded } else { PodPhase::Running },
        created: i64::try_from(number).unwrap(),
        ..PodRecord::default()
    }
}

// behaviour: PGC-126
#[test]
fn cached_pod_takes_at_most_256_bytes() {
    let before = anonymous_bytes();
    let mut cache = Cache::new(Order::Creation, false);
    for number in 0..PODS {
        cache.apply(pod(number));
    }
    cache.complete_pods();
    let each = (anonymous_bytes() - before) / PODS;
    assert_eq!((cache.pods() as u64, cache.count() as u64), (PODS, PODS / 10));
    assert!(each <= 256, "{each} bytes");
    println!("{each} bytes for each of {PODS} pods");
}
