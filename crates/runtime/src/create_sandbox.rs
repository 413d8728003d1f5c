//! Making a sandbox, whatever became of earlier attempts.

use std::path::Path;

use k8s_openapi::api::core::v1::Pod;
use model::ids::{PodUid, SandboxId};
use model::lists;
use model::ports::events::EventType::Warning;
use model::ports::files::FileError;
use model::ports::runtime::{RuntimeError, SandboxFilter};
use model::verdict::{Detail, Owner, Subject, Verdict};
use model::wanted::SandboxConfig;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

use crate::act::PodRuntime;
use crate::decide::{TakenSandbox, go_text, taken_sandbox};
use crate::error::{SandboxConfigError, SyncError};
use model::log_layout::LogLayout;

/// How many names are tried before the pod waits for its next turn.
pub(crate) const MOST_NAMES: usize = 16;

impl PodRuntime {
    /// Makes a sandbox. One that an earlier attempt left under the same name is used, or removed. Of a
    /// pod that is to end it is no failure if that does not work.
    pub(crate) async fn create_sandbox(
        &self,
        pod: &Pod,
        attempt: u32,
        cancel: &CancellationToken,
    ) -> Result<(SandboxId, SandboxConfig), SyncError> {
        match self.make_sandbox(pod, attempt).await {
            Ok((id, config)) => {
                let attempt = config.attempt;
                info!(pod = %config.pod, uid = %config.pod_uid, sandbox = %id, attempt, "sandbox runs");
                Ok((id, config))
            }
            Err(error) => {
                let why = match &error {
                    _ if cancel.is_cancelled() => None,
                    SyncError::LogDirectory(error) => Some(go_text::file_error(error)),
                    SyncError::CreateSandbox(source) => Some(source.rpc_text()),
                    SyncError::SandboxConfig(error) => Some(error.told()),
                    _ => None,
                };
                if let Some(why) = why {
                    let message = format!("Failed to create pod sandbox: {why}");
                    self.pod_reporter(pod).event(Warning, "FailedCreatePodSandBox", message);
                }
                Err(error)
            }
        }
    }

    async fn make_sandbox(
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
            let config = self.sandbox_config(pod, attempt, handler).await;
            let config = config.map_err(SyncError::SandboxConfig)?;
            let logs = LogLayout::pod_directory_name(&config.pod, &config.pod_uid);
            self.create_log_directory(Path::new(&logs)).await.map_err(SyncError::LogDirectory)?;
            let began = Instant::now();
            let ran = self.parts.runtime.sandboxes.run_pod_sandbox(&config).await;
            let (handler, took) = (&config.runtime_handler, began.elapsed());
            self.parts.metrics.attempts.asked_for_sandbox(handler, took, ran.is_err());
            let error = match ran {
                Ok(id) => return Ok((id, config)),
                Err(error) => error,
            };
            if !error.is_name_taken() || names == MOST_NAMES {
                return Err(SyncError::CreateSandbox(error));
            }
            let uid = &config.pod_uid;
            warn!(pod = %config.pod, %uid, %error, "the name of a sandbox is taken");
            let filter = SandboxFilter { pod_uid: Some(uid.clone()), ..SandboxFilter::default() };
            let listed = lists::sandboxes(&self.parts.runtime, &filter).await;
            match taken_sandbox(&listed.map_err(SyncError::CreateSandbox)?, attempt) {
                TakenSandbox::Use(id) => return Ok((id, config)),
                TakenSandbox::Remove(id) => {
                    // One that does not go keeps its name to itself.
                    if self.remove_sandbox(uid, &id, "name-taken").await.is_err() {
                        attempt += 1;
                    }
                }
                TakenSandbox::NextNumber => attempt += 1,
            }
        }
    }

    /// Removes a sandbox that the runtime finished after its call was given up.
    pub(crate) async fn remove_late_sandbox(
        &self,
        uid: &PodUid,
        id: &SandboxId,
    ) -> Result<(), SyncError> {
        let removed = self.remove_sandbox(uid, id, "late-sandbox").await;
        removed.map_err(|source| SyncError::StopSandbox { id: id.to_string(), source })
    }

    async fn remove_sandbox(
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
            at: self.parts.clock.now(),
        };
        let gone = |result: Result<(), RuntimeError>| match result {
            Err(error) if !error.is_not_found() => Err(error),
            _ => Ok(()),
        };
        gone(self.parts.runtime.sandboxes.stop_pod_sandbox(id).await)?;
        gone(self.parts.runtime.sandboxes.remove_pod_sandbox(&verdict).await)
    }

    pub(crate) async fn create_log_directory(&self, below: &Path) -> Result<(), FileError> {
        self.parts.files.create_directory(&self.parts.logs.pod_logs, below, 0o755).await
    }
}
