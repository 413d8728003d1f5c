//! The runtime as an agent reaches it: calls and hints go wrong, and the agent dies over them.

mod call;
mod hints;

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use futures_util::future::BoxFuture;
use model::ids::{ContainerId, SandboxId};
use model::observed::{Container, ContainerState, ContainerStatus, Sandbox, SandboxStatus};
use model::ports::runtime::{
    Code, ContainerEvents, ContainerFilter, ContainerService, ExecOutput, Image, ImageFilesystem,
    ImageService, ImageUse, Runtime, RuntimeError, RuntimeInfo, RuntimeStatus, RuntimeVersion,
    SandboxFilter, SandboxService,
};
use model::verdict::{Subject, Verdict};
use model::wanted::{ContainerConfig, LinuxResources, SandboxConfig};
use testkit::runtime::Method;
use tokio::time::{sleep, timeout};

use self::call::{COMMAND_DEADLINE, Call, DEADLINE, SpoiltLook};
use crate::acting::Acting;
use crate::clock::Timed;
use crate::history::{Acted, Event, Maker, Removed};
use crate::life::Life;
use crate::outside::{Asked, Outside, is_effect};
use crate::plan::{Fault, KEPT};
use crate::removal::Removal;
use crate::wanted_images::{WantedImage, image_pull, image_removal};

/// Longer than any history.
const NEVER: Duration = Duration::from_hours(250_000);

/// Something to do with the real runtime, which begins at once and has its effect so much later.
type Work<T> = Box<dyn FnOnce(Duration) -> BoxFuture<'static, Result<T, RuntimeError>> + Send>;

/// The runtime of one agent.
#[derive(Debug)]
pub(crate) struct FaultyRuntime {
    pub(crate) outside: Arc<Outside>,
    pub(crate) life: Arc<Life>,
}

impl FaultyRuntime {
    /// Something to do with the real runtime, which goes on even if nobody waits for it any more. What
    /// it changed is seen at once.
    fn work<T, F>(&self, call: impl FnOnce(Runtime) -> F + Send + 'static) -> Work<T>
    where
        F: Future<Output = Result<T, RuntimeError>> + Send + 'static,
    {
        let outside = Arc::clone(&self.outside);
        Box::new(move |later| {
            let work = call(Runtime::new(Arc::new(outside.runtime.slower(later))));
            Box::pin(async move {
                let answer = work.await;
                outside.observe();
                answer
            })
        })
    }

    /// Remembers what a living agent asks for, after all that happened before.
    fn asked(&self, event: Event) {
        if !self.life.over.is_cancelled() {
            self.outside.observe();
            self.outside.record(event);
        }
    }

    /// Remembers what is to be removed, and how it is at that moment.
    fn remove_asked(&self, verdict: &Verdict) {
        let removed = match &verdict.subject {
            Subject::Container(id) => Removed::Container(id.clone()),
            Subject::Sandbox(id) => Removed::Sandbox(id.clone()),
            _ => return,
        };
        self.asked(Event::RemoveAsked(removed, verdict.rule));
    }

    /// Remembers what the agent was told of something that it wanted to end, or to see ended.
    fn stop_told<T>(&self, id: &str, answer: &Result<T, RuntimeError>) {
        if answer.as_ref().is_err_and(|error| error.code != Code::NotFound) {
            self.outside.record(Event::StopFailed(id.to_owned()));
        }
    }

    /// Something to ask the real runtime.
    fn look<T, F>(&self, call: impl FnOnce(Runtime) -> F + Send + 'static) -> Work<T>
    where
        F: Future<Output = Result<T, RuntimeError>> + Send + 'static,
    {
        let outside = Arc::clone(&self.outside);
        Box::new(move |later| Box::pin(call(Runtime::new(Arc::new(outside.runtime.slower(later))))))
    }

    async fn call<T: Send + 'static>(&self, call: Call, work: Work<T>) -> Result<T, RuntimeError> {
        let what = format!("{} {}", call.method, call.object);
        self.life.call(&what, self.answer(&call, &what, work)).await
    }

    async fn answer<T: Send + 'static>(
        &self,
        call: &Call,
        what: &str,
        work: Work<T>,
    ) -> Result<T, RuntimeError> {
        let outside = &self.outside;
        let number = self.life.number;
        let is_effect = is_effect(call.method);
        if is_effect {
            outside.say(format!("agent {number}  {what}"));
        }
        let is_away = outside.away.is_up();
        let fault = if is_away { None } else { outside.fault(Asked::Call(call.method)) };
        let _trouble = fault.map(|fault| {
            outside.say(format!("FAULT    {fault} on {what}"));
            outside.trouble()
        });
        let _spoilt = (fault.is_some() && !is_effect).then(|| SpoiltLook::new(outside));
        let answer = tokio::select! {
            // A runtime that goes away takes its calls with it.
            biased;
            () = outside.away.up() => {
                Err(call.error(Code::Unavailable, "the runtime is away"))
            }
            answer = timeout(call.deadline, self.faulted(call, fault, work)) => {
                answer.unwrap_or_else(|_| Err(call.error(Code::DeadlineExceeded, "too slow")))
            }
        };
        match &answer {
            Err(error) => {
                let Code::NotFound = error.code else {
                    if !is_effect {
                        outside.record(Event::LookFailed);
                    }
                    let (code, message) = (error.code, &error.message);
                    outside.say(format!("  answer {what}: {code} {message}"));
                    return answer;
                };
                outside.say(format!("  answer {what}: not there"));
            }
            Ok(_) if is_effect || fault.is_some() => outside.say(format!("  answer {what}: ok")),
            Ok(_) => outside.note(what),
        }
        answer
    }

