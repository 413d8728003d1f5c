//! Unique names.

use std::fmt::Debug;

use anyhow::{Context, Result, ensure};
use futures_util::future::join;
use model::ports::runtime::{RuntimeError, SandboxFilter};
use model::verdict::Subject;

use super::bench::{Bench, Pod, not_found, reserved};
use crate::wanted;

type Made<T> = Result<T, RuntimeError>;

pub(super) async fn sandbox_name_is_reserved_until_it_is_removed(bench: &Bench<'_>) -> Result<()> {
    let pod = bench.pod().await?;
    reserved(bench.runtime.sandboxes.run_pod_sandbox(&pod.config).await)?;
    bench.stop_sandbox(&pod).await?;
    reserved(bench.runtime.sandboxes.run_pod_sandbox(&pod.config).await)?;
    let removal = wanted::removal(Subject::Sandbox(pod.sandbox.clone()));
    bench.runtime.sandboxes.remove_pod_sandbox(&removal).await?;
    let next = bench.runtime.sandboxes.run_pod_sandbox(&pod.config).await?;
    ensure!(next != pod.sandbox, "id was reused: {next}");
    Ok(())
}

pub(super) async fn one_of_two_concurrent_creations_of_a_name_succeeds(
    bench: &Bench<'_>,
) -> Result<()> {
    let config = bench.sandbox_config();
    let make = || bench.runtime.sandboxes.run_pod_sandbox(&config);
    let sandbox = one_of(join(make(), make()).await)?;
    let uid = Some(config.pod_uid.clone());
    let filter = SandboxFilter { pod_uid: uid, ..SandboxFilter::default() };
    let listed = bench.runtime.sandboxes.list_pod_sandboxes(&filter).await?;
    ensure!(listed.len() == 1 && listed[0].id == sandbox, "{listed:?}");
    let pod = Pod { config, sandbox };
    let config = bench.container_config(&pod, &["sleep", "forever"]);
    let make = || bench.runtime.containers.create_container(&pod.sandbox, &config, &pod.config);
    let container = one_of(join(make(), make()).await)?;
    let listed = bench.containers(&pod).await?;
    ensure!(listed.len() == 1 && listed[0].id == container, "{listed:?}");
    Ok(())
}

/// The result of the call that succeeded while the other was refused.
fn one_of<T: Debug>(answers: (Made<T>, Made<T>)) -> Result<T> {
    let (made, refused) = match answers {
        (Ok(made), refused) | (refused, Ok(made)) => (made, refused),
        (Err(error), _) => return Err(error).context("both were refused"),
    };
    reserved(refused)?;
    Ok(made)
}

pub(super) async fn another_attempt_is_another_sandbox(bench: &Bench<'_>) -> Result<()> {
    let mut pod = bench.pod().await?;
    bench.stop_sandbox(&pod).await?;
    pod.config.attempt = 1;
    bench.runtime.sandboxes.run_pod_sandbox(&pod.config).await?;
    let filter = SandboxFilter { pod_uid: Some(pod.config.pod_uid), ..SandboxFilter::default() };
    let sandboxes = bench.runtime.sandboxes.list_pod_sandboxes(&filter).await?;
    let mut attempts: Vec<u32> = sandboxes.iter().map(|sandbox| sandbox.attempt).collect();
    attempts.sort_unstable();
    ensure!(attempts == [0, 1], "{sandboxes:?}");
    Ok(())
}

pub(super) async fn container_name_is_reserved_until_it_is_removed(
    bench: &Bench<'_>,
) -> Result<()> {
    let pod = bench.pod().await?;
    let mut config = bench.container_config(&pod, &["sleep", "forever"]);
    let first = bench.create(&pod, &config).await?;
    reserved(bench.runtime.containers.create_container(&pod.sandbox, &config, &pod.config).await)?;
    config.attempt = 1;
    bench.create(&pod, &config).await?;
    config.attempt = 0;
    bench
        .runtime
        .containers
        .remove_container(&wanted::removal(Subject::Container(first.clone())))
        .await?;
    let next = bench.create(&pod, &config).await?;
    ensure!(next != first, "id was reused: {next}");
    Ok(())
}

pub(super) async fn container_name_stays_reserved_in_the_next_sandbox(
    bench: &Bench<'_>,
) -> Result<()> {
    let pod = bench.pod().await?;
    let config = bench.container_config(&pod, &["sleep", "forever"]);
    bench.create(&pod, &config).await?;
    bench.stop_sandbox(&pod).await?;
    let mut sandbox = pod.config.clone();
    sandbox.attempt = 1;
    let next = bench.runtime.sandboxes.run_pod_sandbox(&sandbox).await?;
    let next = Pod { config: sandbox, sandbox: next };
    reserved(bench.runtime.containers.create_container(&next.sandbox, &config, &next.config).await)
}

pub(super) async fn failed_creation_releases_the_name(bench: &Bench<'_>) -> Result<()> {
    let pod = bench.pod().await?;
    let good = bench.container_config(&pod, &["sleep", "forever"]);
    let mut bad = good.clone();
    bad.image_ref = bench.harness.absent_image();
    not_found(bench.runtime.containers.create_container(&pod.sandbox, &bad, &pod.config).await)?;
    bench.create(&pod, &good).await?;
    Ok(())
}
