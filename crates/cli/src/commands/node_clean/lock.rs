//! Locks the root directory: no agent may start pods while they are removed.

use std::io;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use hostfs::Claim;
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};
use tokio::task::spawn_blocking;

use crate::commands::agent::AgentClient;

/// How long an agent may take to stop.
const PATIENCE: Duration = Duration::from_secs(30);

/// Locks the root directory, if an agent ever used it. An agent that holds the lock is stopped if
/// `force` is set.
pub(super) async fn lock(
    agent: &AgentClient,
    root_dir: &Path,
    force: bool,
) -> Result<Option<Claim>> {
    let directory = root_dir.join("ferrolet");
    if !directory.try_exists().with_context(|| format!("look at {}", directory.display()))? {
        return Ok(None);
    }
    match hostfs::claim(&directory) {
        Ok(claim) => return Ok(Some(claim)),
        Err(error) if error.kind() == io::ErrorKind::ResourceBusy => {}
        Err(error) => return Err(error).with_context(|| format!("use {}", root_dir.display())),
    }
    if !force {
        bail!("an agent uses {}: stop it first, or stop it with --force", root_dir.display());
    }
    request_stop(agent).await.context("request the stop of the agent")?;
    let claimed = spawn_blocking(move || hostfs::claim_within(&directory, PATIENCE)).await?;
    match claimed {
        Ok(claim) => Ok(Some(claim)),
        Err(error) if error.kind() == io::ErrorKind::ResourceBusy => {
            bail!("the agent was asked to stop, but did not within {PATIENCE:?}")
        }
        Err(error) => Err(error).with_context(|| format!("use {}", root_dir.display())),
    }
}

/// Sends SIGTERM to the process that listens on the agent's socket.
async fn request_stop(agent: &AgentClient) -> Result<()> {
    // While the connection is open, the process exists and its pid is not reused.
    let connection = agent.connect().await?;
    let peer = connection.peer_cred().context("read the credentials of the agent")?;
    let pid =
        peer.pid().and_then(Pid::from_raw).context("the agent is in another PID namespace")?;
    let process = pidfd_open(pid, PidfdFlags::empty()).context("open the process of the agent")?;
    pidfd_send_signal(process, Signal::TERM).context("signal the process of the agent")?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn root_directory_in_use_is_not_taken() {
        let root = tempfile::tempdir().unwrap();
        let agent = AgentClient::new(root.path());
        assert!(lock(&agent, root.path(), false).await.unwrap().is_none(), "no agent used it");
        let held = hostfs::claim(&root.path().join("ferrolet")).unwrap();
        let error = lock(&agent, root.path(), false).await.unwrap_err().to_string();
        assert!(error.starts_with("an agent uses"), "{error}");
        let error = format!("{:#}", lock(&agent, root.path(), true).await.unwrap_err());
        assert!(error.contains("no agent answers"), "{error}");
        drop(held);
        assert!(lock(&agent, root.path(), false).await.unwrap().is_some());
    }
}
