//! Creates, reuses and removes the sandboxes of pods, after any outcome of earlier attempts.

mod config;

use std::net::IpAddr;
use std::path::Path;
use std::sync::Arc;

use k8s_openapi::api::core::v1::Pod;
use model::ids::{PodUid, SandboxId};
use model::lists;
use model::log_layout::LogLayout;
use model::observed::RuntimePodStatus;
use model::ports::addresses::HostIps;
use model::ports::clock::WallClock;
use model::ports::events::EventType::Warning;
use model::ports::events::{Events, NodeEvents};
use model::ports::files::HostFiles;
use model::ports::objects::RuntimeHandlers;
use model::ports::runtime::{Runtime, RuntimeError, SandboxFilter};
use model::verdict::{Detail, Owner, Subject, Verdict};
use model::wanted::SandboxConfig;
use podspec::view;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

use crate::cgroups::PodCgroups;
use crate::decide::{NodeSettings, TakenSandbox, go_text, taken_sandbox};
use crate::error::{SandboxConfigError, SyncError};
use crate::layout::create_log_directory;
use crate::metrics::Metrics;
use crate::report::Reporter;
use crate::user_namespaces::UserNamespaces;

pub(crate) use config::has_user_namespace;

/// How many names are tried before the pod waits for its next sync.
pub(crate) const MOST_NAMES: usize = 16;

/// The sandbox in which containers are started.
#[derive(Debug)]
pub(crate) struct SandboxContext {
    pub(crate) id: SandboxId,
    pub(crate) config: SandboxConfig,
    /// The pod's IPs.
    pub(crate) ips: Vec<IpAddr>,
    /// Whether the runtime supports recursive read-only mounts. Looked up only if the pod needs them.
    pub(crate) recursive_read_only: bool,
}

/// Creates, reuses and removes the sandboxes of pods.
#[derive(Debug)]
pub(crate) struct Sandboxes {
    pub(crate) runtime: Runtime,
    pub(crate) files: Arc<dyn HostFiles>,
    pub(crate) logs: LogLayout,
    pub(crate) node: Arc<NodeSettings>,
    pub(crate) host_ips: Arc<dyn HostIps>,
    /// The handlers of runtime classes; `None` without an API server.
    pub(crate) classes: Option<Arc<dyn RuntimeHandlers>>,
    pub(crate) user_namespaces: UserNamespaces,
    /// The pods' cgroups, which are the parents of the sandboxes' cgroups.
    pub(crate) cgroups: Option<Arc<PodCgroups>>,
    pub(crate) events: Arc<dyn Events>,
    pub(crate) node_events: Arc<dyn NodeEvents>,
    pub(crate) clock: Arc<dyn WallClock>,
    pub(crate) metrics: Metrics,
}

impl Sandboxes {
    /// The sandbox that runs already.
    pub(crate) async fn reuse(
        &self,
        pod: &Pod,
        status: &RuntimePodStatus,
        id: SandboxId,
    ) -> Result<SandboxContext, SyncError> {
        let attempt = status.sandboxes.first().map_or(0, |sandbox| sandbox.attempt);
        // Its runtime handler was fixed at its creation, even if its class changes.
        let config = self.config(pod, attempt, String::new()).await;
        let config = config.map_err(SyncError::SandboxConfig)?;
        let of_node = view::host_network(pod).then(|| self.host_ips.host_ips());
        let ips = of_node.unwrap_or_else(|| status.ips.clone());
        let recursive_read_only = self.recursive_read_only(pod).await;
        Ok(SandboxContext { id, config, ips, recursive_read_only })
    }

    /// A new sandbox.
    pub(crate) async fn create(
        &self,
        pod: &Pod,
        attempt: u32,
        cancel: &CancellationToken,
    ) -> Result<SandboxContext, SyncError> {
        self.metrics.pod_starts();
        if has_user_namespace(pod) {
            self.metrics.attempts.pod_with_own_users_starts();
        }
        let made = self.create_or_report(pod, attempt, cancel).await;
        // The pod may terminate meanwhile: then it is not a failure.
        if made.is_err() && !cancel.is_cancelled() {
            self.metrics.pod_did_not_start();
        }
        let (id, config) = made?;
        // The observed addresses are those of an earlier sandbox.
        let ips = self.addresses(pod, &id).await?;
        let recursive_read_only = self.recursive_read_only(pod).await;
        Ok(SandboxContext { id, config, ips, recursive_read_only })
    }

