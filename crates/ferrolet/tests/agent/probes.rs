//! Probes and their effects on statuses and containers.

use std::time::Duration;

use k8s_openapi::api::core::v1::{
    Container, ExecAction, Lifecycle, LifecycleHandler, Pod, PodStatus, Probe, TCPSocketAction,
};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use model::probe::ProbeVerdict;
use testkit::cluster::MemoryPods;
use testkit::probes::ProbeScript;

use crate::cluster::{ready, running, sleeper, status};
use crate::harness::Harness;

fn tcp(port: i32) -> Probe {
    let tcp_socket = Some(TCPSocketAction { port: IntOrString::Int(port), host: None });
    Probe { tcp_socket, period_seconds: Some(1), ..Probe::default() }
}

/// A pod with changes to its container.
fn with(name: &str, change: impl FnOnce(&mut Container)) -> Pod {
    let mut pod = sleeper(name);
    change(&mut pod.spec.as_mut().expect("a specification").containers[0]);
    pod
}

/// Waits for the address of a pod, and lets probes of its ports pass or fail.
async fn set_ports(harness: &Harness, api: &MemoryPods, name: &str, ports: &[(i32, bool)]) {
    let address = |_: &Harness| status(api, name)?.pod_ip;
    let ip = harness.until(&format!("{name} has an address"), address).await;
    for (port, passes) in ports {
        let verdict = if *passes { ProbeVerdict::Success } else { ProbeVerdict::Failure };
        harness
            .probes
            .set(format!("{ip}:{port}"), ProbeScript::verdict(verdict, "dial tcp: refused"));
    }
}

fn condition(status: &PodStatus, type_: &str) -> (String, String) {
    let found = status.conditions.iter().flatten().find(|one| one.type_ == type_);
    let found = found.expect("the condition is there");
    let since = found.last_transition_time.as_ref().map(|at| at.0.to_string());
    (found.status.clone(), since.unwrap_or_default())
}

// behaviour: PRB-1
#[tokio::test(start_paused = true)]
async fn liveness_failure_restarts_the_container_and_reports_why() {
    let (harness, api) = Harness::in_cluster();
    api.make(with("web", |main| main.liveness_probe = Some(tcp(80))));
    let _agent = harness.start();
    set_ports(&harness, &api, "web", &[(80, true)]).await;
    ready(&harness, &api, "web").await;
    let first = running(&harness, "web").expect("it runs");
    tokio::time::sleep(Duration::from_mins(5)).await;
    assert_eq!(running(&harness, "web").map(|one| one.id), Some(first.id.clone()));
    set_ports(&harness, &api, "web", &[(80, false)]).await;
    let restarted = |_: &Harness| {
        let container = status(&api, "web")?.container_statuses?.remove(0);
        (container.restart_count == 1).then_some(container)
    };
    let container = harness.until("it was restarted", restarted).await;
    let end = container.last_state.and_then(|last| last.terminated).expect("it was killed");
    let message = end.message.unwrap_or_default();
    assert_eq!(message, "failed liveness probe: 3 failures in a row: dial tcp: refused");
    let events = harness.events.all();
    let event = events.iter().find(|event| event.reason == "Killing").expect("an event");
    let expected = "Container main failed liveness probe, will be restarted: 3 failures in a row, 1s \
                    apart: dial tcp: refused";
    assert_eq!(event.message, expected);
    let unhealthy = events.iter().filter(|event| event.reason == "Unhealthy");
    assert!(unhealthy.count() >= 3);
}

// behaviour: PRB-2
#[tokio::test(start_paused = true)]
async fn readiness_is_published_while_the_worker_waits_for_another_container() {
    let (harness, api) = Harness::in_cluster();
    let mut pod = with("web", |main| main.readiness_probe = Some(tcp(80)));
    let command = Some(vec!["sleep".to_owned(), "forever".to_owned()]);
    let exec = Some(ExecAction { command });
    let post_start = Some(LifecycleHandler { exec, ..LifecycleHandler::default() });
    let containers = &mut pod.spec.as_mut().expect("a specification").containers;
    let slow = Container {
        name: "slow".to_owned(),
        lifecycle: Some(Lifecycle { post_start, ..Lifecycle::default() }),
        ..containers[0].clone()
    };
    containers.push(Container { readiness_probe: None, ..slow });
    api.make(pod);
    let _agent = harness.start();
    set_ports(&harness, &api, "web", &[(80, true)]).await;
    let is_ready = |expected: bool| {
        let api = &api;
        move |_: &Harness| {
            let containers = status(api, "web")?.container_statuses?;
            let main = containers.into_iter().find(|one| one.name == "main")?;
            (main.ready == expected && main.started == Some(true)).then_some(())
        }
    };
    harness.until("the first container is ready", is_ready(true)).await;
    set_ports(&harness, &api, "web", &[(80, false)]).await;
    harness.until("it is not ready any more", is_ready(false)).await;
}

// behaviour: PRB-3
#[tokio::test(start_paused = true)]
async fn agent_that_is_killed_and_started_again_changes_no_readiness() {
    let (harness, api) = Harness::in_cluster();
    let names: Vec<String> = (0..50).map(|number| format!("web-{number}")).collect();
    for name in &names {
        api.make(with(name, |main| {
            main.readiness_probe = Some(tcp(80));
            main.startup_probe = Some(tcp(81));
            main.liveness_probe = Some(tcp(82));
        }));
    }
    let first = harness.start();
    for name in &names {
        set_ports(&harness, &api, name, &[(80, true), (81, true), (82, true)]).await;
    }
    let mut before = Vec::new();
    for name in &names {
        before.push(condition(&ready(&harness, &api, name).await, "Ready"));
    }
    drop(first);
    let _second = harness.start();
    tokio::time::sleep(Duration::from_mins(2)).await;
    for (name, before) in names.iter().zip(before) {
        let status = status(&api, name).expect("a status");
        assert_eq!(condition(&status, "Ready"), before, "{name}");
        assert_eq!(status.container_statuses.expect("statuses")[0].restart_count, 0);
    }
}

// behaviour: PRB-4
#[tokio::test(start_paused = true)]
async fn startup_failure_kills_and_success_opens_the_other_probes() {
    let (harness, api) = Harness::in_cluster();
    api.make(with("web", |main| {
        main.startup_probe = Some(tcp(81));
        main.readiness_probe = Some(tcp(80));
    }));
    let _agent = harness.start();
    set_ports(&harness, &api, "web", &[(80, true), (81, false)]).await;
    let restarted = |_: &Harness| {
        let container = status(&api, "web")?.container_statuses?.remove(0);
        (container.restart_count == 1).then_some(container)
    };
    let container = harness.until("it was restarted", restarted).await;
    let end = container.last_state.and_then(|last| last.terminated).expect("it was killed");
    assert!(end.message.unwrap_or_default().starts_with("failed startup probe: 3 failures"));
    set_ports(&harness, &api, "web", &[(80, true), (81, true)]).await;
    ready(&harness, &api, "web").await;
}