    async fn faulted<T: Send + 'static>(
        &self,
        call: &Call,
        fault: Option<Fault>,
        work: Work<T>,
    ) -> Result<T, RuntimeError> {
        let too_late = || Err(call.error(Code::DeadlineExceeded, "its time is up"));
        match fault {
            None => work(Duration::ZERO).await,
            Some(Fault::Error(code)) => Err(call.error(code, "something is wrong")),
            Some(Fault::Slow(time)) => work(time).await,
            Some(Fault::LateAnswer(time)) => {
                let answer = work(Duration::ZERO).await;
                sleep(time).await;
                answer
            }
            Some(Fault::LateSuccess) => {
                drop(work(Duration::ZERO).await);
                too_late()
            }
            Some(Fault::LateEffect(time)) => {
                self.later(time, call, work);
                too_late()
            }
            Some(Fault::Vanished) => {
                drop(work(Duration::ZERO).await);
                Err(call.error(Code::NotFound, "somebody was faster"))
            }
            Some(Fault::LostAnswer) => {
                drop(work(Duration::ZERO).await);
                self.silence(call).await
            }
            Some(
                Fault::Hang
                | Fault::Lost
                | Fault::Doubled
                | Fault::Overtaken(_)
                | Fault::Refused(_),
            ) => tokio::select! {
                biased;
                // It has begun, and goes no further as long as anybody waits for it.
                answer = work(NEVER) => answer,
                answer = self.silence(call) => answer,
            },
        }
    }

    /// No answer. A command may take for years, but somebody starts a runtime anew before that which
    /// does not answer.
    async fn silence<T>(&self, call: &Call) -> Result<T, RuntimeError> {
        if call.deadline < COMMAND_DEADLINE {
            return std::future::pending().await;
        }
        self.outside.calm.up().await;
        Err(call.error(Code::Unavailable, "the runtime was started anew"))
    }

    /// Does it later, whether or not the agent still lives; unless the runtime goes away before that,
    /// which takes along what has begun.
    fn later<T: Send + 'static>(&self, time: Duration, call: &Call, work: Work<T>) {
        let outside = Arc::clone(&self.outside);
        let what = format!("late     {} {}", call.method, call.object);
        let trouble = self.outside.trouble();
        let work = work(time);
        let mut late = self.outside.late.lock().unwrap_or_else(PoisonError::into_inner);
        late.spawn(async move {
            tokio::select! {
                biased;
                () = outside.away.up() => {}
                _ = work => outside.say(what),
            }
            drop(trouble);
        });
    }
}

fn subject(verdict: &Verdict) -> String {
    match &verdict.subject {
        Subject::Container(id) => id.to_string(),
        Subject::Sandbox(id) => id.to_string(),
        other => other.to_string(),
    }
}

#[async_trait]
impl SandboxService for FaultyRuntime {
    async fn run_pod_sandbox(&self, config: &SandboxConfig) -> Result<SandboxId, RuntimeError> {
        let maker = Maker { uid: config.pod_uid.clone(), name: None, attempt: config.attempt };
        self.asked(Event::MakeAsked(maker.clone()));
        let _acting = Acting::new(&self.outside, Acted::Pod(maker.uid.clone()));
        let pod = self.outside.short(config.pod_uid.as_str());
        let call = Call::new(Method::RunPodSandbox, format!("{pod}#{}", config.attempt));
        let config = config.clone();
        let work = self
            .work(move |runtime| async move { runtime.sandboxes.run_pod_sandbox(&config).await });
        let answer = self.call(call, work).await;
        let told = answer.as_ref().map(ToString::to_string).map_err(|error| error.code);
        self.outside.record(Event::Made(maker, told));
        answer
    }