    /// The IPs of a pod whose sandbox was just created. A failed request is not a reason to fail:
    /// the next status of the pod has them.
    async fn addresses(&self, pod: &Pod, sandbox: &SandboxId) -> Result<Vec<IpAddr>, SyncError> {
        if view::host_network(pod) {
            return Ok(self.host_ips.host_ips());
        }
        match self.runtime.sandboxes.pod_sandbox_status(sandbox).await {
            Ok(status) => Ok(status.ips),
            Err(source) => {
                let message = format!("Unable to get pod sandbox status: {}", source.rpc_text());
                let reporter = Reporter::of_pod(&*self.events, pod);
                reporter.event(Warning, "FailedPodSandBoxStatus", message);
                Err(SyncError::SandboxStatus(source))
            }
        }
    }

    /// Creates a sandbox. One of an earlier attempt with the same name is used or removed. For a
    /// terminating pod an error is not a failure.
    async fn create_or_report(
        &self,
        pod: &Pod,
        attempt: u32,
        cancel: &CancellationToken,
    ) -> Result<(SandboxId, SandboxConfig), SyncError> {
        match self.make(pod, attempt).await {
            Ok((id, config)) => {
                let attempt = config.attempt;
                info!(pod = %config.pod, uid = %config.pod_uid, sandbox = %id, attempt, "Sandbox started");
                Ok((id, config))
            }
            Err(error) => {
                let why = match &error {
                    _ if cancel.is_cancelled() => None,
                    SyncError::LogDirectory(error) => Some(go_text::file_error(error)),
                    SyncError::CreateSandbox(source) => Some(source.rpc_text()),
                    SyncError::SandboxConfig(error) => Some(error.event_message()),
                    _ => None,
                };
                if let Some(why) = why {
                    let message = format!("Failed to create pod sandbox: {why}");
                    let reporter = Reporter::of_pod(&*self.events, pod);
                    reporter.event(Warning, "FailedCreatePodSandBox", message);
                }
                Err(error)
            }
        }
    }

    async fn make(
        &self,
        pod: &Pod,
        mut attempt: u32,
    ) -> Result<(SandboxId, SandboxConfig), SyncError> {
        let mut names = 0;
        loop {
            names += 1;
            let handler = self.runtime_handler(pod).await;
            let handler = handler.map_err(SandboxConfigError::RuntimeClass);
            let handler = handler.map_err(SyncError::SandboxConfig)?;
            let config = self.config(pod, attempt, handler).await;
            let config = config.map_err(SyncError::SandboxConfig)?;
            let logs = LogLayout::pod_directory_name(&config.pod, &config.pod_uid);
            let made = create_log_directory(&*self.files, &self.logs, Path::new(&logs)).await;
            made.map_err(SyncError::LogDirectory)?;
            let began = Instant::now();
            let ran = self.runtime.sandboxes.run_pod_sandbox(&config).await;
            let (handler, took) = (&config.runtime_handler, began.elapsed());
            self.metrics.attempts.sandbox_requested(handler, took, ran.is_err());
            let error = match ran {
                Ok(id) => return Ok((id, config)),
                Err(error) => error,
            };
            if !error.is_name_taken() || names == MOST_NAMES {
                return Err(SyncError::CreateSandbox(error));
            }
            let uid = &config.pod_uid;
            warn!(pod = %config.pod, %uid, %error, "Sandbox name is taken");
            let filter = SandboxFilter { pod_uid: Some(uid.clone()), ..SandboxFilter::default() };
            let listed = lists::sandboxes(&self.runtime, &filter).await;
            match taken_sandbox(&listed.map_err(SyncError::CreateSandbox)?, attempt) {
                TakenSandbox::Use(id) => return Ok((id, config)),
                TakenSandbox::Remove(id) => {
                    // If the removal fails, its name stays taken.
                    if self.remove(uid, &id, "name-taken").await.is_err() {
                        attempt += 1;
                    }
                }
                TakenSandbox::NextNumber => attempt += 1,
            }
        }
    }

    /// Removes a sandbox that the runtime created after its call was cancelled.
    pub(crate) async fn remove_late(&self, uid: &PodUid, id: &SandboxId) -> Result<(), SyncError> {
        let removed = self.remove(uid, id, "late-sandbox").await;
        removed.map_err(|source| SyncError::StopSandbox { id: id.to_string(), source })
    }

    async fn remove(
        &self,
        uid: &PodUid,
        id: &SandboxId,
        rule: &'static str,
    ) -> Result<(), RuntimeError> {
        let verdict = Verdict {
            subject: Subject::Sandbox(id.clone()),
            name: "".into(),
            owner: Some(Owner { uid: uid.clone(), pod: None }),
            rule,
            detail: Detail::default(),
            at: self.clock.now(),
        };
        let gone = |result: Result<(), RuntimeError>| match result {
            Err(error) if !error.is_not_found() => Err(error),
            _ => Ok(()),
        };
        gone(self.runtime.sandboxes.stop_pod_sandbox(id).await)?;
        gone(self.runtime.sandboxes.remove_pod_sandbox(&verdict).await)
    }
}
