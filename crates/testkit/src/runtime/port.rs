//! The port: calls are recorded, apply their fault, and take effect.

use std::future::{Future, pending};
use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use futures_util::StreamExt;
use jiff::Timestamp;
use model::ids::{ContainerId, SandboxId};
use model::observed::{Container, ContainerState, ContainerStatus, Sandbox, SandboxStatus};
use model::ports::runtime::{
    Code, ContainerEvents, ContainerFilter, ContainerService, ExecOutput, ImageFilesystem,
    RuntimeError, RuntimeFeatures, RuntimeInfo, RuntimeStatus, RuntimeVersion, SandboxFilter,
    SandboxService, WritableLayer,
};
use model::verdict::{Subject, Verdict};
use model::wanted::{ContainerConfig, LinuxResources, NamespaceMode, SandboxConfig};
use tokio::time::sleep;

use super::calls::{Call, Method};
use super::container::EXIT_KILLED;
use super::faults::Outcome;
use super::script::Script;
use super::store::{Name, NewContainer, Refusal, Store, sandbox_name};
use super::{Inner, MemoryRuntime};
use crate::clock::until;

impl MemoryRuntime {
    /// A call from its arrival to its response. The effect is a future that is not started yet.
    pub(super) async fn call<T>(
        &self,
        method: Method,
        object: String,
        effect: impl Future<Output = Result<T, Refusal>> + Send,
    ) -> Result<T, RuntimeError> {
        self.call_slower(method, object, effect, self.delay()).await
    }

    /// A call that creates an object, whose name it reserves until it takes effect. If the name is taken, it is
    /// refused at once, as other refusals.
    async fn make<T>(
        &self,
        method: Method,
        object: String,
        held: Result<ReservedName<'_>, Refusal>,
        effect: impl Future<Output = Result<T, Refusal>> + Send,
    ) -> Result<T, RuntimeError> {
        let slower_by = if held.is_ok() { self.delay() } else { Duration::ZERO };
        let effect = async move {
            let _held = held?;
            effect.await
        };
        self.call_slower(method, object, effect, slower_by).await
    }

    async fn call_slower<T>(
        &self,
        method: Method,
        object: String,
        effect: impl Future<Output = Result<T, Refusal>> + Send,
        slower_by: Duration,
    ) -> Result<T, RuntimeError> {
        let fault = {
            let at = self.clock.now();
            let mut inner = self.inner();
            let object = object.clone();
            let fault = inner.faults.take(method, &object);
            inner.calls.record(Call { method, object, at });
            fault
        };
        let injected = |code| Err(Refusal::new(code, "injected by a test"));
        let delay = fault.map_or(Duration::ZERO, |fault| fault.delay).saturating_add(slower_by);
        let result = match fault.map_or(Outcome::Works, |fault| fault.outcome) {
            Outcome::Works => {
                wait(delay).await;
                effect.await
            }
            Outcome::Fails(code) => {
                wait(delay).await;
                injected(code)
            }
            Outcome::Hangs => pending().await,
            Outcome::AnswersLate => {
                let answer = effect.await;
                wait(delay).await;
                answer
            }
            // The response of the effect is lost.
            Outcome::FailsAfterEffect(code) => {
                drop(effect.await);
                wait(delay).await;
                injected(code)
            }
            Outcome::HangsAfterEffect => {
                drop(effect.await);
                pending().await
            }
            Outcome::Panics => panic!("injected by a test"),
        };
        result.map_err(|refusal| RuntimeError {
            method: method.name(),
            object,
            code: refusal.code,
            message: refusal.message,
        })
    }

    /// An immediate effect.
    #[expect(clippy::unused_async, reason = "it happens when it is awaited, not when it is made")]
    pub(super) async fn at_once<T>(
        &self,
        effect: impl FnOnce(&mut Inner, Timestamp) -> Result<T, Refusal> + Send,
    ) -> Result<T, Refusal> {
        let now = self.clock.now();
        effect(&mut self.inner(), now)
    }

    /// Sends the stop signal to a container and waits for its exit; kills it after the grace period. If the
    /// caller is cancelled, it is signalled, but not killed.
    async fn stop(&self, id: &ContainerId, grace: Duration) -> Result<(), Refusal> {
        let begun = self.clock.now();
        let deadline = begun.checked_add(grace).unwrap_or(Timestamp::MAX);
        loop {
            let now = self.clock.now();
            let waiting = self.inner().store.change(id, now, |record| {
                match record.state() {
                    ContainerState::Created | ContainerState::Exited => return None,
                    ContainerState::Running if now < deadline => record.terminate(now),
                    ContainerState::Running | ContainerState::Unknown => {
                        record.kill(now, EXIT_KILLED);
                        return None;
                    }
                }
                let wake = record.ends_at().map_or(deadline, |end| end.min(deadline));
                // Created before the lock is released, so that no exit in between is missed.
                Some((Arc::clone(&record.ended).notified_owned(), until(now, wake)))
            });
            let Some((ended, patience)) = waiting.flatten() else {
                return Ok(());
            };
            tokio::select! {
                // Both lead to another check.
                biased;
                () = ended => {}
                () = sleep(patience) => {}
            }
        }
    }

