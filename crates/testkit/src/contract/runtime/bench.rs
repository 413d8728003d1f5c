//! The environment of a case, with a record of the pods that it created.

use std::fmt::Debug;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use model::ids::{ContainerId, ObjectId, PodUid, SandboxId};
use model::observed::{Container, ContainerState, ContainerStatus, SandboxState};
use model::ports::runtime::{Code, ContainerFilter, Runtime, RuntimeError, SandboxFilter};
use model::verdict::Subject;
use model::wanted::{ContainerConfig, SandboxConfig};
use tokio::time::{Instant, sleep};

use super::Harness;
use crate::contract::Impossible;
use crate::wanted;

/// The poll interval.
const PAUSE: Duration = Duration::from_millis(50);
/// How long a change in the runtime may take.
pub(super) const SOON: Duration = Duration::from_secs(20);

pub(super) struct Bench<'w> {
    pub(super) harness: &'w dyn Harness,
    pub(super) runtime: Runtime,
    /// Written when a case creates a pod, read at its end.
    pods: Mutex<Vec<PodUid>>,
}

/// A pod with a sandbox.
#[derive(Debug)]
pub(super) struct Pod {
    pub(super) config: SandboxConfig,
    pub(super) sandbox: SandboxId,
}

impl<'w> Bench<'w> {
    pub(super) fn new(harness: &'w dyn Harness) -> Self {
        Self { harness, runtime: harness.runtime(), pods: Mutex::default() }
    }

    /// Removes all objects of the case.
    pub(super) async fn clear(&self) -> Result<()> {
        let pods = std::mem::take(&mut *self.pods.lock().unwrap_or_else(PoisonError::into_inner));
        for uid in pods {
            let filter = SandboxFilter { pod_uid: Some(uid), ..SandboxFilter::default() };
            for sandbox in self.runtime.sandboxes.list_pod_sandboxes(&filter).await? {
                let verdict = wanted::removal(Subject::Sandbox(sandbox.id));
                self.runtime.sandboxes.remove_pod_sandbox(&verdict).await?;
            }
        }
        Ok(())
    }

    /// The configuration of a sandbox for a new pod.
    pub(super) fn sandbox_config(&self) -> SandboxConfig {
        let (pod, uid) = self.harness.unused_pod();
        let mut config = wanted::sandbox(&pod, &uid);
        self.harness.adapt(&mut config);
        self.pods.lock().unwrap_or_else(PoisonError::into_inner).push(uid);
        config
    }

    /// A new pod with a ready sandbox.
    pub(super) async fn pod(&self) -> Result<Pod> {
        let config = self.sandbox_config();
        let sandbox = self.runtime.sandboxes.run_pod_sandbox(&config).await?;
        Ok(Pod { config, sandbox })
    }

    /// The configuration of a container called `main`.
    pub(super) fn container_config(&self, pod: &Pod, args: &[&str]) -> ContainerConfig {
        wanted::container(&pod.config, "main", &self.harness.image(), args)
    }

    pub(super) async fn create(&self, pod: &Pod, config: &ContainerConfig) -> Result<ContainerId> {
        Ok(self.runtime.containers.create_container(&pod.sandbox, config, &pod.config).await?)
    }

    /// A container that was started with these arguments.
    pub(super) async fn start(&self, pod: &Pod, args: &[&str]) -> Result<ContainerId> {
        let id = self.create(pod, &self.container_config(pod, args)).await?;
        self.runtime.containers.start_container(&id).await?;
        Ok(id)
    }

    /// Like `start`, once the workload is ready for signals.
    pub(super) async fn start_until_output(
        &self,
        pod: &Pod,
        args: &[&str],
        text: &str,
    ) -> Result<ContainerId> {
        let id = self.start(pod, args).await?;
        let status = self.runtime.containers.container_status(&id).await?;
        self.harness.await_output(&status.log_path, text).await?;
        Ok(id)
    }

    /// Kills a process without a call to the runtime.
    pub(super) async fn kill(&self, id: ObjectId) -> Result<()> {
        ensure!(self.harness.kill(&id).await, Impossible("kill processes from outside"));
        Ok(())
    }

    /// The status of a container once it has exited.
    pub(super) async fn exited(&self, id: &ContainerId) -> Result<ContainerStatus> {
        let deadline = Instant::now() + SOON;
        loop {
            let status = self.runtime.containers.container_status(id).await?;
            if status.state == ContainerState::Exited {
                return Ok(status);
            }
            ensure!(Instant::now() < deadline, "still {:?} after {SOON:?}", status.state);
            sleep(PAUSE).await;
        }
    }

    /// Waits until a sandbox is not ready, also in lists: a runtime may notice its end shortly after it has
    /// answered.
    pub(super) async fn not_ready(&self, id: &SandboxId) -> Result<()> {
        let deadline = Instant::now() + SOON;
        let filter = SandboxFilter {
            id: Some(id.clone()),
            state: Some(SandboxState::NotReady),
            pod_uid: None,
        };
        while self.runtime.sandboxes.list_pod_sandboxes(&filter).await?.is_empty() {
            ensure!(Instant::now() < deadline, "sandbox still ready after {SOON:?}");
            sleep(PAUSE).await;
        }
        let status = self.runtime.sandboxes.pod_sandbox_status(id).await?;
        ensure!(status.state == SandboxState::NotReady, "listed as not ready, but {status:?}");
        Ok(())
    }

    /// Stops the sandbox of a pod and waits until the status shows it.
    pub(super) async fn stop_sandbox(&self, pod: &Pod) -> Result<()> {
        self.runtime.sandboxes.stop_pod_sandbox(&pod.sandbox).await?;
        self.not_ready(&pod.sandbox).await
    }

    /// The containers of a pod.
    pub(super) async fn containers(&self, pod: &Pod) -> Result<Vec<Container>> {
        let filter = ContainerFilter {
            pod_uid: Some(pod.config.pod_uid.clone()),
            ..ContainerFilter::default()
        };
        Ok(self.runtime.containers.list_containers(&filter).await?)
    }
}

/// A well-formed id of no object.
pub(super) fn unknown_id<T: From<String>>() -> T {
    "f".repeat(64).into()
}

/// The error of a call that must fail.
pub(super) fn refused<T: Debug>(result: Result<T, RuntimeError>) -> Result<RuntimeError> {
    match result {
        Ok(answer) => bail!("expected an error, got {answer:?}"),
        Err(error) => Ok(error),
    }
}

/// The call must fail with `NotFound`.
pub(super) fn not_found<T: Debug>(result: Result<T, RuntimeError>) -> Result<()> {
    let error = refused(result)?;
    ensure!(error.is_not_found(), "expected NotFound, got {error}");
    Ok(())
}

/// The call must fail because the name is taken.
pub(super) fn reserved<T: Debug>(result: Result<T, RuntimeError>) -> Result<()> {
    let error = refused(result)?;
    let codes = [Code::FailedPrecondition, Code::AlreadyExists, Code::Unknown];
    ensure!(codes.contains(&error.code), "unexpected code of {error}");
    ensure!(error.is_name_taken(), "not an error about a taken name: {error}");
    Ok(())
}

/// The result of a removal that may find nothing: success and `NotFound` are both fine.
pub(super) fn done_or_gone(result: Result<(), RuntimeError>) -> Result<()> {
    match result {
        Err(error) if !error.is_not_found() => Err(error).context("expected success or NotFound"),
        Ok(()) | Err(_) => Ok(()),
    }
}
