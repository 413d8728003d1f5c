//! DNS servers that do not answer. In real time: a blocked thread keeps a paused clock from moving.

use std::io;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::time::Duration;

use cluster::{Cluster, Connection, Exclusion, Rate, Resolver, Source};
use k8s_openapi::api::core::v1::{EnvFromSource, SecretEnvSource};
use model::ports::runtime::Runtime;
use testkit::pods::pod;
use tokio::runtime::Builder;

use crate::harness::Harness;
use crate::stuck_files::HungFiles;

const IMAGE: &str = "ferrolet.test/workload:1";

/// Secrets are on an API server whose name never resolves.
fn secrets_at(resolver: Resolver) -> Arc<Cluster> {
    let connection = Connection::resolved_by(resolver, "http://api.example:6443");
    let connection = connection.expect("an address");
    Arc::new(Cluster::new(connection, Rate::UNLIMITED, Exclusion::default(), Source::default()))
}

/// A pod that needs 20 secrets.
fn needs_secrets(number: usize) -> k8s_openapi::api::core::v1::Pod {
    let secret = |of: usize| EnvFromSource {
        secret_ref: Some(SecretEnvSource { name: format!("secret-{number}-{of}"), optional: None }),
        ..EnvFromSource::default()
    };
    let pod = pod(&format!("waits-{number}")).on_node("node").restart_policy("Always");
    let pod = pod.container("main", IMAGE, ["sleep", "forever"]);
    pod.spec(|spec| spec.containers[0].env_from = Some((0..20).map(secret).collect())).build()
}

async fn restarts_what_dies_beside(looked_up: &AtomicUsize, resolver: Resolver) {
    let (mut harness, api) = Harness::in_cluster();
    let mut ports = harness.cluster_ports().expect("it is in a cluster");
    ports.objects = secrets_at(resolver);
    harness.through = Some(ports);
    harness.write_manifest("web", "Always", "[sleep, forever]");
    let files = Arc::new(HungFiles::new(&harness.files));
    let (runtime, cgroups) =
        (Runtime::new(Arc::clone(&harness.runtime)), Arc::clone(&harness.cgroups));
    let agent = harness.start_with(runtime, files, cgroups);
    let web = harness.one_runs("web").await;
    for number in 0..10 {
        api.make(needs_secrets(number));
    }
    let is_waiting = |_: &Harness| (looked_up.load(Ordering::Relaxed) > 0).then_some(());
    harness.until("the name is looked up", is_waiting).await;
    // Long enough for all watches to resolve the name.
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert!(harness.runtime.kill_container(&web.id, 137));
    let restarted =
        |harness: &Harness| harness.running("web").into_iter().find(|one| one.id != web.id);
    let restarted = harness.until("the dead container is restarted", restarted);
    let restarted = tokio::time::timeout(Duration::from_secs(30), restarted).await;
    assert!(restarted.is_ok(), "it waits for the DNS servers");
    agent.stop().await;
}

// behaviour: NODE-71
#[test]
fn container_that_dies_is_restarted_while_two_hundred_secrets_wait_for_name_servers() {
    // As many threads as the runtime once had for blocking calls.
    let runtime = Builder::new_current_thread().enable_all().max_blocking_threads(16).build();
    let runtime = runtime.expect("a runtime");
    // After the runtime, which waits for its threads when it is dropped.
    let (looked_up, (go, gate)) = (Arc::new(AtomicUsize::new(0)), mpsc::channel::<()>());
    let (count, gate) = (Arc::clone(&looked_up), Mutex::new(gate));
    let resolver = Resolver::new(move |_| {
        count.fetch_add(1, Ordering::Relaxed);
        gate.lock().expect("no thread panicked with it").recv().ok();
        Err(io::ErrorKind::NotFound.into())
    });
    runtime.block_on(restarts_what_dies_beside(&looked_up, resolver));
    assert_eq!(looked_up.load(Ordering::Relaxed), 1, "all of them share one thread");
    drop(go);
}
