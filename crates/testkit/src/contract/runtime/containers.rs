//! The lifecycle of a container.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use model::ids::{ContainerId, ObjectId, SandboxId};
use model::observed::{ContainerState, ReportedResources};
use model::wanted::LinuxResources;
use tokio::time::{Instant, sleep};

use super::bench::{Bench, not_found, unknown_id};

pub(super) async fn container_is_created_then_runs_then_exits(bench: &Bench<'_>) -> Result<()> {
    let pod = bench.pod().await?;
    // Long enough to be observed running, and for a runtime that records the start late.
    let config = bench.container_config(&pod, &["crash-after", "2s", "3"]);
    let id = bench.create(&pod, &config).await?;
    let created = bench.runtime.containers.container_status(&id).await?;
    ensure!(created.state == ContainerState::Created, "{created:?}");
    ensure!(created.started_at.is_none() && created.finished_at.is_none(), "{created:?}");

    bench.runtime.containers.start_container(&id).await?;
    let running = bench.runtime.containers.container_status(&id).await?;
    ensure!(running.state == ContainerState::Running, "{running:?}");
    ensure!(running.finished_at.is_none(), "{running:?}");

    let exited = bench.exited(&id).await?;
    ensure!(exited.exit_code == 3, "{exited:?}");
    ensure!(&*exited.reason == "Error", "{exited:?}");
    let started = exited.started_at.context("no start")?;
    let finished = exited.finished_at.context("no end")?;
    ensure!(exited.created_at == created.created_at, "{exited:?}");
    ensure!(exited.started_at == running.started_at, "{exited:?}");
    ensure!(exited.created_at <= started && started <= finished, "{exited:?}");
    Ok(())
}

pub(super) async fn exit_code_0_has_reason_completed(bench: &Bench<'_>) -> Result<()> {
    let pod = bench.pod().await?;
    let id = bench.start(&pod, &["exit", "0"]).await?;
    let status = bench.exited(&id).await?;
    ensure!(status.exit_code == 0, "{status:?}");
    ensure!(&*status.reason == "Completed", "{status:?}");
    Ok(())
}

pub(super) async fn container_status_returns_its_config(bench: &Bench<'_>) -> Result<()> {
    let pod = bench.pod().await?;
    let mut config = bench.container_config(&pod, &["sleep", "forever"]);
    config.attempt = 7;
    config.log_path = "main/7.log".into();
    config.annotations.insert("ferrolet.test/note".into(), "{\"a\": \"ü\"}".into());
    let id = bench.create(&pod, &config).await?;

    let status = bench.runtime.containers.container_status(&id).await?;
    ensure!(status.id == id && status.name == config.name, "{status:?}");
    ensure!(status.annotations == config.annotations, "{status:?}");
    let log_path = format!("{}/{}", pod.config.log_directory, config.log_path);
    ensure!(*status.log_path == log_path, "{status:?}");

    let listed = bench.containers(&pod).await?;
    ensure!(listed.len() == 1, "{listed:?}");
    ensure!(listed[0].id == id && listed[0].sandbox_id == pod.sandbox, "{listed:?}");
    ensure!(listed[0].name == config.name && listed[0].attempt == 7, "{listed:?}");
    ensure!(listed[0].pod_uid == pod.config.pod_uid, "{listed:?}");
    ensure!(listed[0].pod == pod.config.pod, "{listed:?}");
    ensure!(listed[0].created_at == status.created_at, "{listed:?} but {status:?}");
    Ok(())
}

pub(super) async fn container_status_refers_to_its_image(bench: &Bench<'_>) -> Result<()> {
    let image =
        bench.runtime.images.image_status(&bench.harness.image()).await?.context("no image")?;
    let pod = bench.pod().await?;
    let mut config = bench.container_config(&pod, &["sleep", "forever"]);
    config.image_ref.clone_from(&image.id);
    let id = bench.create(&pod, &config).await?;
    let status = bench.runtime.containers.container_status(&id).await?;
    let listed = bench.containers(&pod).await?;
    ensure!(listed.len() == 1, "{listed:?}");
    for reference in [&status.image, &status.image_ref, &listed[0].image_ref] {
        let found = bench.runtime.images.image_status(reference).await?;
        let found = found.with_context(|| format!("no image {reference:?} of {status:?}"))?;
        ensure!(found.id == image.id, "{reference:?} is {found:?}, not {image:?}");
    }
    Ok(())
}

