//! Records the runtime's calls: events before and after them, and the times of the node's clock in responses.

use std::any::Any;
use std::path::Path;
use std::sync::Arc;

use futures_util::StreamExt as _;
use futures_util::stream::empty;
use model::ids::{ContainerId, SandboxId};
use model::intercept::{Args, ContainerCall, ImageCall, SandboxCall};
use model::observed::{Container, ContainerState, ContainerStatus, Sandbox, SandboxStatus};
use model::ports::runtime::{Code, ContainerEvents, ExecOutput, RuntimeError};
use model::verdict::{Subject, Verdict};
use model::wanted::{ContainerConfig, SandboxConfig};

use super::{FaultyRuntime, hints};
use crate::acting::Acting;
use crate::clock::Timed;
use crate::history::{ActionTarget, Event, Removed, ReservedName};
use crate::plan::KEPT;
use crate::removal::Removal;
use crate::wanted_images::{WantedImage, image_pull, image_removal};

/// The response of any call.
type Answer<'a> = Result<&'a mut dyn Any, Code>;

/// Guards that exist until the agent has the response or gives up.
#[derive(Debug, Default)]
pub(super) struct Guards {
    _acting: Option<Acting>,
    _removal: Option<Removal>,
    _wanted: Option<WantedImage>,
}

impl FaultyRuntime {
    /// Records a call before it begins.
    pub(super) fn before(&self, args: &Args<'_>) -> Guards {
        match args {
            Args::Sandbox(call) => self.before_sandbox_call(call),
            Args::Container(call) => self.before_container_call(call),
            Args::Image(call) => self.before_image_call(call),
            _ => Guards::default(),
        }
    }

    fn before_sandbox_call(&self, call: &SandboxCall<'_>) -> Guards {
        match call {
            SandboxCall::RunPodSandbox { config } => {
                self.requested(Event::CreationRequested(sandbox_name(config)));
                return self.acting(ActionTarget::Pod(config.pod_uid.clone()));
            }
            SandboxCall::StopPodSandbox { id } => {
                self.requested(Event::SandboxStopRequested((*id).clone()));
            }
            SandboxCall::RemovePodSandbox { verdict } => return self.removal(verdict),
            SandboxCall::UpdatePodSandboxResources { id, .. } => {
                self.requested(Event::SandboxResizeRequested((*id).clone()));
            }
            SandboxCall::ListPodSandbox { .. }
            | SandboxCall::PodSandboxStatus { .. }
            | SandboxCall::SandboxImage { .. } => {}
        }
        Guards::default()
    }

    fn before_container_call(&self, call: &ContainerCall<'_>) -> Guards {
        match call {
            ContainerCall::CreateContainer { config, sandbox_config, .. } => {
                let wanted = WantedImage::new(&self.outside, &config.image_ref);
                let logs = Path::new(&sandbox_config.log_directory).join(&*config.name);
                let highest = self.outside.highest_log(&logs);
                self.requested(Event::LogsLeft(logs, highest));
                self.requested(Event::CreationRequested(container_name(config, sandbox_config)));
                let acting = self.acting(ActionTarget::Pod(sandbox_config.pod_uid.clone()));
                return Guards { _wanted: Some(wanted), ..acting };
            }
            ContainerCall::StartContainer { id } => {
                self.requested(Event::StartRequested((*id).clone()));
                return self.acting(ActionTarget::Container((*id).clone()));
            }
            ContainerCall::StopContainer { id, grace } => {
                self.requested(Event::StopRequested((*id).clone(), *grace));
                return self.acting(ActionTarget::Container((*id).clone()));
            }
            ContainerCall::UpdateContainerResources { id, .. } => {
                self.requested(Event::ResizeRequested((*id).clone()));
            }
            ContainerCall::ExecSync { id, command, .. } => {
                self.requested(Event::ExecRequested((*id).clone(), command.to_vec()));
                return self.acting(ActionTarget::Container((*id).clone()));
            }
            ContainerCall::RemoveContainer { verdict } => return self.removal(verdict),
            ContainerCall::ListContainers { .. }
            | ContainerCall::ListContainerStats {}
            | ContainerCall::ContainerStatus { .. }
            | ContainerCall::ReopenContainerLog { .. } => {}
        }
        Guards::default()
    }

    fn before_image_call(&self, call: &ImageCall<'_>) -> Guards {
        match call {
            ImageCall::PullImage { image, .. } => {
                let wanted = WantedImage::new(&self.outside, image);
                let acting = self.acting(ActionTarget::Any);
                self.requested(Event::PullRequested(image_pull(&self.outside, image)));
                Guards { _wanted: Some(wanted), ..acting }
            }
            ImageCall::RemoveImage { verdict } => self.removal(verdict),
            _ => Guards::default(),
        }
    }

