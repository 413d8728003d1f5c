//! The contract of login managers.

use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use model::ports::login::{LoginManager, ShutdownWatch};

/// The limit of a wait.
const PATIENCE: Duration = Duration::from_secs(20);

async fn next(watch: &mut dyn ShutdownWatch) -> Result<bool> {
    let next = tokio::time::timeout(PATIENCE, watch.next()).await.context("no signal in time")?;
    next.context("the watch is lost")
}

/// Checks a login manager that delays shutdowns by 5 s at most. `prepare` begins a shutdown or cancels it.
pub async fn login_contract(login: &dyn LoginManager, prepare: impl AsyncFn(bool)) -> Result<()> {
    ensure!(login.longest_delay().await? == Duration::from_secs(5));
    ensure!(!login.is_shutting_down().await?, "nothing shuts it down yet");
    let lock = login.delay_shutdown().await?;
    let mut watch = login.watch().await?;
    prepare(true).await;
    ensure!(next(&mut *watch).await?, "a shutdown begins");
    ensure!(login.is_shutting_down().await?);
    ensure!(login.delay_shutdown().await.is_err(), "it is too late for another lock");
    lock.release();
    prepare(false).await;
    ensure!(!next(&mut *watch).await?, "it is cancelled");
    ensure!(!login.is_shutting_down().await?);
    login.delay_shutdown().await?.release();
    login.reload().await?;
    Ok(())
}