    /// Runs a command in a container; it ends with the container. Its output is not produced.
    async fn run_command(
        &self,
        id: &ContainerId,
        command: &[String],
        timeout: Option<Duration>,
    ) -> Result<ExecOutput, Refusal> {
        let begun = self.clock.now();
        if self.inner().store.container(id, begun).is_none() {
            return Err(Refusal::not_found("container", id.as_str()));
        }
        let Script::Runs { end, .. } = Script::of(command) else {
            return Err(Refusal::new(Code::Unknown, "no such program in the image"));
        };
        let time = |after: Duration| begun.checked_add(after).unwrap_or(Timestamp::MAX);
        let (ends, code) = end.map_or((Timestamp::MAX, 0), |(after, code)| (time(after), code));
        let deadline = timeout.map_or(Timestamp::MAX, time);
        let mut has_begun = false;
        loop {
            let now = self.clock.now();
            let waiting = self.inner().store.change(id, now, |record| {
                let is_running = record.state() == ContainerState::Running;
                if (has_begun || is_running) && now >= ends {
                    return Ok(ControlFlow::Break(code));
                }
                if has_begun && now >= deadline {
                    return Err(Refusal::new(Code::DeadlineExceeded, "the command took too long"));
                }
                if has_begun && !is_running {
                    return Ok(ControlFlow::Break(EXIT_KILLED));
                }
                if !is_running {
                    let message = format!("container is {:?}, not Running", record.state());
                    return Err(Refusal::new(Code::Unknown, message));
                }
                let wake = [Some(ends), Some(deadline), record.ends_at()];
                let wake = wake.into_iter().flatten().min().unwrap_or(ends);
                let ended = Arc::clone(&record.ended).notified_owned();
                Ok(ControlFlow::Continue((ended, until(now, wake))))
            });
            has_begun = true;
            let waiting = waiting.ok_or_else(|| Refusal::not_found("container", id.as_str()))??;
            let (ended, patience) = match waiting {
                ControlFlow::Continue(waiting) => waiting,
                ControlFlow::Break(exit_code) => {
                    return Ok(ExecOutput { exit_code, ..ExecOutput::default() });
                }
            };
            tokio::select! {
                // Both lead to another check.
                biased;
                () = ended => {}
                () = sleep(patience) => {}
            }
        }
    }

    /// Reserves a name for a call.
    fn hold(
        &self,
        name: impl FnOnce(&Store) -> Result<Name, Refusal>,
    ) -> Result<ReservedName<'_>, Refusal> {
        let mut inner = self.inner();
        let name = name(&inner.store)?;
        inner.store.reserve(&name)?;
        Ok(ReservedName { runtime: self, name })
    }

    /// The image of a container and the script of its process.
    fn process(
        &self,
        inner: &Inner,
        config: &ContainerConfig,
    ) -> Result<(String, Script), Refusal> {
        let (image_id, image) = inner
            .images
            .resolve(&config.image_ref)
            .ok_or_else(|| Refusal::not_found("image", &config.image_ref))?;
        let command = image.command_line(&config.command, &config.args);
        if command.is_empty() {
            return Err(Refusal::new(Code::Unknown, "no command is given"));
        }
        let script = match (self.director)(config, &command) {
            Script::Missing => image.script_of_unknown(),
            script @ Script::Runs { .. } => script,
        };
        Ok((image_id.to_owned(), script))
    }
}

impl Inner {
    /// A list, if it fits into one response.
    pub(super) fn sendable<T>(&self, list: Vec<T>) -> Result<Vec<T>, Refusal> {
        if list.len() <= self.longest_list {
            return Ok(list);
        }
        Err(Refusal::new(Code::ResourceExhausted, "trying to send message larger than max"))
    }
}

/// A name that is reserved while its call is in progress: until it is done or cancelled.
struct ReservedName<'a> {
    runtime: &'a MemoryRuntime,
    name: Name,
}

impl Drop for ReservedName<'_> {
    fn drop(&mut self) {
        self.runtime.inner().store.release(&self.name);
    }
}

#[async_trait]
impl SandboxService for MemoryRuntime {
    async fn run_pod_sandbox(&self, config: &SandboxConfig) -> Result<SandboxId, RuntimeError> {
        let held = self.hold(|_| Ok(Name::Sandbox(sandbox_name(config))));
        let effect = self.at_once(|inner, now| {
            if !inner.network.ready && config.network != NamespaceMode::Node {
                return Err(Refusal::new(Code::Unknown, "the network of pods is not ready"));
            }
            Ok(inner.store.run_sandbox(config, now))
        });
        self.make(Method::RunPodSandbox, config.pod.to_string(), held, effect).await
    }

