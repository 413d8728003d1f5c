//! Creating and starting containers, and failures of that.

use anyhow::{Result, ensure};
use model::ids::ContainerId;
use model::observed::ContainerState;

use super::bench::{Bench, not_found, refused, unknown_id};

pub(super) async fn container_starts_only_once(bench: &Bench<'_>) -> Result<()> {
    let pod = bench.pod().await?;
    let id = bench.start(&pod, &["sleep", "forever"]).await?;
    let error = refused(bench.runtime.containers.start_container(&id).await)?;
    ensure!(!error.is_not_found(), "{error}");
    let status = bench.runtime.containers.container_status(&id).await?;
    ensure!(status.state == ContainerState::Running, "no longer runs: {status:?}");
    Ok(())
}

pub(super) async fn exited_container_does_not_start_again(bench: &Bench<'_>) -> Result<()> {
    let pod = bench.pod().await?;
    let id = bench.start(&pod, &["exit", "4"]).await?;
    let before = bench.exited(&id).await?;
    refused(bench.runtime.containers.start_container(&id).await)?;
    let after = bench.runtime.containers.container_status(&id).await?;
    ensure!(after == before, "{before:?} became {after:?}");
    Ok(())
}

pub(super) async fn container_does_not_start_in_a_stopped_sandbox(bench: &Bench<'_>) -> Result<()> {
    let pod = bench.pod().await?;
    let id = bench.create(&pod, &bench.container_config(&pod, &["sleep", "forever"])).await?;
    bench.stop_sandbox(&pod).await?;
    refused(bench.runtime.containers.start_container(&id).await)?;
    has_start_error(bench, &id).await
}

pub(super) async fn container_with_a_missing_program_does_not_start(
    bench: &Bench<'_>,
) -> Result<()> {
    let pod = bench.pod().await?;
    let mut config = bench.container_config(&pod, &[]);
    config.command = vec!["/no-such-program".into()];
    let id = bench.create(&pod, &config).await?;
    refused(bench.runtime.containers.start_container(&id).await)?;
    has_start_error(bench, &id).await
}

/// A container whose start failed is exited without having run, and has the error.
async fn has_start_error(bench: &Bench<'_>, id: &ContainerId) -> Result<()> {
    let status = bench.exited(id).await?;
    ensure!(status.started_at.is_none() && status.finished_at.is_some(), "{status:?}");
    ensure!(status.exit_code == 128, "{status:?}");
    ensure!(&*status.reason == "StartError", "{status:?}");
    ensure!(!status.message.is_empty(), "{status:?}");
    Ok(())
}

pub(super) async fn create_container_fails_without_a_sandbox(bench: &Bench<'_>) -> Result<()> {
    let pod = bench.pod().await?;
    let config = bench.container_config(&pod, &["sleep", "forever"]);
    not_found(bench.runtime.containers.create_container(&unknown_id(), &config, &pod.config).await)
}

pub(super) async fn create_container_fails_in_a_sandbox_that_is_not_ready(
    bench: &Bench<'_>,
) -> Result<()> {
    let pod = bench.pod().await?;
    bench.stop_sandbox(&pod).await?;
    let config = bench.container_config(&pod, &["sleep", "forever"]);
    let result =
        bench.runtime.containers.create_container(&pod.sandbox, &config, &pod.config).await;
    let error = refused(result)?;
    ensure!(!error.is_not_found(), "{error}");
    let containers = bench.containers(&pod).await?;
    ensure!(containers.is_empty(), "{containers:?}");
    Ok(())
}

pub(super) async fn create_container_fails_without_its_image(bench: &Bench<'_>) -> Result<()> {
    let pod = bench.pod().await?;
    let mut config = bench.container_config(&pod, &["sleep", "forever"]);
    config.image_ref = bench.harness.absent_image();
    not_found(bench.runtime.containers.create_container(&pod.sandbox, &config, &pod.config).await)
}
