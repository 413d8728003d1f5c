//! Stopping containers.

use std::time::Duration;

use anyhow::{Result, ensure};
use model::ids::ContainerId;
use model::observed::ContainerState;
use tokio::time::Instant;

use super::bench::{Bench, done_or_gone, unknown_id};

/// A grace period that no case waits for.
const LONG: Duration = Duration::from_secs(40);
/// The limit for a stop that need not wait.
const QUICK: Duration = Duration::from_secs(20);

/// Stops a container and returns the duration. It has exited when the call returns.
async fn stop(bench: &Bench<'_>, id: &ContainerId, grace: Duration, code: i32) -> Result<Duration> {
    let begun = Instant::now();
    bench.runtime.containers.stop_container(id, grace).await?;
    let took = begun.elapsed();
    let status = bench.runtime.containers.container_status(id).await?;
    ensure!(status.state == ContainerState::Exited, "{status:?}");
    ensure!(status.exit_code == code, "expected {code}: {status:?}");
    Ok(took)
}

pub(super) async fn container_without_signal_handler_ends_by_the_signal(
    bench: &Bench<'_>,
) -> Result<()> {
    let pod = bench.pod().await?;
    let id = bench.start_until_output(&pod, &["trap", "INT"], "trapping").await?;
    let took = stop(bench, &id, LONG, 143).await?;
    ensure!(took < QUICK, "took {took:?}");
    Ok(())
}

pub(super) async fn container_may_end_with_its_own_code_within_the_grace(
    bench: &Bench<'_>,
) -> Result<()> {
    let pod = bench.pod().await?;
    let args = ["trap", "TERM", "--exit", "5", "--delay", "1s"];
    let id = bench.start_until_output(&pod, &args, "trapping").await?;
    let took = stop(bench, &id, LONG, 5).await?;
    ensure!((Duration::from_secs(1)..QUICK).contains(&took), "took {took:?}");
    Ok(())
}

pub(super) async fn container_that_ignores_the_signal_is_killed_after_the_grace(
    bench: &Bench<'_>,
) -> Result<()> {
    let pod = bench.pod().await?;
    let id = bench.start(&pod, &["ignore", "TERM"]).await?;
    let grace = Duration::from_secs(2);
    let took = stop(bench, &id, grace, 137).await?;
    ensure!((grace..QUICK).contains(&took), "took {took:?}");
    Ok(())
}

pub(super) async fn container_without_grace_is_killed(bench: &Bench<'_>) -> Result<()> {
    let pod = bench.pod().await?;
    let id = bench.start_until_output(&pod, &["trap", "TERM"], "trapping").await?;
    let took = stop(bench, &id, Duration::ZERO, 137).await?;
    ensure!(took < QUICK, "took {took:?}");
    Ok(())
}

pub(super) async fn shorter_grace_overrides_a_longer_one(bench: &Bench<'_>) -> Result<()> {
    let pod = bench.pod().await?;
    let id = bench.start(&pod, &["ignore", "TERM"]).await?;
    let short = Duration::from_secs(1);
    let (long, short) = tokio::join!(stop(bench, &id, LONG, 137), stop(bench, &id, short, 137));
    ensure!(short? < QUICK, "the shorter grace did not count");
    ensure!(long? < QUICK, "the longer stop did not see the end");
    Ok(())
}

pub(super) async fn stopping_an_exited_container_changes_nothing(bench: &Bench<'_>) -> Result<()> {
    let pod = bench.pod().await?;
    let id = bench.start(&pod, &["exit", "6"]).await?;
    let before = bench.exited(&id).await?;
    bench.runtime.containers.stop_container(&id, LONG).await?;
    let after = bench.runtime.containers.container_status(&id).await?;
    ensure!(after == before, "{before:?} became {after:?}");

    let mut created = bench.container_config(&pod, &["sleep", "forever"]);
    created.attempt = 1;
    let created = bench.create(&pod, &created).await?;
    bench.runtime.containers.stop_container(&created, LONG).await?;
    let status = bench.runtime.containers.container_status(&created).await?;
    ensure!(status.state == ContainerState::Created, "{status:?}");

    done_or_gone(bench.runtime.containers.stop_container(&unknown_id(), LONG).await)
}
