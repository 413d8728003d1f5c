//! Statuses that an agent of a cluster writes.

use std::time::Duration;

use k8s_openapi::api::core::v1::{PodCondition, PodReadinessGate};
use model::cgroup::CgroupName;

use crate::cluster::{gone, named, ready, running, sleeper, status};
use crate::harness::Harness;

// behaviour: STW-12, STW-13
#[tokio::test(start_paused = true)]
async fn api_object_stays_until_the_cgroup_of_its_pod_is_removed() {
    let (harness, api) = Harness::in_cluster();
    api.make(sleeper("web"));
    let _agent = harness.start();
    ready(&harness, &api, "web").await;
    let cgroup = CgroupName::parse(&harness.pod_cgroups()[0]).expect("a valid cgroup name");
    harness.cgroups.set_broken(&cgroup, true);
    api.delete(&named("web"), Duration::from_secs(7));
    let failed = |_: &Harness| {
        status(&api, "web").filter(|status| status.phase.as_deref() == Some("Failed"))
    };
    harness.until("its containers have ended", failed).await;
    tokio::time::sleep(Duration::from_mins(2)).await;
    assert_eq!(running(&harness, "web"), None);
    assert!(api.pod(&named("web")).is_some(), "the cgroup still exists");
    harness.cgroups.set_broken(&cgroup, false);
    gone(&harness, &api, "web").await;
    assert_eq!(harness.pod_cgroups(), [""; 0]);
}

// behaviour: STW-48
#[tokio::test(start_paused = true)]
async fn pod_is_ready_when_another_client_sets_its_readiness_gate() {
    let (harness, api) = Harness::in_cluster();
    let mut gated = sleeper("web");
    let gate = PodReadinessGate { condition_type: "example.com/up".to_owned() };
    gated.spec.get_or_insert_default().readiness_gates = Some(vec![gate]);
    api.make(gated);
    let _agent = harness.start();
    let ready = |reason: Option<&'static str>| {
        let api = api.clone();
        move |_: &Harness| {
            let conditions = status(&api, "web")?.conditions?;
            let ready = conditions.into_iter().find(|one| one.type_ == "Ready")?;
            (ready.reason.as_deref() == reason).then_some(ready.status)
        }
    };
    let closed = ready(Some("ReadinessGatesNotReady"));
    assert_eq!(harness.until("the gate is closed", &closed).await, "False");
    tokio::time::sleep(Duration::from_mins(1)).await;
    for (value, reason) in [("True", None), ("False", Some("ReadinessGatesNotReady"))] {
        api.update(&named("web"), |pod| {
            let conditions = pod.status.get_or_insert_default().conditions.get_or_insert_default();
            conditions.retain(|one| one.type_ != "example.com/up");
            conditions.push(PodCondition {
                type_: "example.com/up".to_owned(),
                status: value.to_owned(),
                ..PodCondition::default()
            });
        });
        let changed = tokio::time::Instant::now();
        assert_eq!(harness.until("Ready follows the gate", ready(reason)).await, value);
        assert!(changed.elapsed() < Duration::from_secs(1), "{:?}", changed.elapsed());
    }
}