    /// Records the response of a call.
    pub(super) fn after<T: Any>(&self, args: &Args<'_>, answer: &mut Result<T, RuntimeError>) {
        let answer: Answer<'_> = match answer {
            Ok(answer) => Ok(answer),
            Err(error) => Err(error.code),
        };
        match args {
            Args::Sandbox(SandboxCall::RunPodSandbox { config }) => {
                let made = Event::CreationAnswered(sandbox_name(config), id::<SandboxId>(&answer));
                self.outside.record(made);
            }
            Args::Sandbox(SandboxCall::StopPodSandbox { id }) => {
                self.stopped(id.as_str(), &answer);
                if answer.is_ok() {
                    self.outside.record(Event::SandboxStopped((*id).clone()));
                }
            }
            Args::Container(ContainerCall::CreateContainer { config, sandbox_config, .. }) => {
                let reserved = container_name(config, sandbox_config);
                self.outside.record(Event::CreationAnswered(reserved, id::<ContainerId>(&answer)));
            }
            Args::Container(ContainerCall::StartContainer { id }) if answer.is_ok() => {
                self.outside.record(Event::Started((*id).clone()));
            }
            // An agent that cannot read that a container has ended tries to stop it again.
            Args::Container(
                ContainerCall::StopContainer { id, .. } | ContainerCall::ContainerStatus { id },
            ) => self.stopped(id.as_str(), &answer),
            Args::Container(ContainerCall::ExecSync { id, command, .. }) => {
                let output = answer.as_ref().ok().and_then(|one| one.downcast_ref::<ExecOutput>());
                let code = output.map(|output| output.exit_code);
                let ended = Event::ExecEnded((*id).clone(), command.to_vec(), code);
                self.outside.record(ended);
            }
            _ => {}
        }
        if let Ok(answer) = answer {
            self.show(answer);
        }
    }

    /// Sets the times in a response to those of the node's clock, and records what the agent is about to
    /// observe.
    fn show(&self, answer: &mut dyn Any) {
        let clock = &self.outside.clock;
        if let Some(sandboxes) = answer.downcast_mut::<Vec<Sandbox>>() {
            sandboxes.show_by(clock);
        } else if let Some(status) = answer.downcast_mut::<SandboxStatus>() {
            status.show_by(clock);
        } else if let Some(containers) = answer.downcast_mut::<Vec<Container>>() {
            containers.show_by(clock);
        } else if let Some(status) = answer.downcast_mut::<ContainerStatus>() {
            let runs = matches!(status.state, ContainerState::Running | ContainerState::Unknown);
            self.outside.record(Event::ContainerObserved(status.id.clone(), runs));
            status.show_by(clock);
        } else if let Some(events) = answer.downcast_mut::<ContainerEvents>() {
            let stream = std::mem::replace(events, empty().boxed());
            *events = hints::faulty(stream, Arc::clone(&self.outside));
        }
    }

    /// Records a request of a living agent, after all earlier changes.
    fn requested(&self, event: Event) {
        if !self.life.over.is_cancelled() {
            self.outside.observe();
            self.outside.record(event);
        }
    }

    fn acting(&self, acted: ActionTarget) -> Guards {
        Guards { _acting: Some(Acting::new(&self.outside, acted)), ..Guards::default() }
    }

    /// Records a removal, and the current state of its object.
    fn removal(&self, verdict: &Verdict) -> Guards {
        let requested = match &verdict.subject {
            Subject::Container(id) => {
                Event::RemovalRequested(Removed::Container(id.clone()), verdict.rule)
            }
            Subject::Sandbox(id) => {
                Event::RemovalRequested(Removed::Sandbox(id.clone()), verdict.rule)
            }
            Subject::Image(id) => {
                Event::ImageRemovalRequested(image_removal(&self.outside, id, KEPT))
            }
            _ => unreachable!("an object of the runtime"),
        };
        self.requested(requested);
        let removal = Removal::new(&self.outside, &self.life, verdict);
        Guards { _removal: Some(removal), ..Guards::default() }
    }

    /// Records that the agent does not know whether an object was stopped.
    fn stopped(&self, id: &str, answer: &Answer<'_>) {
        if answer.as_ref().is_err_and(|code| *code != Code::NotFound) {
            self.outside.record(Event::StopFailed(id.to_owned()));
        }
    }
}

/// The id in the response of a call that creates an object.
fn id<I: Any + ToString>(answer: &Answer<'_>) -> Result<String, Code> {
    let answer = answer.as_ref().map_err(|code| *code)?;
    Ok(answer.downcast_ref::<I>().expect("an id").to_string())
}

fn sandbox_name(config: &SandboxConfig) -> ReservedName {
    ReservedName { uid: config.pod_uid.clone(), name: None, attempt: config.attempt }
}

fn container_name(config: &ContainerConfig, sandbox: &SandboxConfig) -> ReservedName {
    let name = Some(Arc::clone(&config.name));
    ReservedName { uid: sandbox.pod_uid.clone(), name, attempt: config.attempt }
}
