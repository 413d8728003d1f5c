//! Commands in containers.

use std::time::Duration;

use anyhow::{Result, ensure};
use model::ports::runtime::Code;
use tokio::time::Instant;

use super::bench::{Bench, SOON, not_found, refused, unknown_id};

fn command(words: &[&str]) -> Vec<String> {
    std::iter::once(&"/workload").chain(words).map(ToString::to_string).collect()
}

pub(super) async fn exec_returns_output_and_exit_code(bench: &Bench<'_>) -> Result<()> {
    let pod = bench.pod().await?;
    let id = bench.start(&pod, &["sleep", "forever"]).await?;
    for code in [0, 7] {
        let words = command(&["exit", &code.to_string()]);
        let output = bench.runtime.containers.exec_sync(&id, &words, None).await?;
        ensure!(output.exit_code == code, "{output:?}");
    }
    Ok(())
}

pub(super) async fn exec_is_killed_after_its_timeout(bench: &Bench<'_>) -> Result<()> {
    let pod = bench.pod().await?;
    let id = bench.start(&pod, &["sleep", "forever"]).await?;
    let (words, begun) = (command(&["sleep", "1m"]), Instant::now());
    let limit = Duration::from_secs(1);
    let error = refused(bench.runtime.containers.exec_sync(&id, &words, Some(limit)).await)?;
    ensure!(error.code == Code::DeadlineExceeded, "{error}");
    ensure!((limit..SOON).contains(&begun.elapsed()), "took {:?}", begun.elapsed());
    Ok(())
}

pub(super) async fn exec_ends_with_its_container(bench: &Bench<'_>) -> Result<()> {
    let pod = bench.pod().await?;
    let id = bench.start(&pod, &["sleep", "forever"]).await?;
    let (words, begun) = (command(&["sleep", "1m"]), Instant::now());
    let end = async {
        // The command runs by then; a file or a signal would not be proof here.
        tokio::time::sleep(Duration::from_secs(1)).await;
        bench.runtime.containers.stop_container(&id, Duration::ZERO).await
    };
    let (output, ended) = tokio::join!(bench.runtime.containers.exec_sync(&id, &words, None), end);
    ended?;
    ensure!(output.as_ref().is_ok_and(|output| output.exit_code == 137), "{output:?}");
    ensure!(begun.elapsed() < SOON, "took {:?}", begun.elapsed());
    Ok(())
}

pub(super) async fn exec_fails_unless_the_container_runs(bench: &Bench<'_>) -> Result<()> {
    let pod = bench.pod().await?;
    let id = bench.start(&pod, &["exit", "0"]).await?;
    bench.exited(&id).await?;
    let words = command(&["exit", "0"]);
    refused(bench.runtime.containers.exec_sync(&id, &words, None).await)?;
    not_found(bench.runtime.containers.exec_sync(&unknown_id(), &words, None).await)
}

pub(super) async fn exec_of_a_missing_command_fails(bench: &Bench<'_>) -> Result<()> {
    let pod = bench.pod().await?;
    let id = bench.start(&pod, &["sleep", "forever"]).await?;
    refused(bench.runtime.containers.exec_sync(&id, &["/nonsense".to_owned()], None).await)?;
    Ok(())
}
