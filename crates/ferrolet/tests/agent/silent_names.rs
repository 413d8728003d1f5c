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

use crate::stuck_files::HungFiles;
use crate::world::World;

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
    let (mut world, api) = World::in_cluster();
    let mut ports = world.cluster_ports().expect("it is in a cluster");
    ports.objects = secrets_at(resolver);
    world.through = Some(ports);
    world.write_manifest("web", "Always", "[sleep, forever]");
    let files = Arc::new(HungFiles::new(&world.files));
    let (runtime, cgroups) = (Runtime::new(Arc::clone(&world.runtime)), Arc::clone(&world.cgroups));
    let agent = world.start_with(runtime, files, cgroups);
    let web = world.one_runs("web").await;
    for number in 0..10 {
        api.make(needs_secrets(number));
    }
    let is_waiting = |_: &World| (looked_up.load(Ordering::Relaxed) > 0).then_some(());
    world.until("the name is looked up", is_waiting).await;
    // Long enough for all watches to resolve the name.
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert!(world.runtime.kill_container(&web.id, 137));
    let restarted = |world: &World| world.running("web").into_iter().find(|one| one.id != web.id);
    let restarted = world.until("the dead container is restarted", restarted);
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
