//! Errors of a pod sync.

use jiff::Timestamp;
use model::cgroup::CgroupNameError;
use model::chain::{Chain, aggregate};
use model::go_duration::milliseconds;
use model::ids::{ContainerId, PodUid, SandboxId};
use model::ports::files::FileError;
use model::ports::image_access::CredentialsError;
use model::ports::objects::ObjectError;
use model::ports::runtime::RuntimeError;
use podspec::image_name::ImageNameError;

use crate::cgroups::PodCgroupError;
use crate::decide::pull_messages::{self, PullFailure, pull_failure};
use crate::decide::{ConfigError, PullError, ResolvConfError, go_text, kill_messages};
use crate::hooks::HookFailure;
use crate::user_namespaces::UserNamespaceError;

/// Why a container did not start; the message is shown with the waiting reason.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// It failed before and is in back-off.
    #[error("back-off {} restarting failed container={container} pod={pod}", milliseconds(*delay))]
    BackOff {
        /// The container.
        container: String,
        /// Its pod in upstream's format: `NAME_NAMESPACE(UID)`.
        pod: String,
        /// The whole delay.
        delay: std::time::Duration,
        /// The time of the next attempt.
        until: Timestamp,
    },
    /// The pull of its image failed before and is in back-off.
    #[error("back-off pulling image {image:?}")]
    ImagePullBackOff {
        /// The image.
        image: String,
        /// The time of the next attempt.
        until: Timestamp,
        /// The cause.
        last: PullFailure,
    },
    /// The pod is terminating before the container could start.
    #[error("the pod ends")]
    PodEnds,
    /// The image name is invalid. The text is upstream's.
    #[error("Failed to apply default image tag {image:?}: couldn't parse image name {image:?}")]
    InvalidImageName {
        /// The image.
        image: String,
        /// The cause.
        #[source]
        source: ImageNameError,
    },
    /// The image cannot be inspected.
    #[error("inspect image {image:?}")]
    ImageInspect {
        /// The image.
        image: String,
        /// The cause.
        #[source]
        source: RuntimeError,
    },
    /// The image is not present and must not be pulled.
    #[error("container image {image:?} is not present with pull policy of Never")]
    ImageNeverPull {
        /// The image.
        image: String,
    },
    /// The image was not pulled.
    #[error("pull image {image:?}")]
    ImagePull {
        /// The image.
        image: String,
        /// The cause.
        #[source]
        source: PullError,
    },
    /// It cannot be decided whether the pod may use the image, or its credentials cannot be read.
    #[error("look up the credentials for image {image:?}")]
    ImageAccess {
        /// The image.
        image: String,
        /// The cause.
        #[source]
        source: CredentialsError,
    },
    /// The intent of the pull could not be recorded, so it did not begin.
    #[error("record the intent to pull image {image:?}")]
    PullIntent {
        /// The image.
        image: String,
        /// The cause.
        #[source]
        source: FileError,
    },
    /// The pod spec cannot be converted to a container. The text is upstream's.
    #[error(transparent)]
    Config(ConfigError),
    /// The user of the image cannot be determined.
    #[error("inspect image {image:?} for its user")]
    ImageUser {
        /// The image.
        image: String,
        /// The cause.
        #[source]
        source: RuntimeError,
    },
    /// Files for the container cannot be created.
    #[error("create the container's files")]
    Files(#[source] FileError),
    /// Its target container does not exist.
    #[error("unable to find target container {container}")]
    NoTarget {
        /// That container.
        container: String,
    },
    /// The directory for its logs cannot be created. The text is upstream's.
    #[error("create container log directory for container {container} failed")]
    LogDirectory {
        /// The container.
        container: String,
        /// The cause.
        #[source]
        source: FileError,
    },
    /// Its logs cannot be counted for the restart count.
    #[error("count the logs of container {container}")]
    Logs {
        /// The container.
        container: String,
        /// The cause.
        #[source]
        source: FileError,
    },
    /// An instance that never started cannot be removed.
    #[error("remove the container that was never started")]
    RemoveUnused(#[source] RemoveUnused),
    /// The runtime did not create it.
    #[error("create the container")]
    Create(#[source] RuntimeError),
    /// The runtime did not start it.
    #[error("start the container")]
    Run {
        /// The container.
        container: String,
        /// The ID of the instance.
        id: ContainerId,
        /// The cause.
        #[source]
        source: RuntimeError,
    },
    /// Its postStart hook failed, so it was killed.
    #[error("run the postStart hook")]
    PostStart {
        /// Upstream's text.
        message: String,
        /// The cause.
        #[source]
        source: HookFailure,
    },
}

/// The beginning of the runtime's message when it cannot mount an image.
const IMAGE_VOLUME_FAILED: &str = "ImageVolumeMountFailed";

impl StartError {
    /// Whether the runtime could not mount an image as a volume.
    pub(crate) fn is_image_volume(&self) -> bool {
        matches!(self, Self::Create(source) if source.message.starts_with(IMAGE_VOLUME_FAILED))
    }

    /// The waiting reason, like upstream.
    pub fn label(&self) -> &'static str {
        match self {
            Self::BackOff { .. } => "CrashLoopBackOff",
            Self::ImagePullBackOff { .. } => "ImagePullBackOff",
            Self::InvalidImageName { .. } => "InvalidImageName",
            Self::ImageInspect { .. } => "ImageInspectError",
            Self::ImageNeverPull { .. } => "ErrImageNeverPull",
            // Never shown: the pod is terminating.
            Self::PodEnds => "ContainerCreating",
            Self::ImagePull { image, source } => pull_failure(image, source).reason,
            // Upstream has the text of the error as the reason.
            Self::ImageAccess { .. } | Self::PullIntent { .. } => "ErrImagePull",
            Self::Config(_)
            | Self::ImageUser { .. }
            | Self::Files(_)
            | Self::NoTarget { .. }
            | Self::LogDirectory { .. }
            | Self::Logs { .. } => "CreateContainerConfigError",
            Self::RemoveUnused(_) | Self::Create(_) => "CreateContainerError",
            Self::Run { .. } => "RunContainerError",
            Self::PostStart { .. } => "PostStartHookError",
        }
    }

    /// The message for the event. It has no IDs of instances, so that the same failure of the
    /// next instance is the same event.
    pub fn event_message(&self) -> String {
        match self {
            Self::Config(_)
            | Self::Files(_)
            | Self::NoTarget { .. }
            | Self::LogDirectory { .. }
            | Self::Logs { .. } => self.full_text(),
            Self::ImageUser { source, .. } | Self::Create(source) => source.message.clone(),
            Self::Run { container, id, source } => source.message.replace(id.as_str(), container),
            _ => self.label().to_owned(),
        }
    }

    /// The message for the waiting state: the runtime's text if it refused, and upstream's texts about
    /// images.
    pub fn message(&self) -> String {
        match self {
            Self::ImageUser { source, .. } | Self::Create(source) | Self::Run { source, .. } => {
                source.message.clone()
            }
            Self::PostStart { message, .. } => message.clone(),
            Self::ImagePull { image, source } => pull_failure(image, source).message,
            Self::ImageAccess { source, .. } => source.to_string(),
            Self::PullIntent { image, source } => pull_messages::not_recorded(image, source),
            Self::ImagePullBackOff { image, last, .. } => last.while_waiting(image),
            Self::ImageInspect { source, .. } => pull_messages::uninspected(source),
            Self::ImageNeverPull { image } => pull_messages::never(image),
            _ => self.full_text(),
        }
    }

    /// The full message; for file errors in upstream's format.
    fn full_text(&self) -> String {
        match self {
            Self::Files(source) => go_text::file_error(source),
            Self::LogDirectory { source, .. } => {
                format!("{self}: {}", go_text::file_error(source))
            }
            _ => Chain(self).to_string(),
        }
    }

    /// Whether it is not a failure of the container: the pod is terminating, or the container runs after
    /// all.
    pub(crate) fn is_pod_ending_or_started(&self) -> bool {
        matches!(self, Self::PodEnds | Self::RemoveUnused(RemoveUnused::Started))
    }

    /// The time of the next attempt, if known.
    pub fn retry_at(&self) -> Option<Timestamp> {
        match self {
            Self::BackOff { until, .. } | Self::ImagePullBackOff { until, .. } => Some(*until),
            _ => None,
        }
    }
}

/// Why the configuration of a sandbox cannot be made.
#[derive(Debug, thiserror::Error)]
pub enum SandboxConfigError {
    /// The pod spec is invalid.
    #[error(transparent)]
    Config(ConfigError),
    /// The node's `resolv.conf` cannot be read.
    #[error("read the node's resolv.conf")]
    ResolvConf(#[source] FileError),
    /// The node's `resolv.conf` is invalid.
    #[error("encountered error while parsing resolv conf file")]
    ResolvConfContent(#[source] ResolvConfError),
    /// Its runtime class is unknown.
    #[error(transparent)]
    RuntimeClass(ObjectError),
    /// There are no user IDs for it.
    #[error(transparent)]
    UserNamespace(UserNamespaceError),
    /// Its UID is not a valid cgroup name.
    #[error(transparent)]
    Cgroup(CgroupNameError),
}

impl SandboxConfigError {
    /// The message for the event: upstream's text.
    pub(crate) fn event_message(&self) -> String {
        match self {
            Self::ResolvConf(error) => go_text::file_error(error),
            Self::ResolvConfContent(error) => {
                format!("Encountered error while parsing resolv conf file. Error: {error}")
            }
            Self::UserNamespace(UserNamespaceError::Write(error)) => {
                format!("create user namespace: {}", go_text::file_error(error))
            }
            _ => Chain(self).to_string(),
        }
    }
}

/// Why the resources of a terminated pod are not released.
#[derive(Debug, thiserror::Error)]
pub enum ReleaseError {
    /// Its cgroup cannot be removed.
    #[error(transparent)]
    Cgroup(PodCgroupError),
    /// Its user IDs cannot be released.
    #[error(transparent)]
    UserNamespace(UserNamespaceError),
}

/// Why a pod is not converged after a sync.
#[derive(Debug, thiserror::Error)]
pub enum SyncError {
    /// A container could not be stopped.
    #[error("kill container {name}")]
    KillContainer {
        /// Its name.
        name: String,
        /// The cause.
        #[source]
        source: RuntimeError,
    },
    /// A container could not be removed.
    #[error("remove container {name}")]
    RemoveContainer {
        /// Its name.
        name: String,
        /// The cause.
        #[source]
        source: RuntimeError,
    },
    /// A sandbox could not be stopped.
    #[error("stop sandbox {id}")]
    StopSandbox {
        /// Its id.
        id: String,
        /// The cause.
        #[source]
        source: RuntimeError,
    },
    /// Several containers or sandboxes could not be stopped.
    #[error("{}", several(.0))]
    KillPod(Vec<SyncError>),
    /// The pod has no cgroup.
    #[error("ensure the pod's cgroup")]
    Cgroup(#[source] PodCgroupError),
    /// The pod's log directory cannot be created.
    #[error("create the pod's log directory")]
    LogDirectory(#[source] FileError),
    /// The pod's directory cannot be created.
    #[error("create the pod's directory")]
    PodDirectory(#[source] FileError),
    /// The configuration of the sandbox cannot be made.
    #[error("prepare the sandbox's configuration")]
    SandboxConfig(#[source] SandboxConfigError),
    /// The new sandbox cannot be inspected.
    #[error("get the status of the new sandbox")]
    SandboxStatus(#[source] RuntimeError),
    /// The runtime did not create a sandbox.
    #[error("create pod sandbox")]
    CreateSandbox(#[source] RuntimeError),
    /// It does not have the allocated resources.
    #[error("resize the pod in place")]
    Resize(#[source] ResizeError),
    /// Containers did not start.
    #[error("{} container(s) did not start: {}", .0.len(), names(.0))]
    StartContainers(Vec<(String, StartError)>),
}

/// Why a pod does not have the allocated resources.
#[derive(Debug, thiserror::Error)]
pub enum ResizeError {
    /// It uses more memory than the new limit.
    #[error("cannot decrease memory limits: {0}")]
    BelowUsage(String),
    /// Its cgroup could not be changed.
    #[error(transparent)]
    Cgroup(PodCgroupError),
    /// The runtime refuses the resources of the sandbox.
    #[error("update the resources of the sandbox; resize rejected")]
    Sandbox {
        /// The sandbox.
        id: SandboxId,
        /// What changes: `memory` or `cpu`.
        resource: &'static str,
        /// The cause.
        #[source]
        source: RuntimeError,
    },
    /// The pending change could not be recorded.
    #[error("record pending container resizes")]
    Record(#[source] FileError),
    /// The runtime did not update a container.
    #[error("update the resources of container {name}")]
    Container {
        /// Its name.
        name: String,
        /// The cause.
        #[source]
        source: RuntimeError,
    },
}

impl ResizeError {
    /// The message for the event and the pod's status; upstream's format for errors of the runtime.
    pub fn event_message(&self) -> String {
        match self {
            Self::Sandbox { id, resource, source } => format!(
                "failed to notify runtime for UpdatePodSandboxResources (resource={resource}); \
                 resize rejected: updatePodSandboxResources failed for sanboxID {:?}: {}",
                id.as_str(),
                source.rpc_text()
            ),
            Self::Container { source, .. } => source.rpc_text(),
            _ => Chain(self).to_string(),
        }
    }
}

/// Why a container that never started is kept.
#[derive(Debug, thiserror::Error)]
pub enum RemoveUnused {
    /// A cancelled call has started it after all.
    #[error("it has been started since")]
    Started,
    /// The runtime failed to report its state, or to remove it.
    #[error(transparent)]
    Runtime(#[from] RuntimeError),
}

/// Why an old instance is not removed.
#[derive(Debug, thiserror::Error)]
pub enum RemoveError {
    /// Its log, or the link to the log.
    #[error("remove the log of a container")]
    File(#[source] FileError),
    /// The container itself.
    #[error("remove a container")]
    Container(#[source] RuntimeError),
    /// A container that never started.
    #[error("remove a container that was never started")]
    Unused(#[from] RemoveUnused),
}

fn names(failed: &[(String, StartError)]) -> String {
    let each: Vec<String> =
        failed.iter().map(|(name, error)| format!("{name} ({})", error.label())).collect();
    each.join(", ")
}

fn several(failed: &[SyncError]) -> String {
    let each: Vec<String> = failed.iter().map(|error| Chain(error).to_string()).collect();
    each.join("; ")
}

impl SyncError {
    /// The message of the event about a pod that could not be killed.
    pub fn kill_event_message(&self, pod: &PodUid) -> String {
        let failed = match self {
            Self::KillPod(failed) => failed.as_slice(),
            one => std::slice::from_ref(one),
        };
        let containers = failed.iter().filter_map(|error| match error {
            Self::KillContainer { name, source } => Some(kill_messages::container(name, source)),
            _ => None,
        });
        // Of several sandboxes only the last one is reported.
        let sandbox = failed.iter().rev().find_map(|error| match error {
            Self::StopSandbox { source, .. } => Some(kill_messages::sandbox(pod, source)),
            _ => None,
        });
        aggregate(containers.chain(sandbox)).unwrap_or_else(|| Chain(self).to_string())
    }

    /// The earliest time of the next attempt, if all failures are in back-off.
    pub fn retry_at(&self) -> Option<Timestamp> {
        let Self::StartContainers(failed) = self else { return None };
        let times: Option<Vec<Timestamp>> =
            failed.iter().map(|(_, error)| error.retry_at()).collect();
        times?.into_iter().min()
    }
}
