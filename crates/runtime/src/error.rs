//! What goes wrong while a pod is synced.

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

/// Why a container did not start; the message is what people see beside the waiting reason.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// It failed before and must wait.
    #[error("back-off {} restarting failed container={container} pod={pod}", milliseconds(*delay))]
    BackOff {
        /// The container.
        container: String,
        /// Its pod, as upstream writes it: `NAME_NAMESPACE(UID)`.
        pod: String,
        /// How long it waits in all.
        delay: std::time::Duration,
        /// When it may be tried again.
        until: Timestamp,
    },
    /// The image's pull failed before and must wait.
    #[error("back-off pulling image {image:?}")]
    ImagePullBackOff {
        /// The image.
        image: String,
        /// When it may be tried again.
        until: Timestamp,
        /// Why it failed.
        last: PullFailure,
    },
    /// The pod is to end before the container could start.
    #[error("the pod ends")]
    PodEnds,
    /// What is given as the image is no name of one. What is said is upstream's.
    #[error("Failed to apply default image tag {image:?}: couldn't parse image name {image:?}")]
    InvalidImageName {
        /// The image.
        image: String,
        /// Why.
        #[source]
        source: ImageNameError,
    },
    /// The image cannot be asked for.
    #[error("inspect image {image:?}")]
    ImageInspect {
        /// The image.
        image: String,
        /// Why.
        #[source]
        source: RuntimeError,
    },
    /// The image is not there and must not be fetched.
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
        /// Why.
        #[source]
        source: PullError,
    },
    /// It cannot be decided whether the pod may use the image, or its credentials cannot be read.
    #[error("look up the credentials for image {image:?}")]
    ImageAccess {
        /// The image.
        image: String,
        /// Why.
        #[source]
        source: CredentialsError,
    },
    /// It was not recorded that the pull is about to begin, so it did not.
    #[error("record the intent to pull image {image:?}")]
    PullIntent {
        /// The image.
        image: String,
        /// Why.
        #[source]
        source: FileError,
    },
    /// The pod's specification cannot be turned into a container. What is said is upstream's.
    #[error(transparent)]
    Config(ConfigError),
    /// Whom the image runs as cannot be asked for.
    #[error("inspect image {image:?} for its user")]
    ImageUser {
        /// The image.
        image: String,
        /// Why.
        #[source]
        source: RuntimeError,
    },
    /// Files for the container cannot be made.
    #[error("make the container's files")]
    Files(#[source] FileError),
    /// It looks into a container that does not exist.
    #[error("unable to find target container {container}")]
    NoTarget {
        /// That container.
        container: String,
    },
    /// The directory for its logs cannot be made. What is said is upstream's.
    #[error("create container log directory for container {container} failed")]
    LogDirectory {
        /// The container.
        container: String,
        /// Why.
        #[source]
        source: FileError,
    },
    /// Nobody can tell by its logs how often it was started.
    #[error("count the logs of container {container}")]
    Logs {
        /// The container.
        container: String,
        /// Why.
        #[source]
        source: FileError,
    },
    /// One that was made and never started stands in its way.
    #[error("remove the container that was never started")]
    RemoveUnused(#[source] RemoveUnused),
    /// The runtime did not make it.
    #[error("create the container")]
    Create(#[source] RuntimeError),
    /// The runtime did not start it.
    #[error("start the container")]
    Run {
        /// The container.
        container: String,
        /// Which instance of it.
        id: ContainerId,
        /// Why.
        #[source]
        source: RuntimeError,
    },
    /// What runs right after its start failed, so it was ended.
    #[error("run the postStart hook")]
    PostStart {
        /// In upstream's words.
        message: String,
        /// Why.
        #[source]
        source: HookFailure,
    },
}

/// How the runtime begins the message when it cannot mount an image.
const IMAGE_VOLUME_FAILED: &str = "ImageVolumeMountFailed";

impl StartError {
    /// Whether the runtime could not mount an image as a volume.
    pub(crate) fn is_image_volume(&self) -> bool {
        matches!(self, Self::Create(source) if source.message.starts_with(IMAGE_VOLUME_FAILED))
    }

    /// The waiting reason, in upstream's words.
    pub fn label(&self) -> &'static str {
        match self {
            Self::BackOff { .. } => "CrashLoopBackOff",
            Self::ImagePullBackOff { .. } => "ImagePullBackOff",
            Self::InvalidImageName { .. } => "InvalidImageName",
            Self::ImageInspect { .. } => "ImageInspectError",
            Self::ImageNeverPull { .. } => "ErrImageNeverPull",
            // Nobody sees it: the pod's own end is what is shown.
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

    /// What the event says that tells of it. Instances have no ids there: so the same failure of the
    /// next one is the same event.
    pub fn event_message(&self) -> String {
        match self {
            Self::Config(_)
            | Self::Files(_)
            | Self::NoTarget { .. }
            | Self::LogDirectory { .. }
            | Self::Logs { .. } => self.in_words(),
            Self::ImageUser { source, .. } | Self::Create(source) => source.message.clone(),
            Self::Run { container, id, source } => source.message.replace(id.as_str(), container),
            _ => self.label().to_owned(),
        }
    }

    /// What a container that waits says of it: where the runtime refused, its words and no others; of
    /// images, upstream's.
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
            _ => self.in_words(),
        }
    }

    /// The whole story; of files upstream's.
    fn in_words(&self) -> String {
        match self {
            Self::Files(source) => go_text::file_error(source),
            Self::LogDirectory { source, .. } => {
                format!("{self}: {}", go_text::file_error(source))
            }
            _ => Chain(self).to_string(),
        }
    }

    /// Whether nothing is wrong with the container: its pod ends, or it runs after all.
    pub(crate) fn is_pod_ending_or_started(&self) -> bool {
        matches!(self, Self::PodEnds | Self::RemoveUnused(RemoveUnused::Started))
    }

    /// When it makes sense to try again, if that is known.
    pub fn retry_at(&self) -> Option<Timestamp> {
        match self {
            Self::BackOff { until, .. } | Self::ImagePullBackOff { until, .. } => Some(*until),
            _ => None,
        }
    }
}

/// Why what a sandbox is to be cannot be told.
#[derive(Debug, thiserror::Error)]
pub enum SandboxConfigError {
    /// By the pod's specification.
    #[error(transparent)]
    Config(ConfigError),
    /// The node's resolver file cannot be read.
    #[error("look up the node's name servers")]
    ResolvConf(#[source] FileError),
    /// The node's resolver file makes no sense.
    #[error("encountered error while parsing resolv conf file")]
    ResolvConfContent(#[source] ResolvConfError),
    /// Its class is not known.
    #[error(transparent)]
    RuntimeClass(ObjectError),
    /// There are no user ids for it.
    #[error(transparent)]
    UserNamespace(UserNamespaceError),
    /// Its uid makes no name for a cgroup.
    #[error(transparent)]
    Cgroup(CgroupNameError),
}

impl SandboxConfigError {
    /// What people are told, in upstream's words.
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

/// Why the node still keeps something for a pod that has ended.
#[derive(Debug, thiserror::Error)]
pub enum ReleaseError {
    /// Its cgroup.
    #[error(transparent)]
    Cgroup(PodCgroupError),
    /// Its user ids.
    #[error(transparent)]
    UserNamespace(UserNamespaceError),
}

/// Why a pod is not as specified after a sync.
#[derive(Debug, thiserror::Error)]
pub enum SyncError {
    /// A container could not be stopped.
    #[error("kill container {name}")]
    KillContainer {
        /// Its name.
        name: String,
        /// Why.
        #[source]
        source: RuntimeError,
    },
    /// A container could not be removed.
    #[error("remove container {name}")]
    RemoveContainer {
        /// Its name.
        name: String,
        /// Why.
        #[source]
        source: RuntimeError,
    },
    /// A sandbox could not be stopped.
    #[error("stop sandbox {id}")]
    StopSandbox {
        /// Its id.
        id: String,
        /// Why.
        #[source]
        source: RuntimeError,
    },
    /// Several things of a pod could not be stopped.
    #[error("{}", several(.0))]
    KillPod(Vec<SyncError>),
    /// The pod has no cgroup.
    #[error("see to the pod's cgroup")]
    Cgroup(#[source] PodCgroupError),
    /// The pod's log directory cannot be made.
    #[error("make the pod's log directory")]
    LogDirectory(#[source] FileError),
    /// The pod's directory cannot be made.
    #[error("make the pod's directory")]
    PodDirectory(#[source] FileError),
    /// What the sandbox is to be cannot be told.
    #[error("make the sandbox's configuration")]
    SandboxConfig(#[source] SandboxConfigError),
    /// The sandbox that was just made cannot be looked at.
    #[error("look at the new sandbox")]
    SandboxStatus(#[source] RuntimeError),
    /// The runtime did not make a sandbox.
    #[error("create pod sandbox")]
    CreateSandbox(#[source] RuntimeError),
    /// It has not what it was given.
    #[error("resize the pod in place")]
    Resize(#[source] ResizeError),
    /// Containers did not start.
    #[error("{} container(s) did not start: {}", .0.len(), names(.0))]
    StartContainers(Vec<(String, StartError)>),
}

/// Why a pod has not the resources that it was given.
#[derive(Debug, thiserror::Error)]
pub enum ResizeError {
    /// It uses more memory than it would be let.
    #[error("cannot decrease memory limits: {0}")]
    BelowUsage(String),
    /// Its cgroup could not be changed.
    #[error(transparent)]
    Cgroup(PodCgroupError),
    /// The runtime refuses what all of it may use.
    #[error("update the resources of the sandbox; resize rejected")]
    Sandbox {
        /// Which sandbox.
        id: SandboxId,
        /// What changes: `memory` or `cpu`.
        resource: &'static str,
        /// Why.
        #[source]
        source: RuntimeError,
    },
    /// What is about to be done could not be put on record.
    #[error("keep a record of containers that change")]
    Record(#[source] FileError),
    /// The runtime did not change a container.
    #[error("update the resources of container {name}")]
    Container {
        /// Which.
        name: String,
        /// Why.
        #[source]
        source: RuntimeError,
    },
}

impl ResizeError {
    /// What the event and the pod's status say of it, in upstream's words where the runtime is to blame.
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

/// Why a container that was never started stays.
#[derive(Debug, thiserror::Error)]
pub enum RemoveUnused {
    /// It has been started after all, by a call that was given up.
    #[error("it has been started since")]
    Started,
    /// The runtime did not tell, or did not remove it.
    #[error(transparent)]
    Runtime(#[from] RuntimeError),
}

/// Why the remains of a container stay.
#[derive(Debug, thiserror::Error)]
pub enum RemoveError {
    /// Its log, or the link to that.
    #[error("remove the log of a container")]
    File(#[source] FileError),
    /// The container itself.
    #[error("remove a container")]
    Container(#[source] RuntimeError),
    /// A container that was never started.
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
    /// What the event says that tells of a pod that could not be killed.
    pub fn kill_event_message(&self, pod: &PodUid) -> String {
        let failed = match self {
            Self::KillPod(failed) => failed.as_slice(),
            one => std::slice::from_ref(one),
        };
        let containers = failed.iter().filter_map(|error| match error {
            Self::KillContainer { name, source } => Some(kill_messages::container(name, source)),
            _ => None,
        });
        // Of several sandboxes the last one is told.
        let sandbox = failed.iter().rev().find_map(|error| match error {
            Self::StopSandbox { source, .. } => Some(kill_messages::sandbox(pod, source)),
            _ => None,
        });
        aggregate(containers.chain(sandbox)).unwrap_or_else(|| Chain(self).to_string())
    }

    /// The earliest time at which trying again makes sense, when all that failed waits for one.
    pub fn retry_at(&self) -> Option<Timestamp> {
        let Self::StartContainers(failed) = self else { return None };
        let times: Option<Vec<Timestamp>> =
            failed.iter().map(|(_, error)| error.retry_at()).collect();
        times?.into_iter().min()
    }
}