pub(super) async fn killed_container_has_exited(bench: &Bench<'_>) -> Result<()> {
    let pod = bench.pod().await?;
    let id = bench.start(&pod, &["sleep", "forever"]).await?;
    bench.kill(ObjectId::Container(id.clone())).await?;
    let status = bench.exited(&id).await?;
    ensure!(status.exit_code == 137, "{status:?}");
    ensure!(&*status.reason == "Error", "{status:?}");
    Ok(())
}

pub(super) async fn unknown_container_is_not_found(bench: &Bench<'_>) -> Result<()> {
    let id: ContainerId = unknown_id();
    not_found(bench.runtime.containers.container_status(&id).await)?;
    not_found(bench.runtime.containers.start_container(&id).await)
}

pub(super) async fn resources_are_updated_in_a_running_container(bench: &Bench<'_>) -> Result<()> {
    let pod = bench.pod().await?;
    let mut config = bench.container_config(&pod, &["sleep", "forever"]);
    config.resources = LinuxResources {
        cpu_period: 100_000,
        cpu_quota: 20_000,
        cpu_shares: 102,
        memory_limit: 64 << 20,
        ..LinuxResources::default()
    };
    let id = bench.create(&pod, &config).await?;
    bench.runtime.containers.start_container(&id).await?;
    let before = bench.runtime.containers.container_status(&id).await?;
    let expected = ReportedResources {
        cpu_request: Some(100),
        cpu_limit: Some(200),
        memory_limit: Some(64 << 20),
    };
    ensure!(before.resources == Some(expected), "{before:?}");
    // Unset values are kept.
    let change =
        LinuxResources { cpu_shares: 204, memory_limit: 128 << 20, ..LinuxResources::default() };
    for _ in 0..2 {
        bench
            .runtime
            .containers
            .update_container_resources(&id, &change)
            .await
            .context("updated twice")?;
        let after = bench.runtime.containers.container_status(&id).await?;
        let expected =
            ReportedResources { cpu_request: Some(200), memory_limit: Some(128 << 20), ..expected };
        ensure!(after.resources == Some(expected), "{after:?}");
        ensure!(after.state == ContainerState::Running, "{after:?}");
        ensure!(after.started_at == before.started_at, "{after:?}");
    }
    let unknown: ContainerId = unknown_id();
    not_found(bench.runtime.containers.update_container_resources(&unknown, &change).await)?;
    let none = LinuxResources::default();
    let runtime = &bench.runtime;
    runtime
        .sandboxes
        .update_pod_sandbox_resources(&pod.sandbox, &none, &change)
        .await
        .context("the pod")?;
    let unknown: SandboxId = unknown_id();
    not_found(runtime.sandboxes.update_pod_sandbox_resources(&unknown, &none, &change).await)
}

pub(super) async fn container_status_has_user_and_stop_signal(bench: &Bench<'_>) -> Result<()> {
    let pod = bench.pod().await?;
    let mut config = bench.container_config(&pod, &["sleep", "forever"]);
    config.security.run_as_user = Some(1000);
    config.security.run_as_group = Some(2000);
    config.security.supplemental_groups = vec![3000];
    config.stop_signal = Some("SIGUSR1".to_owned());
    let id = bench.create(&pod, &config).await?;
    let status = bench.runtime.containers.container_status(&id).await?;
    let linux = status.user.as_ref().and_then(|user| user.linux.as_ref());
    let linux = linux.with_context(|| format!("{status:?}"))?;
    ensure!((linux.uid, linux.gid) == (1000, 2000), "{status:?}");
    ensure!(linux.supplemental_groups.contains(&3000), "{status:?}");
    ensure!(status.stop_signal.as_deref() == Some("SIGUSR1"), "{status:?}");
    Ok(())
}

pub(super) async fn running_container_has_a_writable_layer(bench: &Bench<'_>) -> Result<()> {
    let pod = bench.pod().await?;
    let id = bench.start(&pod, &["sleep", "forever"]).await?;
    // Runtimes measure layers from time to time.
    let deadline = Instant::now() + Duration::from_secs(40);
    loop {
        let found = bench.runtime.containers.list_writable_layers().await?;
        if let Some(layer) = found.iter().find(|layer| layer.container == id) {
            ensure!(layer.usage.mount_point.is_absolute(), "{layer:?}");
            return Ok(());
        }
        ensure!(Instant::now() < deadline, "no layer of {id} in {found:?}");
        sleep(Duration::from_millis(500)).await;
    }
}
