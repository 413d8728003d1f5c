//! Evictions: a full disk, and admission while the node is under pressure.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use eviction::EvictionSettings;
use eviction::decide::signal::Signal;
use eviction::decide::threshold::{Level, Threshold};
use k8s_openapi::api::core::v1::{NodeCondition, PodStatus};
use model::cgroup::usage::{CgroupSample, MemorySample};
use model::ids::PodUid;
use model::ports::disk::{FileUsage, ListedUsage};
use testkit::cluster::MemoryPods;
use testkit::cluster::node_api::MemoryNodeApi;
use testkit::node_usage::MemoryUsage;
use tokio::time::{Instant, sleep};

use crate::cluster::{named, ready, running, sleeper, status};
use crate::harness::Harness;
use crate::incidents::recorded;

const MIB: u64 = 1 << 20;

/// A node of a cluster with a disk of 1,000 MiB, and thresholds of 100 MiB on it.
fn harness() -> (Harness, MemoryPods) {
    let (mut harness, api) = Harness::in_cluster();
    harness.own_node = Some(MemoryNodeApi::default());
    let usage = MemoryUsage::default();
    for path in ["/", "/kubepods"] {
        let memory = Some(MemorySample::default());
        usage.set_cgroup(CgroupSample { path: path.to_owned(), memory, ..CgroupSample::default() });
    }
    harness.usage = Some(Arc::new(usage));
    let threshold = |signal| Threshold {
        signal,
        level: Level::Amount("100Mi".parse().expect("an amount")),
        grace: Duration::ZERO,
        minimum_reclaim: None,
    };
    harness.eviction = EvictionSettings {
        thresholds: vec![threshold(Signal::NodeFsAvailable)],
        transition: Duration::from_mins(2),
        most_grace: Duration::ZERO,
        local_limits: true,
        memcg_notification: false,
    };
    harness.disk.set_capacity(1000 * MIB);
    (harness, api)
}

/// Sets the size of a pod's log.
fn set_log(harness: &Harness, name: &str, uid: &PodUid, mebibytes: u64) {
    let log = FileUsage { bytes: mebibytes * MIB, inodes: 1 };
    let directories = BTreeMap::from([("main".to_owned(), log)]);
    let listed = ListedUsage { files: FileUsage::default(), directories };
    harness.disk.set_listed(format!("/var/log/pods/default_{name}_{uid}"), listed);
}

/// The condition `DiskPressure` of the node.
fn disk_pressure(harness: &Harness) -> Option<NodeCondition> {
    let node = harness.own_node.as_ref()?.node("node")?;
    let conditions = node.status?.conditions?.into_iter();
    conditions.into_iter().find(|one| one.type_ == "DiskPressure")
}

async fn under_pressure(harness: &Harness, expected: bool) -> NodeCondition {
    let holds = if expected { "True" } else { "False" };
    let found =
        |harness: &Harness| disk_pressure(harness).filter(|condition| condition.status == holds);
    harness.until("the condition of the node", found).await
}

async fn failed(harness: &Harness, api: &MemoryPods, name: &str) -> PodStatus {
    let failed =
        |_: &Harness| status(api, name).filter(|status| status.phase.as_deref() == Some("Failed"));
    harness.until(&format!("{name} has failed"), failed).await
}

// behaviour: EVI-34, EVI-40, EVI-41, EVI-61
#[tokio::test(start_paused = true)]
async fn largest_pod_is_evicted_when_the_disk_is_full() {
    let (harness, api) = harness();
    let large = api.make(sleeper("large"));
    let small = api.make(sleeper("small"));
    set_log(&harness, "large", &large, 300);
    set_log(&harness, "small", &small, 20);
    let _agent = harness.start();
    ready(&harness, &api, "large").await;
    ready(&harness, &api, "small").await;
    under_pressure(&harness, false).await;
    api.forget_calls();
    harness.disk.set_others(950 * MIB);
    let reported = failed(&harness, &api, "large").await;
    harness.disk.set_others(500 * MIB);
    let message = reported.message.unwrap_or_default();
    let expected = "The node was low on resource: ephemeral-storage. \
                    Threshold quantity: 100Mi, available: ";
    assert!(message.starts_with(expected), "{message}");
    let consumer = "Container main was using 300Mi, request is 0, has larger consumption of \
                    ephemeral-storage. ";
    assert!(message.ends_with(consumer), "{message}");
    assert_eq!(reported.reason.as_deref(), Some("Evicted"));
    let conditions = reported.conditions.unwrap_or_default();
    let target = conditions.iter().find(|one| one.type_ == "DisruptionTarget").unwrap();
    assert_eq!((&*target.status, target.reason.as_deref()), ("True", Some("TerminationByKubelet")));
    assert_eq!(target.message.as_deref(), Some(&*message));
    assert_eq!(running(&harness, "large"), None, "its phase is final once it has ended");
    let condition = under_pressure(&harness, true).await;
    assert_eq!(condition.reason.as_deref(), Some("KubeletHasDiskPressure"));
    assert!(harness.node_warnings().contains(&"EvictionThresholdMet"));
    let event = harness.events.all().into_iter().find(|event| event.reason == "Evicted").unwrap();
    assert_eq!((&*event.pod.name, event.message.as_str()), ("large", &*message));
    assert_eq!(event.annotations[0], ("offending_containers", "main".to_owned()));
    let counted = harness.metrics();
    let line = "kubelet_evictions{eviction_signal=\"nodefs.available\"} 1";
    assert!(counted.lines().any(|found| found == line), "{counted}");
    // The other one stays, and so does the object of the evicted one.
    sleep(Duration::from_mins(2)).await;
    assert!(running(&harness, "small").is_some() && api.pod(&named("large")).is_some());
    let incidents = recorded(&harness, "large");
    let eviction = incidents.iter().find(|line| line.starts_with("eviction nodefs.available: "));
    let eviction = eviction.unwrap_or_else(|| panic!("{incidents:?}"));
    assert!(eviction.contains("position 1, pods 2"), "{eviction}");
    assert!(eviction.contains("default/small: usage 20Mi"), "{eviction}");
    assert!(incidents.contains(&"kill evicted: gracePeriod 1s".to_owned()), "{incidents:?}");
}

// behaviour: EVI-15, EVI-45, EVI-47
#[tokio::test(start_paused = true)]
async fn pods_are_rejected_until_the_pressure_is_over() {
    let (harness, api) = harness();
    harness.disk.set_others(950 * MIB);
    let _agent = harness.start();
    under_pressure(&harness, true).await;
    api.make(sleeper("early"));
    let rejected = failed(&harness, &api, "early").await;
    let texts = (rejected.reason.as_deref(), rejected.message.as_deref());
    let message = "Pod was rejected: The node had condition: [DiskPressure]. ";
    assert_eq!(texts, (Some("Evicted"), Some(message)));
    let mut critical = sleeper("critical");
    critical.spec.as_mut().unwrap().priority = Some(2_000_000_000);
    api.make(critical);
    ready(&harness, &api, "critical").await;
    harness.disk.set_others(0);
    let before = Instant::now();
    under_pressure(&harness, false).await;
    assert!(before.elapsed() >= Duration::from_secs(100), "{:?}", before.elapsed());
    api.make(sleeper("late"));
    ready(&harness, &api, "late").await;
}