    async fn stop_pod_sandbox(&self, id: &SandboxId) -> Result<(), RuntimeError> {
        let effect = self.at_once(|inner, now| {
            inner.store.stop_sandbox(id, now);
            Ok(())
        });
        self.call(Method::StopPodSandbox, id.to_string(), effect).await
    }

    async fn remove_pod_sandbox(&self, verdict: &Verdict) -> Result<(), RuntimeError> {
        let effect = self.at_once(|inner, now| match &verdict.subject {
            Subject::Sandbox(id) => {
                inner.store.remove_sandbox(id, now);
                Ok(())
            }
            _ => Err(wrong_subject(verdict)),
        });
        self.call(Method::RemovePodSandbox, verdict.subject.id().into_owned(), effect).await
    }

    async fn list_pod_sandboxes(
        &self,
        filter: &SandboxFilter,
    ) -> Result<Vec<Sandbox>, RuntimeError> {
        let effect = self.at_once(|inner, _| inner.sendable(inner.store.sandboxes(filter)));
        let object =
            [filter_text(filter.pod_uid.as_ref()), filter_text(filter.id.as_ref())].concat();
        self.call(Method::ListPodSandbox, object, effect).await
    }

    async fn pod_sandbox_status(&self, id: &SandboxId) -> Result<SandboxStatus, RuntimeError> {
        let effect = self.at_once(|inner, _| inner.store.sandbox_status(id));
        self.call(Method::PodSandboxStatus, id.to_string(), effect).await
    }

    async fn update_pod_sandbox_resources(
        &self,
        id: &SandboxId,
        overhead: &LinuxResources,
        resources: &LinuxResources,
    ) -> Result<(), RuntimeError> {
        let effect = self.at_once(|inner, _| inner.store.limit_sandbox(id, overhead, resources));
        self.call(Method::UpdatePodSandboxResources, id.to_string(), effect).await
    }

    async fn sandbox_image(&self, id: &SandboxId) -> Result<Option<String>, RuntimeError> {
        let effect = self.at_once(|inner, _| {
            let known = inner.store.sandbox(id).map(|_| inner.sandbox_image.clone());
            known.ok_or_else(|| Refusal::not_found("sandbox", id.as_str()))
        });
        self.call(Method::PodSandboxStatus, id.to_string(), effect).await
    }
}

#[async_trait]
impl ContainerService for MemoryRuntime {
    async fn create_container(
        &self,
        sandbox: &SandboxId,
        config: &ContainerConfig,
        sandbox_config: &SandboxConfig,
    ) -> Result<ContainerId, RuntimeError> {
        let object = format!("{} of {}", config.name, sandbox_config.pod);
        // The runtime checks the sandbox and the name first, then the image.
        let held = self.hold(|store| store.admit_container(sandbox, config));
        let effect = self.at_once(|inner, now| {
            let (image_id, script) = self.process(inner, config)?;
            let new = NewContainer {
                sandbox: sandbox.clone(),
                config: config.clone(),
                log_directory: sandbox_config.log_directory.clone(),
                image_id,
                script,
            };
            inner.store.create_container(new, now)
        });
        self.make(Method::CreateContainer, object, held, effect).await
    }

    async fn start_container(&self, id: &ContainerId) -> Result<(), RuntimeError> {
        let effect = self.at_once(|inner, now| inner.store.start_container(id, now));
        self.call(Method::StartContainer, id.to_string(), effect).await
    }

    async fn stop_container(&self, id: &ContainerId, grace: Duration) -> Result<(), RuntimeError> {
        self.call(Method::StopContainer, id.to_string(), self.stop(id, grace)).await
    }

    async fn update_container_resources(
        &self,
        id: &ContainerId,
        resources: &LinuxResources,
    ) -> Result<(), RuntimeError> {
        let effect = self.at_once(|inner, now| {
            let limited = inner.store.change(id, now, |record| record.limit(resources));
            limited.ok_or_else(|| Refusal::not_found("container", id.as_str()))
        });
        self.call(Method::UpdateContainerResources, id.to_string(), effect).await
    }

    async fn remove_container(&self, verdict: &Verdict) -> Result<(), RuntimeError> {
        let effect = self.at_once(|inner, now| match &verdict.subject {
            Subject::Container(id) => {
                inner.store.remove_container(id, now);
                Ok(())
            }
            _ => Err(wrong_subject(verdict)),
        });
        self.call(Method::RemoveContainer, verdict.subject.id().into_owned(), effect).await
    }