    async fn stop_pod_sandbox(&self, id: &SandboxId) -> Result<(), RuntimeError> {
        self.asked(Event::StopSandboxAsked(id.clone()));
        let call = Call::new(Method::StopPodSandbox, self.outside.short(id.as_str()));
        let sandbox = id.clone();
        let work = self
            .work(move |runtime| async move { runtime.sandboxes.stop_pod_sandbox(&sandbox).await });
        let answer = self.call(call, work).await;
        self.stop_told(id.as_str(), &answer);
        if answer.is_ok() {
            self.outside.record(Event::SandboxStopped(id.clone()));
        }
        answer
    }

    async fn remove_pod_sandbox(&self, verdict: &Verdict) -> Result<(), RuntimeError> {
        self.remove_asked(verdict);
        let _removal = Removal::new(&self.outside, &self.life, verdict);
        let call = Call::new(Method::RemovePodSandbox, self.outside.short(&subject(verdict)));
        let verdict = verdict.clone();
        let work = self.work(move |runtime| async move {
            runtime.sandboxes.remove_pod_sandbox(&verdict).await
        });
        self.call(call, work).await
    }

    async fn list_pod_sandboxes(
        &self,
        filter: &SandboxFilter,
    ) -> Result<Vec<Sandbox>, RuntimeError> {
        let uid = filter.pod_uid.as_ref();
        let of = uid.map(|uid| self.outside.short(uid.as_str())).unwrap_or_default();
        let filter = filter.clone();
        let work =
            self.look(
                move |runtime| async move { runtime.sandboxes.list_pod_sandboxes(&filter).await },
            );
        let listed = self.call(Call::new(Method::ListPodSandbox, of), work).await?;
        Ok(listed.by(&self.outside.clock))
    }

    async fn pod_sandbox_status(&self, id: &SandboxId) -> Result<SandboxStatus, RuntimeError> {
        let call = Call::new(Method::PodSandboxStatus, self.outside.short(id.as_str()));
        let id = id.clone();
        let work = self
            .look(move |runtime| async move { runtime.sandboxes.pod_sandbox_status(&id).await });
        Ok(self.call(call, work).await?.by(&self.outside.clock))
    }

    async fn update_pod_sandbox_resources(
        &self,
        id: &SandboxId,
        overhead: &LinuxResources,
        resources: &LinuxResources,
    ) -> Result<(), RuntimeError> {
        self.asked(Event::SandboxResizeAsked(id.clone()));
        let call = Call::new(Method::UpdatePodSandboxResources, self.outside.short(id.as_str()));
        let (id, overhead, resources) = (id.clone(), overhead.clone(), resources.clone());
        let work = self.work(move |runtime| async move {
            runtime.sandboxes.update_pod_sandbox_resources(&id, &overhead, &resources).await
        });
        self.call(call, work).await
    }

    async fn sandbox_image(&self, id: &SandboxId) -> Result<Option<String>, RuntimeError> {
        let call = Call::new(Method::PodSandboxStatus, self.outside.short(id.as_str()));
        let id = id.clone();
        let work =
            self.look(move |runtime| async move { runtime.sandboxes.sandbox_image(&id).await });
        self.call(call, work).await
    }
}

#[async_trait]
impl ContainerService for FaultyRuntime {
    async fn create_container(
        &self,
        sandbox: &SandboxId,
        config: &ContainerConfig,
        sandbox_config: &SandboxConfig,
    ) -> Result<ContainerId, RuntimeError> {
        let _wanted = WantedImage::new(&self.outside, &config.image_ref);
        let name = Some(Arc::clone(&config.name));
        let uid = sandbox_config.pod_uid.clone();
        let maker = Maker { uid, name, attempt: config.attempt };
        let logs = Path::new(&sandbox_config.log_directory).join(&*config.name);
        let highest = self.outside.highest_log(&logs);
        self.asked(Event::LogsLeft(logs, highest));
        self.asked(Event::MakeAsked(maker.clone()));
        let _acting = Acting::new(&self.outside, Acted::Pod(maker.uid.clone()));
        let place = self.outside.short(sandbox.as_str());
        let object = format!("{}#{} in {place}", config.name, config.attempt);
        let call = Call::new(Method::CreateContainer, object);
        let all = (sandbox.clone(), config.clone(), sandbox_config.clone());
        let work = self.work(move |runtime| async move {
            let (sandbox, config, sandbox_config) = all;
            runtime.containers.create_container(&sandbox, &config, &sandbox_config).await
        });
        let answer = self.call(call, work).await;
        let told = answer.as_ref().map(ToString::to_string).map_err(|error| error.code);
        self.outside.record(Event::Made(maker, told));
        answer
    }

