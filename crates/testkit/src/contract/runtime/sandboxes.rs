//! The lifecycle of a sandbox.

use anyhow::{Result, ensure};
use model::ids::{ObjectId, SandboxId};
use model::labels;
use model::observed::{ContainerState, SandboxState};
use model::ports::runtime::SandboxFilter;
use model::wanted::NamespaceMode;

use super::bench::{Bench, Pod, done_or_gone, not_found, unknown_id};

pub(super) async fn sandbox_is_ready_once_it_runs(bench: &Bench<'_>) -> Result<()> {
    let pod = bench.pod().await?;
    let status = bench.runtime.sandboxes.pod_sandbox_status(&pod.sandbox).await?;
    ensure!(status.state == SandboxState::Ready, "{status:?}");
    ensure!(status.id == pod.sandbox, "{status:?}");
    ensure!(status.pod_uid == pod.config.pod_uid, "{status:?}");
    ensure!(status.pod == pod.config.pod, "{status:?}");
    ensure!(status.attempt == 0, "{status:?}");
    ensure!(!status.host_network, "{status:?}");

    let filter = SandboxFilter { id: Some(pod.sandbox), ..SandboxFilter::default() };
    let listed = bench.runtime.sandboxes.list_pod_sandboxes(&filter).await?;
    ensure!(listed.len() == 1, "{listed:?}");
    ensure!(listed[0].state == SandboxState::Ready, "{listed:?}");
    ensure!(listed[0].pod_uid == pod.config.pod_uid, "{listed:?}");
    ensure!(listed[0].pod == pod.config.pod, "{listed:?}");
    ensure!(listed[0].attempt == 0, "{listed:?}");
    Ok(())
}

pub(super) async fn sandbox_status_returns_its_config_also_when_dead(
    bench: &Bench<'_>,
) -> Result<()> {
    let mut config = bench.sandbox_config();
    let note = "{\"containers\": {\"ü\": 1}}";
    config.annotations.insert(labels::POD_SIZES.to_owned(), note.to_owned());
    let sandbox = bench.runtime.sandboxes.run_pod_sandbox(&config).await?;
    let given = bench.runtime.sandboxes.pod_sandbox_status(&sandbox).await?.given;
    ensure!(given.as_deref() == Some(note), "{given:?}");
    let pod = Pod { config, sandbox };
    bench.stop_sandbox(&pod).await?;
    let given = bench.runtime.sandboxes.pod_sandbox_status(&pod.sandbox).await?.given;
    ensure!(given.as_deref() == Some(note), "{given:?}");
    let other = bench.pod().await?;
    let given = bench.runtime.sandboxes.pod_sandbox_status(&other.sandbox).await?.given;
    ensure!(given.is_none(), "{given:?}");
    Ok(())
}

pub(super) async fn sandbox_has_an_address_until_it_is_stopped(bench: &Bench<'_>) -> Result<()> {
    let [one, two] = [bench.pod().await?, bench.pod().await?];
    let ips_of_one = bench.runtime.sandboxes.pod_sandbox_status(&one.sandbox).await?.ips;
    let ips_of_two = bench.runtime.sandboxes.pod_sandbox_status(&two.sandbox).await?.ips;
    ensure!(!ips_of_one.is_empty(), "no address");
    ensure!(ips_of_one != ips_of_two, "both pods have {ips_of_one:?}");
    bench.stop_sandbox(&one).await?;
    let ips = bench.runtime.sandboxes.pod_sandbox_status(&one.sandbox).await?.ips;
    ensure!(ips.is_empty(), "still {ips:?} after the stop");
    Ok(())
}

pub(super) async fn host_network_sandbox_has_no_address(bench: &Bench<'_>) -> Result<()> {
    let mut config = bench.sandbox_config();
    config.network = NamespaceMode::Node;
    config.hostname = String::new();
    let id = bench.runtime.sandboxes.run_pod_sandbox(&config).await?;
    let status = bench.runtime.sandboxes.pod_sandbox_status(&id).await?;
    ensure!(status.host_network, "{status:?}");
    ensure!(status.ips.is_empty(), "{status:?}");
    Ok(())
}

pub(super) async fn stopped_sandbox_is_not_ready(bench: &Bench<'_>) -> Result<()> {
    let pod = bench.pod().await?;
    bench.runtime.sandboxes.stop_pod_sandbox(&pod.sandbox).await?;
    bench.not_ready(&pod.sandbox).await
}

pub(super) async fn stopped_sandbox_can_be_stopped_again(bench: &Bench<'_>) -> Result<()> {
    let pod = bench.pod().await?;
    bench.stop_sandbox(&pod).await?;
    bench.stop_sandbox(&pod).await?;
    done_or_gone(bench.runtime.sandboxes.stop_pod_sandbox(&unknown_id()).await)
}

pub(super) async fn stopping_a_sandbox_stops_its_containers(bench: &Bench<'_>) -> Result<()> {
    let pod = bench.pod().await?;
    let running = bench.start(&pod, &["sleep", "forever"]).await?;
    let mut waiting = bench.container_config(&pod, &["sleep", "forever"]);
    waiting.name = "waiting".into();
    let waiting = bench.create(&pod, &waiting).await?;
    bench.stop_sandbox(&pod).await?;
    let status = bench.exited(&running).await?;
    ensure!([137, 143].contains(&status.exit_code), "{status:?}");
    let status = bench.runtime.containers.container_status(&waiting).await?;
    ensure!(status.state == ContainerState::Created, "never started: {status:?}");
    Ok(())
}

pub(super) async fn dead_sandbox_keeps_its_address_and_its_containers(
    bench: &Bench<'_>,
) -> Result<()> {
    let pod = bench.pod().await?;
    let id = bench.start(&pod, &["sleep", "forever"]).await?;
    let before = bench.runtime.sandboxes.pod_sandbox_status(&pod.sandbox).await?;
    bench.kill(ObjectId::Sandbox(pod.sandbox.clone())).await?;
    bench.not_ready(&pod.sandbox).await?;
    let after = bench.runtime.sandboxes.pod_sandbox_status(&pod.sandbox).await?;
    ensure!(after.ips == before.ips, "{before:?} became {after:?}");
    let status = bench.runtime.containers.container_status(&id).await?;
    ensure!(status.state == ContainerState::Running, "{status:?}");
    Ok(())
}

pub(super) async fn sandbox_death_ends_containers_that_share_its_pid_namespace(
    bench: &Bench<'_>,
) -> Result<()> {
    let mut config = bench.sandbox_config();
    config.pid = NamespaceMode::Pod;
    let sandbox = bench.runtime.sandboxes.run_pod_sandbox(&config).await?;
    let pod = Pod { config, sandbox };
    let mut container = bench.container_config(&pod, &["sleep", "forever"]);
    container.pid = NamespaceMode::Pod;
    let id = bench.create(&pod, &container).await?;
    bench.runtime.containers.start_container(&id).await?;
    bench.kill(ObjectId::Sandbox(pod.sandbox)).await?;
    let status = bench.exited(&id).await?;
    ensure!(status.exit_code == 137, "{status:?}");
    Ok(())
}

pub(super) async fn unknown_sandbox_is_not_found(bench: &Bench<'_>) -> Result<()> {
    not_found(bench.runtime.sandboxes.pod_sandbox_status(&unknown_id::<SandboxId>()).await)
}
