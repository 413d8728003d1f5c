//! The description of a runtime call in traces, faults and errors.

use std::sync::Arc;
use std::time::Duration;

use model::ids::PodUid;
use model::intercept::{Args, Call, ContainerCall, ImageCall, InfoCall, SandboxCall};
use model::ports::runtime::{Code, RuntimeError};
use model::verdict::{Subject, Verdict};
use testkit::runtime::Method;

use crate::history::Event;
use crate::outside::Outside;

/// The deadline of a call, as in the real adapter.
const DEADLINE: Duration = Duration::from_mins(2);
/// Like `DEADLINE`, for a pull; the real adapter has an hour.
const PULL_DEADLINE: Duration = Duration::from_mins(6);
/// Like `PULL_DEADLINE`, for a command without a timeout.
pub(super) const COMMAND_DEADLINE: Duration = Duration::from_hours(25_000);

/// A call.
#[derive(Debug)]
pub(super) struct Request {
    pub(super) method: Method,
    /// Its text.
    pub(super) object: String,
    pub(super) deadline: Duration,
}

/// A failed read, while the agent waits for it.
pub(super) struct ReadFault(Arc<Outside>);

impl ReadFault {
    pub(super) fn new(outside: &Arc<Outside>) -> Self {
        outside.record(Event::ReadFaultBegan);
        Self(Arc::clone(outside))
    }
}

impl Drop for ReadFault {
    fn drop(&mut self) {
        self.0.record(Event::ReadFaultEnded);
    }
}

impl Request {
    pub(super) fn new(call: &Call<'_>, outside: &Outside) -> Self {
        let method = match call.args {
            Args::Sandbox(SandboxCall::SandboxImage { .. }) => Some(Method::PodSandboxStatus),
            Args::Image(ImageCall::ListImageUses { .. }) => Some(Method::ListContainers),
            Args::Image(ImageCall::ImageLabels { .. }) => Some(Method::ImageStatus),
            _ => Method::named(call.method),
        };
        let method = method.expect("other methods have the names of the CRI");
        let object = match call.args {
            Args::Sandbox(call) => sandbox(call, outside),
            Args::Container(call) => container(call, outside),
            Args::Image(call) => image(call),
            Args::Info(InfoCall::UpdateRuntimeConfig { pod_cidrs }) => pod_cidrs.to_owned(),
            _ => String::new(),
        };
        Self { method, object, deadline: deadline(&call.args) }
    }

    pub(super) fn error(&self, code: Code, message: &str) -> RuntimeError {
        RuntimeError {
            method: self.method.name(),
            object: self.object.clone(),
            code,
            message: message.to_owned(),
        }
    }
}

fn deadline(args: &Args<'_>) -> Duration {
    match args {
        Args::Image(ImageCall::PullImage { .. }) => PULL_DEADLINE,
        Args::Sandbox(SandboxCall::RunPodSandbox { .. } | SandboxCall::StopPodSandbox { .. }) => {
            DEADLINE * 2
        }
        Args::Container(ContainerCall::StopContainer { grace, .. }) => DEADLINE + *grace,
        Args::Container(ContainerCall::ExecSync { timeout, .. }) => {
            timeout.map_or(COMMAND_DEADLINE, |timeout| DEADLINE + timeout)
        }
        _ => DEADLINE,
    }
}

fn sandbox(call: SandboxCall<'_>, outside: &Outside) -> String {
    match call {
        SandboxCall::RunPodSandbox { config } => {
            format!("{}#{}", outside.short(config.pod_uid.as_str()), config.attempt)
        }
        SandboxCall::RemovePodSandbox { verdict } => outside.short(&subject(verdict)),
        SandboxCall::ListPodSandbox { filter } => pod(filter.pod_uid.as_ref(), outside),
        SandboxCall::StopPodSandbox { id }
        | SandboxCall::PodSandboxStatus { id }
        | SandboxCall::SandboxImage { id }
        | SandboxCall::UpdatePodSandboxResources { id, .. } => outside.short(id.as_str()),
    }
}

fn container(call: ContainerCall<'_>, outside: &Outside) -> String {
    match call {
        ContainerCall::CreateContainer { sandbox, config, .. } => {
            format!("{}#{} in {}", config.name, config.attempt, outside.short(sandbox.as_str()))
        }
        ContainerCall::StopContainer { id, grace } => {
            format!("{} within {grace:?}", outside.short(id.as_str()))
        }
        ContainerCall::ExecSync { id, command, .. } => {
            format!("{} {}", outside.short(id.as_str()), command.join(" "))
        }
        ContainerCall::RemoveContainer { verdict } => outside.short(&subject(verdict)),
        ContainerCall::ListContainers { filter } => pod(filter.pod_uid.as_ref(), outside),
        ContainerCall::ListContainerStats {} => String::new(),
        ContainerCall::StartContainer { id }
        | ContainerCall::ContainerStatus { id }
        | ContainerCall::ReopenContainerLog { id }
        | ContainerCall::UpdateContainerResources { id, .. } => outside.short(id.as_str()),
    }
}

fn image(call: ImageCall<'_>) -> String {
    match call {
        ImageCall::ImageStatus { image }
        | ImageCall::ImageLabels { image }
        | ImageCall::PullImage { image, .. } => image.to_owned(),
        ImageCall::RemoveImage { verdict } => subject(verdict),
        ImageCall::ListImages {} | ImageCall::ListImageUses { .. } | ImageCall::ImageFsInfo {} => {
            String::new()
        }
    }
}

fn pod(uid: Option<&PodUid>, outside: &Outside) -> String {
    uid.map(|uid| outside.short(uid.as_str())).unwrap_or_default()
}

fn subject(verdict: &Verdict) -> String {
    match &verdict.subject {
        Subject::Container(id) => id.to_string(),
        Subject::Sandbox(id) => id.to_string(),
        other => other.to_string(),
    }
}