    async fn start_container(&self, id: &ContainerId) -> Result<(), RuntimeError> {
        self.asked(Event::StartAsked(id.clone()));
        let _acting = Acting::new(&self.outside, Acted::Container(id.clone()));
        let call = Call::new(Method::StartContainer, self.outside.short(id.as_str()));
        let started = id.clone();
        let work = self
            .work(move |runtime| async move { runtime.containers.start_container(&started).await });
        let answer = self.call(call, work).await;
        if answer.is_ok() {
            self.outside.record(Event::Started(id.clone()));
        }
        answer
    }

    async fn stop_container(&self, id: &ContainerId, grace: Duration) -> Result<(), RuntimeError> {
        self.asked(Event::StopAsked(id.clone(), grace));
        let _acting = Acting::new(&self.outside, Acted::Container(id.clone()));
        let object = format!("{} within {grace:?}", self.outside.short(id.as_str()));
        let mut call = Call::new(Method::StopContainer, object);
        call.deadline += grace;
        let container = id.clone();
        let work = self.work(move |runtime| async move {
            runtime.containers.stop_container(&container, grace).await
        });
        let answer = self.call(call, work).await;
        self.stop_told(id.as_str(), &answer);
        answer
    }

    async fn update_container_resources(
        &self,
        id: &ContainerId,
        resources: &LinuxResources,
    ) -> Result<(), RuntimeError> {
        self.asked(Event::ResizeAsked(id.clone()));
        let call = Call::new(Method::UpdateContainerResources, self.outside.short(id.as_str()));
        let (id, resources) = (id.clone(), resources.clone());
        let work = self.work(move |runtime| async move {
            runtime.containers.update_container_resources(&id, &resources).await
        });
        self.call(call, work).await
    }

    async fn exec_sync(
        &self,
        id: &ContainerId,
        command: &[String],
        timeout: Option<Duration>,
    ) -> Result<ExecOutput, RuntimeError> {
        let asked = (id.clone(), command.to_vec());
        self.asked(Event::CommandAsked(asked.0.clone(), asked.1.clone()));
        let _acting = Acting::new(&self.outside, Acted::Container(id.clone()));
        let object = format!("{} {}", self.outside.short(id.as_str()), command.join(" "));
        let mut call = Call::new(Method::ExecSync, object);
        call.deadline = timeout.map_or(COMMAND_DEADLINE, |timeout| DEADLINE + timeout);
        let (id, command) = asked.clone();
        let work = self.work(move |runtime| async move {
            runtime.containers.exec_sync(&id, &command, timeout).await
        });
        let answer = self.call(call, work).await;
        let code = answer.as_ref().ok().map(|output| output.exit_code);
        self.outside.record(Event::CommandEnded(asked.0, asked.1, code));
        answer
    }

    async fn remove_container(&self, verdict: &Verdict) -> Result<(), RuntimeError> {
        self.remove_asked(verdict);
        let _removal = Removal::new(&self.outside, &self.life, verdict);
        let call = Call::new(Method::RemoveContainer, self.outside.short(&subject(verdict)));
        let verdict = verdict.clone();
        let work =
            self.work(
                move |runtime| async move { runtime.containers.remove_container(&verdict).await },
            );
        self.call(call, work).await
    }

    async fn list_containers(
        &self,
        filter: &ContainerFilter,
    ) -> Result<Vec<Container>, RuntimeError> {
        let uid = filter.pod_uid.as_ref();
        let of = uid.map(|uid| self.outside.short(uid.as_str())).unwrap_or_default();
        let filter = filter.clone();
        let work = self
            .look(move |runtime| async move { runtime.containers.list_containers(&filter).await });
        let listed = self.call(Call::new(Method::ListContainers, of), work).await?;
        Ok(listed.by(&self.outside.clock))
    }

