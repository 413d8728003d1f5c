//! Removing sandboxes and containers.

use anyhow::{Result, ensure};
use model::ids::ContainerId;
use model::ports::runtime::{Code, RuntimeError, SandboxFilter};
use model::verdict::Subject;

use super::bench::{Bench, Pod, done_or_gone, not_found, refused, unknown_id};
use crate::wanted::removal;

async fn remove_sandbox(bench: &Bench<'_>, pod: &Pod) -> Result<(), RuntimeError> {
    let verdict = removal(Subject::Sandbox(pod.sandbox.clone()));
    bench.runtime.sandboxes.remove_pod_sandbox(&verdict).await
}

async fn remove_container(bench: &Bench<'_>, id: &ContainerId) -> Result<(), RuntimeError> {
    bench.runtime.containers.remove_container(&removal(Subject::Container(id.clone()))).await
}

async fn pod_is_gone(bench: &Bench<'_>, pod: &Pod) -> Result<()> {
    not_found(bench.runtime.sandboxes.pod_sandbox_status(&pod.sandbox).await)?;
    let filter =
        SandboxFilter { pod_uid: Some(pod.config.pod_uid.clone()), ..SandboxFilter::default() };
    let sandboxes = bench.runtime.sandboxes.list_pod_sandboxes(&filter).await?;
    ensure!(sandboxes.is_empty(), "{sandboxes:?}");
    let containers = bench.containers(pod).await?;
    ensure!(containers.is_empty(), "{containers:?}");
    Ok(())
}

pub(super) async fn removed_sandbox_is_gone(bench: &Bench<'_>) -> Result<()> {
    let pod = bench.pod().await?;
    let id = bench.start(&pod, &["exit", "0"]).await?;
    bench.exited(&id).await?;
    bench.stop_sandbox(&pod).await?;
    remove_sandbox(bench, &pod).await?;
    pod_is_gone(bench, &pod).await?;
    not_found(bench.runtime.containers.container_status(&id).await)
}

pub(super) async fn ready_sandbox_is_removed_with_its_running_containers(
    bench: &Bench<'_>,
) -> Result<()> {
    let pod = bench.pod().await?;
    let id = bench.start(&pod, &["sleep", "forever"]).await?;
    remove_sandbox(bench, &pod).await?;
    pod_is_gone(bench, &pod).await?;
    not_found(bench.runtime.containers.container_status(&id).await)
}

pub(super) async fn removed_container_is_gone(bench: &Bench<'_>) -> Result<()> {
    let pod = bench.pod().await?;
    let exited = bench.start(&pod, &["exit", "0"]).await?;
    bench.exited(&exited).await?;
    let mut config = bench.container_config(&pod, &["sleep", "forever"]);
    config.attempt = 1;
    let created = bench.create(&pod, &config).await?;
    for id in [exited, created] {
        remove_container(bench, &id).await?;
        not_found(bench.runtime.containers.container_status(&id).await)?;
    }
    let containers = bench.containers(&pod).await?;
    ensure!(containers.is_empty(), "{containers:?}");
    Ok(())
}

pub(super) async fn running_container_is_removed_by_force(bench: &Bench<'_>) -> Result<()> {
    let pod = bench.pod().await?;
    let id = bench.start(&pod, &["ignore", "TERM"]).await?;
    remove_container(bench, &id).await?;
    not_found(bench.runtime.containers.container_status(&id).await)
}

pub(super) async fn removal_can_be_repeated(bench: &Bench<'_>) -> Result<()> {
    let pod = bench.pod().await?;
    let config = bench.container_config(&pod, &["sleep", "forever"]);
    let id = bench.create(&pod, &config).await?;
    remove_container(bench, &id).await?;
    done_or_gone(remove_container(bench, &id).await)?;
    remove_sandbox(bench, &pod).await?;
    done_or_gone(remove_sandbox(bench, &pod).await)?;
    done_or_gone(remove_container(bench, &unknown_id()).await)
}

pub(super) async fn verdict_for_another_subject_is_refused(bench: &Bench<'_>) -> Result<()> {
    let pod = bench.pod().await?;
    let sandbox = removal(Subject::Sandbox(pod.sandbox.clone()));
    let container = removal(Subject::Container(unknown_id()));
    for result in [
        bench.runtime.containers.remove_container(&sandbox).await,
        bench.runtime.images.remove_image(&sandbox).await,
        bench.runtime.sandboxes.remove_pod_sandbox(&container).await,
    ] {
        let error = refused(result)?;
        ensure!(error.code == Code::InvalidArgument, "{error}");
    }
    bench.runtime.sandboxes.pod_sandbox_status(&pod.sandbox).await?;
    Ok(())
}
