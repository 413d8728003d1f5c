//! Our Pod GC controller with failures around it.

use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use e2e::api::{Api, Patch};
use e2e::api_proxy::{ApiProxy, RecordedRequest};
use e2e::cluster::Cluster;
use e2e::node::PATIENCE;
use hyper::{Method, StatusCode};
use serde_json::{Value, json};
use testbed::{ControlPlaneOptions, Signal, wait};

use crate::collector::{FREQUENT_PASSES, explained, holder, start_pod_gc, wait_for_a_pass};
use crate::objects::{node, pod};

const NAMESPACE: &str = "pod-gc";
const PODS: &str = "/api/v1/namespaces/pod-gc/pods";

/// How long a node must be missing here, instead of 40 s.
const QUARANTINE: Duration = Duration::from_secs(25);
/// The timeout of the deletion of an orphaned pod. A request without response costs a second quarantine.
const ORPHAN: Duration = Duration::from_mins(3);

/// A lease that other candidates get sooner than after 15 s.
const SHORT_LEASE: [&str; 4] = [
    "--leader-elect=true",
    "--leader-elect-lease-duration=8s",
    "--leader-elect-renew-deadline=6s",
    "--leader-elect-retry-period=1s",
];

fn cluster() -> Result<Cluster> {
    let cluster = Cluster::start(&ControlPlaneOptions::default())?;
    cluster.make_namespace(NAMESPACE)?;
    Ok(cluster)
}

fn path(name: &str) -> String {
    format!("{PODS}/{name}")
}

/// Creates a pod of a node with a phase.
fn make_pod(api: &Api, name: &str, node: &str, phase: &str) -> Result<()> {
    api.create(PODS, &pod(name, Some(node)))?;
    let status = json!({ "status": { "phase": phase } });
    api.patch(&format!("{}/status", path(name)), Patch::Merge, &status)?;
    Ok(())
}

/// A proxy to the API server for one controller, and its kubeconfig.
fn proxy(cluster: &Cluster, name: &str) -> Result<(ApiProxy, PathBuf)> {
    let proxy =
        ApiProxy::start(cluster.instance().host_ip(), cluster.control_plane().admin_kubeconfig())?;
    let kubeconfig = cluster.instance().dir().join(format!("{name}.kubeconfig"));
    proxy.write_kubeconfig(&kubeconfig)?;
    Ok((proxy, kubeconfig))
}

fn deletions(proxy: &ApiProxy) -> Vec<RecordedRequest> {
    proxy.requested().into_iter().filter(|requested| requested.method == Method::DELETE).collect()
}

/// The pod that is recreated, and the request that this precedes and that is refused then.
const MOMENTS: [(&str, Method, &str); 3] = [
    ("ended", Method::DELETE, ""),
    ("stuck-before", Method::PATCH, "/status"),
    ("stuck-between", Method::DELETE, ""),
];

/// Recreates a pod that is about to be collected.
fn replace(api: &Api, name: &str) -> Result<Value> {
    api.delete_with_grace(&path(name), 0)?;
    make_pod(api, name, "works", "Running")?;
    api.get(&path(name))?.context("the pod was just made")
}

#[test]
fn pod_recreated_between_list_and_deletion_stays() -> Result<()> {
    let cluster = cluster()?;
    let api = cluster.api();
    api.create("/api/v1/nodes", &node("works"))?;
    let mut broken = node("broken");
    broken["spec"]["taints"] =
        json!([{ "key": "node.kubernetes.io/out-of-service", "effect": "NoExecute" }]);
    api.create("/api/v1/nodes", &broken)?;
    make_pod(api, "ended", "works", "Succeeded")?;
    make_pod(api, "later", "works", "Succeeded")?;
    for name in ["stuck-before", "stuck-between", "stuck"] {
        make_pod(api, name, "broken", "Running")?;
        api.delete_with_grace(&path(name), 3600)?;
    }
    let (proxy, kubeconfig) = proxy(&cluster, "pod-gc")?;
    let made = Arc::new(Mutex::new(Vec::new()));
    for (name, method, part) in MOMENTS {
        let own = Api::new(cluster.control_plane().admin_kubeconfig())?;
        let made = Arc::clone(&made);
        proxy.before(method, &format!("/pods/{name}{part}"), move || {
            made.lock().expect("no thread panics with it").push(replace(&own, name));
        });
    }
    let flags = ["--terminated-pod-gc-threshold=1", FREQUENT_PASSES];
    let process = start_pod_gc(&cluster, "pod-gc", &kubeconfig, &flags)?;
    explained(api.wait_gone(&path("stuck"), PATIENCE), &process)?;
    explained(wait_for_a_pass(&cluster, NAMESPACE), &process)?;

    let made = std::mem::take(&mut *made.lock().expect("no thread panics with it"));
    ensure!(made.len() == MOMENTS.len(), "recreated: {made:?}");
    for new in made {
        let new = new?;
        let name = new["metadata"]["name"].as_str().context("a name")?;
        let now = api.get(&path(name))?.with_context(|| format!("{name} is gone"))?;
        assert_eq!(now["metadata"]["uid"], new["metadata"]["uid"]);
        assert_eq!(now["status"]["phase"], "Running", "{name}");
        assert!(now["metadata"]["deletionTimestamp"].is_null(), "{name}");
    }
    for (name, method, part) in MOMENTS {
        let end = format!("/pods/{name}{part}");
        let requested = proxy.requested().into_iter().filter(|requested| {
            requested.method == method
                && requested.path.split('?').next().unwrap_or_default().ends_with(&end)
        });
        let answers: Vec<_> = requested.map(|requested| requested.status).collect();
        assert_eq!(answers, [Some(StatusCode::CONFLICT)], "{name}");
    }
    let deleted =
        deletions(&proxy).into_iter().filter(|requested| requested.path.contains("/stuck-before"));
    assert_eq!(deleted.count(), 0, "a pod that could not be marked as failed was deleted");
    cluster.stop()
}