    async fn container_status(&self, id: &ContainerId) -> Result<ContainerStatus, RuntimeError> {
        let call = Call::new(Method::ContainerStatus, self.outside.short(id.as_str()));
        let looked = id.clone();
        let work = self
            .look(move |runtime| async move { runtime.containers.container_status(&looked).await });
        let answer = self.call(call, work).await;
        // Who cannot see that it has ended tries to end it again.
        self.stop_told(id.as_str(), &answer);
        let status = answer?;
        let runs = matches!(status.state, ContainerState::Running | ContainerState::Unknown);
        self.outside.record(Event::Told(id.clone(), runs));
        Ok(status.by(&self.outside.clock))
    }
}

#[async_trait]
impl ImageService for FaultyRuntime {
    async fn image_status(&self, image: &str) -> Result<Option<Image>, RuntimeError> {
        let call = Call::new(Method::ImageStatus, image);
        let image = image.to_owned();
        let work =
            self.look(move |runtime| async move { runtime.images.image_status(&image).await });
        self.call(call, work).await
    }

    async fn pull_image(
        &self,
        image: &str,
        sandbox: Option<&SandboxConfig>,
    ) -> Result<String, RuntimeError> {
        let _wanted = WantedImage::new(&self.outside, image);
        let _acting = Acting::new(&self.outside, Acted::Any);
        self.asked(Event::PullAsked(image_pull(&self.outside, image)));
        let call = Call::new(Method::PullImage, image);
        let (image, sandbox) = (image.to_owned(), sandbox.cloned());
        let work = self.work(move |runtime| async move {
            runtime.images.pull_image(&image, sandbox.as_ref()).await
        });
        self.call(call, work).await
    }

    async fn list_images(&self) -> Result<Vec<Image>, RuntimeError> {
        let work = self.look(move |runtime| async move { runtime.images.list_images().await });
        self.call(Call::new(Method::ListImages, ""), work).await
    }

    async fn remove_image(&self, verdict: &Verdict) -> Result<(), RuntimeError> {
        let call = Call::new(Method::RemoveImage, subject(verdict));
        let _removal = Removal::new(&self.outside, &self.life, verdict);
        if let Subject::Image(id) = &verdict.subject {
            self.asked(Event::ImageRemovalAsked(image_removal(&self.outside, id, KEPT)));
        }
        let verdict = verdict.clone();
        let work =
            self.work(move |runtime| async move { runtime.images.remove_image(&verdict).await });
        self.call(call, work).await
    }

    async fn list_image_uses(
        &self,
        filter: &ContainerFilter,
    ) -> Result<Vec<ImageUse>, RuntimeError> {
        let filter = filter.clone();
        let work =
            self.look(move |runtime| async move { runtime.images.list_image_uses(&filter).await });
        self.call(Call::new(Method::ListContainers, ""), work).await
    }

    async fn image_labels(&self, image: &str) -> Result<BTreeMap<String, String>, RuntimeError> {
        let call = Call::new(Method::ImageStatus, image);
        let image = image.to_owned();
        let work =
            self.look(move |runtime| async move { runtime.images.image_labels(&image).await });
        self.call(call, work).await
    }

    async fn image_fs_info(&self) -> Result<Vec<ImageFilesystem>, RuntimeError> {
        let work = self.look(move |runtime| async move { runtime.images.image_fs_info().await });
        self.call(Call::new(Method::ImageFsInfo, ""), work).await
    }
}

#[async_trait]
impl RuntimeInfo for FaultyRuntime {
    async fn version(&self) -> Result<RuntimeVersion, RuntimeError> {
        let work = self.look(move |runtime| async move { runtime.info.version().await });
        self.call(Call::new(Method::Version, ""), work).await
    }

    async fn status(&self) -> Result<RuntimeStatus, RuntimeError> {
        let work = self.look(move |runtime| async move { runtime.info.status().await });
        self.call(Call::new(Method::Status, ""), work).await
    }

    async fn update_runtime_config(&self, pod_cidrs: &str) -> Result<(), RuntimeError> {
        let call = Call::new(Method::UpdateRuntimeConfig, pod_cidrs);
        let told = pod_cidrs.to_owned();
        let work = self
            .work(move |runtime| async move { runtime.info.update_runtime_config(&told).await });
        self.call(call, work).await
    }

    async fn container_events(&self) -> Result<ContainerEvents, RuntimeError> {
        let work = self.look(move |runtime| async move { runtime.info.container_events().await });
        let events = self.call(Call::new(Method::GetContainerEvents, ""), work).await?;
        Ok(hints::faulty(events, Arc::clone(&self.outside)))
    }
}