    async fn list_writable_layers(&self) -> Result<Vec<WritableLayer>, RuntimeError> {
        let effect = self.at_once(|inner, now| {
            let filter = ContainerFilter {
                state: Some(ContainerState::Running),
                ..ContainerFilter::default()
            };
            let mount_point = inner.image_directories.first().cloned().unwrap_or_default();
            let layer = |container: Container| WritableLayer {
                container: container.id,
                usage: ImageFilesystem {
                    mount_point: mount_point.clone(),
                    used_bytes: 0,
                    inodes_used: Some(0),
                    measured_at: now,
                },
            };
            Ok(inner.store.containers(&filter, now).into_iter().map(layer).collect())
        });
        self.call(Method::ListContainerStats, String::new(), effect).await
    }

    async fn list_containers(
        &self,
        filter: &ContainerFilter,
    ) -> Result<Vec<Container>, RuntimeError> {
        let effect = self.at_once(|inner, now| {
            let listed = inner.store.containers(filter, now);
            inner.sendable(listed)
        });
        let object = [
            filter_text(filter.pod_uid.as_ref()),
            filter_text(filter.sandbox_id.as_ref()),
            filter_text(filter.id.as_ref()),
        ];
        self.call(Method::ListContainers, object.concat(), effect).await
    }

    async fn container_status(&self, id: &ContainerId) -> Result<ContainerStatus, RuntimeError> {
        let effect = self.at_once(|inner, now| {
            let Inner { store, images, .. } = inner;
            let record = store
                .container(id, now)
                .ok_or_else(|| Refusal::not_found("container", id.as_str()))?;
            let image = images.resolve(&record.image_id).map(|(_, image)| image);
            Ok(record.status(image))
        });
        self.call(Method::ContainerStatus, id.to_string(), effect).await
    }

    async fn reopen_container_log(&self, id: &ContainerId) -> Result<(), RuntimeError> {
        let effect = self.at_once(|inner, now| {
            let found = inner.store.container(id, now);
            let record = found.ok_or_else(|| Refusal::not_found("container", id.as_str()))?;
            if record.state() == ContainerState::Running {
                return Ok(());
            }
            Err(Refusal::new(Code::Unknown, "container is not running"))
        });
        self.call(Method::ReopenContainerLog, id.to_string(), effect).await
    }

    async fn exec_sync(
        &self,
        id: &ContainerId,
        command: &[String],
        timeout: Option<Duration>,
    ) -> Result<ExecOutput, RuntimeError> {
        let object = format!("{id} {}", command.join(" "));
        self.call(Method::ExecSync, object, self.run_command(id, command, timeout)).await
    }
}

#[async_trait]
impl RuntimeInfo for MemoryRuntime {
    async fn version(&self) -> Result<RuntimeVersion, RuntimeError> {
        let version = RuntimeVersion {
            name: "memory".into(),
            version: env!("CARGO_PKG_VERSION").into(),
            api_version: "v1".into(),
        };
        self.call(Method::Version, String::new(), async { Ok(version) }).await
    }

    async fn status(&self) -> Result<RuntimeStatus, RuntimeError> {
        let effect = self.at_once(|inner, _| {
            Ok(RuntimeStatus {
                runtime: Some(inner.runtime.clone()),
                network: Some(inner.network.clone()),
                handlers: inner.handlers.clone(),
                features: RuntimeFeatures {
                    supplemental_groups_policy: true,
                    user_namespaces_host_network: false,
                },
            })
        });
        self.call(Method::Status, String::new(), effect).await
    }

    async fn update_runtime_config(&self, pod_cidrs: &str) -> Result<(), RuntimeError> {
        self.call(Method::UpdateRuntimeConfig, pod_cidrs.to_owned(), async { Ok(()) }).await
    }

    async fn container_events(&self) -> Result<ContainerEvents, RuntimeError> {
        let method = Method::GetContainerEvents;
        let listening = self.call(method, String::new(), async { Ok(self.listen()) }).await?;
        let events = listening.map(move |event| match event {
            Ok(event) => Ok(event.event),
            Err(code) => Err(RuntimeError {
                method: method.name(),
                object: String::new(),
                code,
                message: "injected by a test".into(),
            }),
        });
        Ok(events.boxed())
    }
}

/// Even a zero-length timer yields to other tasks; no delay needs no timer.
pub(super) async fn wait(delay: Duration) {
    if !delay.is_zero() {
        sleep(delay).await;
    }
}

/// A value of a filter, as recorded calls have it.
pub(super) fn filter_text(id: Option<&impl ToString>) -> String {
    id.map(ToString::to_string).unwrap_or_default()
}

pub(super) fn wrong_subject(verdict: &Verdict) -> Refusal {
    Refusal::new(Code::InvalidArgument, format!("the verdict is about {}", verdict.subject))
}