/// The number of pods that the leader finds, and the threshold.
const MANY: usize = 150;
const FEW: usize = 10;

fn count(api: &Api) -> Result<usize> {
    Ok(api.list(PODS)?.len())
}

#[test]
fn leader_blocked_in_mid_pass_is_replaced_and_stops_deleting() -> Result<()> {
    let cluster = cluster()?;
    let api = cluster.api();
    api.create("/api/v1/nodes", &node("works"))?;
    for index in 0..MANY {
        make_pod(api, &format!("p{index:03}"), "works", "Succeeded")?;
    }
    let threshold = format!("--terminated-pod-gc-threshold={FEW}");
    let flags = [&[threshold.as_str()], &SHORT_LEASE[..]].concat();
    let (first_way, kubeconfig) = proxy(&cluster, "first")?;
    let first = start_pod_gc(&cluster, "first", &kubeconfig, &flags)?;
    let halfway = wait::every(wait::OFTEN, "half of them are gone", PATIENCE, || {
        let count = count(api)?;
        Ok(if count < MANY / 2 + FEW { Ok(count) } else { Err(format!("{count} pods")) })
    });
    first.signal(Signal::Stop)?;
    let halfway = explained(halfway, &first)?;
    ensure!(halfway > FEW, "the pass was over before the leader was held up");
    let leader = holder(api)?.context("there is no leader")?;

    let (second_way, kubeconfig) = proxy(&cluster, "second")?;
    let second = start_pod_gc(&cluster, "second", &kubeconfig, &flags)?;
    explained(
        wait::until("the second ends the pass", PATIENCE, || {
            let count = count(api)?;
            Ok(if count <= FEW { Ok(()) } else { Err(format!("{count} pods")) })
        }),
        &second,
    )?;
    assert_ne!(holder(api)?, Some(leader));
    let before = deletions(&first_way).len();
    first.signal(Signal::Cont)?;
    // The former leader exits: it has no other choice.
    first.wait(PATIENCE)?;
    // Requests that were sent before the connection was held up still arrive: no pod matches them.
    let late = deletions(&first_way).split_off(before);
    let met = late.iter().filter(|requested| requested.status == Some(StatusCode::OK)).count();
    assert!(met == 0 && late.len() < MANY / 10, "{} late, {met} met: {}", late.len(), first.log());
    assert_eq!(count(api)?, FEW);
    // Nothing was deleted twice.
    let all: Vec<RecordedRequest> = [deletions(&first_way), deletions(&second_way)].concat();
    let refused = all.iter().filter(|requested| requested.status != Some(StatusCode::OK)).count();
    assert!(refused <= 1 + late.len(), "{refused} of {} deletions were refused", all.len());
    ensure!(second.is_alive()?, "the second ended");
    cluster.stop()
}

#[test]
fn pod_gc_resumes_after_an_api_server_outage() -> Result<()> {
    let mut cluster = cluster()?;
    let api = cluster.api();
    for name in ["works", "goes"] {
        api.create("/api/v1/nodes", &node(name))?;
    }
    make_pod(api, "kept", "works", "Running")?;
    make_pod(api, "orphan", "goes", "Running")?;
    let kubeconfig = cluster.control_plane().admin_kubeconfig().clone();
    let quarantine = format!("--quarantine-time={}s", QUARANTINE.as_secs());
    let times = [quarantine.as_str(), FREQUENT_PASSES];
    let start = |name: &str, election: &[&str]| {
        start_pod_gc(&cluster, name, &kubeconfig, &[&times, election].concat())
    };
    let process = start("pod-gc", &["--leader-elect=false"])?;
    let leader = start("leader", &SHORT_LEASE)?;
    explained(wait_for_a_pass(&cluster, NAMESPACE), &process)?;
    wait::until("there is a leader", PATIENCE, || {
        Ok(holder(cluster.api())?.ok_or_else(|| "there is none".to_owned()))
    })?;
    cluster.api().delete("/api/v1/nodes/goes")?;
    let deleted = Instant::now();

    cluster.kill_api_server()?;
    // A leader that cannot renew its lease ends; that also takes long enough for a pass without an API server.
    let ended = leader.wait(PATIENCE)?;
    assert!(!ended.success(), "{ended}");
    assert!(leader.log().contains("leader election lost"), "{}", leader.log());
    cluster.start_api_server()?;
    let api = cluster.api();
    explained(api.wait_gone(&path("orphan"), ORPHAN), &process)?;
    assert!(deleted.elapsed() > QUARANTINE, "within {:?}", deleted.elapsed());
    explained(wait_for_a_pass(&cluster, NAMESPACE), &process)?;
    api.get(&path("kept"))?.context("the pod of a node that is there")?;
    ensure!(process.is_alive()?, "it ended: {}", process.log());
    cluster.stop()
}
