//! Ending what runs of a pod.

use std::time::Duration;

use futures_util::future::join_all;
use k8s_openapi::api::core::v1::Pod;
use model::ids::ContainerId;
use model::observed::PodStatus;
use model::ports::events::EventType::Normal;
use tracing::info;

use crate::act::PodRuntime;
use crate::decide::{ContainerKill, stop_grace};
use crate::error::SyncError;

impl PodRuntime {
    /// Ends everything of a pod that may run: its containers side by side, then its sandboxes, so
    /// that the network is there until the last process is gone. `grace` is what whoever kills the
    /// pod asks for; else the pod says.
    pub async fn kill(
        &self,
        pod: &Pod,
        status: &PodStatus,
        grace: Option<Duration>,
    ) -> Result<(), SyncError> {
        let grace = stop_grace(pod, grace);
        let stops = status.maybe_running().map(|container| {
            let message = format!("Stopping container {}", container.name);
            self.reporter(pod, &container.name).event(Normal, "Killing", message);
            self.stop(&container.id, &container.name, grace)
        });
        // As upstream, a container that could not be stopped does not spare the sandbox: stopping that
        // ends whatever is left in it. The first failure is told all the same, so that somebody looks.
        let mut failures: Vec<SyncError> =
            join_all(stops).await.into_iter().filter_map(Result::err).collect();
        for sandbox in &status.sandboxes {
            info!(uid = %status.uid, pod = %sandbox.pod, sandbox = %sandbox.id, "stopping sandbox");
            match self.parts.runtime.stop_pod_sandbox(&sandbox.id).await {
                Err(source) if !source.is_not_found() => {
                    failures.push(SyncError::StopSandbox { id: sandbox.id.to_string(), source });
                }
                _ => {}
            }
        }
        failures.into_iter().next().map_or(Ok(()), Err)
    }

    /// Ends one container, so that it can be started anew.
    pub(crate) async fn kill_container(
        &self,
        pod: &Pod,
        kill: &ContainerKill,
    ) -> Result<(), SyncError> {
        let message = format!("Container {} will be restarted: {}", kill.name, kill.why);
        self.reporter(pod, &kill.name).event(Normal, "Killing", message);
        self.stop(&kill.id, &kill.name, stop_grace(pod, None)).await
    }

    async fn stop(&self, id: &ContainerId, name: &str, grace: Duration) -> Result<(), SyncError> {
        match self.parts.runtime.stop_container(id, grace).await {
            Err(source) if !source.is_not_found() => {
                Err(SyncError::KillContainer { name: name.to_owned(), source })
            }
            _ => Ok(()),
        }
    }
}
