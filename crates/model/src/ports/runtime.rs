//! The container runtime.

use std::collections::BTreeMap;
use std::fmt::{self, Debug};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use futures_core::stream::BoxStream;
use jiff::Timestamp;

use crate::fingerprint::Fingerprint;
use crate::ids::{ContainerId, ObjectId, PodUid, SandboxId};
use crate::image_access::RegistryAuth;
use crate::observed::{
    Container, ContainerState, ContainerStatus, Sandbox, SandboxState, SandboxStatus,
};
use crate::verdict::Verdict;
use crate::wanted::{ContainerConfig, LinuxResources, SandboxConfig};

/// The gRPC status code of a failed call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[allow(missing_docs, reason = "gRPC defines these words")]
pub enum Code {
    Cancelled,
    Unknown,
    InvalidArgument,
    DeadlineExceeded,
    NotFound,
    AlreadyExists,
    PermissionDenied,
    ResourceExhausted,
    FailedPrecondition,
    Aborted,
    OutOfRange,
    Unimplemented,
    Internal,
    Unavailable,
    DataLoss,
    Unauthenticated,
}

impl fmt::Display for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        Debug::fmt(self, f)
    }
}

/// A failed call to the runtime.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{method} {object}: {code}: {message}")]
pub struct RuntimeError {
    /// The CRI method.
    pub method: &'static str,
    /// The object of the call: an ID, a pod, an image.
    pub object: String,
    /// The status code.
    pub code: Code,
    /// The runtime's message.
    pub message: String,
}

impl RuntimeError {
    /// The failure in the format of gRPC's Go library, as in upstream's events.
    pub fn rpc_text(&self) -> String {
        let code = match self.code {
            // Go's spelling.
            Code::Cancelled => "Canceled".to_owned(),
            other => other.to_string(),
        };
        format!("rpc error: code = {code} desc = {}", self.message)
    }

    /// Whether the object does not exist: for a removal that is a success.
    pub fn is_not_found(&self) -> bool {
        self.code == Code::NotFound
    }

    /// Whether the runtime is down: it has ended, or does not listen.
    pub fn is_unavailable(&self) -> bool {
        self.code == Code::Unavailable
    }

    /// Whether the runtime does not implement the method. containerd 2.2 reports it only in the message.
    pub fn is_unimplemented(&self) -> bool {
        let said = || self.message.contains("not implemented");
        self.code == Code::Unimplemented || self.code == Code::Unknown && said()
    }

    /// Whether the response is too large for the runtime or for us.
    pub fn is_too_large(&self) -> bool {
        matches!(self.code, Code::ResourceExhausted | Code::OutOfRange)
    }

    /// Whether the name of the new object is taken: by an existing object, or by
    /// an earlier call that the runtime has not finished.
    pub fn is_name_taken(&self) -> bool {
        self.code == Code::AlreadyExists || says_name_is_taken(&self.message)
    }

    /// Whether the call may have taken effect although it failed.
    pub fn may_have_happened(&self) -> bool {
        matches!(
            self.code,
            Code::DeadlineExceeded | Code::Unavailable | Code::Cancelled | Code::Unknown
        )
    }
}

/// The texts of runtimes for a taken name, directly after the name.
const TAKEN: [&str; 3] = [" is reserved", " is already in use", " already exists"];

/// Whether the message is about a taken name, and not about an address, a port, or another part of the pod's
/// network that is in use or exists already.
fn says_name_is_taken(message: &str) -> bool {
    let is_of_a_name = |before: &str| {
        let quoted = before.strip_suffix('"').and_then(|before| before.rsplit_once('"'));
        let before = quoted.map_or(before, |(before, _)| before);
        before.split_whitespace().next_back() == Some("name")
    };
    TAKEN
        .iter()
        .any(|words| message.match_indices(words).any(|(at, _)| is_of_a_name(&message[..at])))
}

/// Which sandboxes to list. An empty filter lists all.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SandboxFilter {
    /// Only this one.
    pub id: Option<SandboxId>,
    /// Only in this state.
    pub state: Option<SandboxState>,
    /// Only objects of this pod; an empty UID selects objects without a pod.
    pub pod_uid: Option<PodUid>,
}

/// Which containers to list. An empty filter lists all.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ContainerFilter {
    /// Only this one.
    pub id: Option<ContainerId>,
    /// Only in this state.
    pub state: Option<ContainerState>,
    /// Only in this sandbox.
    pub sandbox_id: Option<SandboxId>,
    /// Only objects of this pod; an empty UID selects objects without a pod.
    pub pod_uid: Option<PodUid>,
}

/// Name and version of the runtime.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RuntimeVersion {
    /// `containerd`, `cri-o`, …
    pub name: String,
    /// Its own version.
    pub version: String,
    /// The version of the CRI it speaks.
    pub api_version: String,
}

/// Whether a part of the runtime works.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RuntimeCondition {
    /// Whether it works.
    pub ready: bool,
    /// The reason, if not.
    pub reason: String,
    /// The message, if not.
    pub message: String,
}

/// Health of the runtime, as it reports itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RuntimeStatus {
    /// Whether containers can run; `None` if it does not report it, which counts as no.
    pub runtime: Option<RuntimeCondition>,
    /// Whether pods get a network; the same.
    pub network: Option<RuntimeCondition>,
    /// Its runtime handlers with their features; none if it does not report them.
    pub handlers: Vec<RuntimeHandler>,
    /// The features of all handlers.
    pub features: RuntimeFeatures,
}

impl RuntimeStatus {
    /// Why containers cannot run, in upstream's format.
    pub fn runtime_error(&self) -> Option<String> {
        let error = not_ready("RuntimeReady", self.runtime.as_ref())?;
        Some(format!("container runtime not ready: {error}"))
    }

    /// Why pods get no network, in upstream's format.
    pub fn network_error(&self) -> Option<String> {
        let error = not_ready("NetworkReady", self.network.as_ref())?;
        Some(format!("container runtime network not ready: {error}"))
    }
}

fn not_ready(kind: &str, condition: Option<&RuntimeCondition>) -> Option<String> {
    match condition {
        None => Some("<nil>".to_owned()),
        Some(RuntimeCondition { ready: true, .. }) => None,
        Some(RuntimeCondition { ready, reason, message }) => {
            Some(format!("{kind}={ready} reason:{reason} message:{message}"))
        }
    }
}

/// The features of a runtime.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct RuntimeFeatures {
    /// Whether it supports `supplementalGroupsPolicy`.
    pub supplemental_groups_policy: bool,
    /// Whether it supports user namespaces with the host network.
    pub user_namespaces_host_network: bool,
}

/// A runtime handler that a runtime class can name.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RuntimeHandler {
    /// Its name; empty for the default one.
    pub name: String,
    /// Whether it supports user namespaces.
    pub user_namespaces: bool,
    /// Whether it supports recursive read-only mounts.
    pub recursive_read_only_mounts: bool,
}

/// An image in the runtime.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Image {
    /// Its id: the digest of its configuration.
    pub id: String,
    /// Names with a tag.
    pub repo_tags: Vec<String>,
    /// Names with a digest.
    pub repo_digests: Vec<String>,
    /// Its size in bytes, including shared layers.
    pub size: u64,
    /// Whether it is pinned.
    pub pinned: bool,
    /// Its user, if it has one.
    pub user: Option<ImageUser>,
    /// The handler it was pulled for; empty for the default one.
    pub runtime_handler: String,
}

/// The image of a container. Listed for every container, also for those without a pod.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ImageUse {
    /// The container.
    pub container: ContainerId,
    /// Its pod, if any.
    pub pod_uid: Option<PodUid>,
    /// The image's ID, or its reference if the runtime does not report the ID.
    pub image_id: Arc<str>,
    /// The handler the image was pulled for; empty for the default one.
    pub runtime_handler: Arc<str>,
}

/// A file system of the runtime.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ImageFilesystem {
    /// A directory on it.
    pub mount_point: PathBuf,
    /// Bytes that images or writable layers use there. The runtime counts them from time to time.
    pub used_bytes: u64,
    /// Inodes that they use, if the runtime counts them.
    pub inodes_used: Option<u64>,
    /// When they were counted.
    pub measured_at: Timestamp,
}

/// The file systems of the runtime.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ImageFsInfo {
    /// Those with images, the one of the default snapshotter first.
    pub images: Vec<ImageFilesystem>,
    /// Those with writable layers, if the runtime reports them.
    pub containers: Vec<ImageFilesystem>,
}

/// The writable layer of a running container.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WritableLayer {
    /// The container.
    pub container: ContainerId,
    /// Its file system, and what the layer uses there.
    pub usage: ImageFilesystem,
}

/// The user of an image.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ImageUser {
    /// A UID.
    Uid(i64),
    /// A name that only the image itself knows.
    Name(String),
}

/// The result of a command in a container.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ExecOutput {
    /// Its standard output; runtimes keep a part, and the CRI client 64 KiB of that.
    pub stdout: Vec<u8>,
    /// Its standard error, with the same limits.
    pub stderr: Vec<u8>,
    /// Its exit code.
    pub exit_code: i32,
}

/// What happened to a container or a sandbox.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ContainerEventKind {
    /// It was created.
    Created,
    /// Its process started.
    Started,
    /// Its process ended.
    Stopped,
    /// It was removed.
    Deleted,
}

/// A hint that something happened in a pod, so that it is inspected now. The event has no state;
/// it may be late, duplicated or missing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ContainerEvent {
    /// The UID of the pod; empty if the runtime did not report it.
    pub pod_uid: PodUid,
    /// The container or sandbox it happened to.
    pub object: ObjectId,
    /// What happened.
    pub kind: ContainerEventKind,
}

/// A stream of events. It ends, with or without an error as the last item.
pub type ContainerEvents = BoxStream<'static, Result<ContainerEvent, RuntimeError>>;

/// All sandboxes and all containers.
pub type Lists = (Vec<Sandbox>, Vec<Container>);

/// The sandboxes of pods. Calls that end something are idempotent: stopping a stopped sandbox and removing
/// a missing one succeed, or return [`Code::NotFound`].
#[async_trait]
pub trait SandboxService: Debug + Send + Sync {
    /// Creates and starts a sandbox.
    async fn run_pod_sandbox(&self, config: &SandboxConfig) -> Result<SandboxId, RuntimeError>;
    /// Stops everything in a sandbox and releases its network.
    async fn stop_pod_sandbox(&self, id: &SandboxId) -> Result<(), RuntimeError>;
    /// Removes the sandbox that the verdict names.
    async fn remove_pod_sandbox(&self, verdict: &Verdict) -> Result<(), RuntimeError>;
    /// Lists sandboxes in one response; [`lists`](crate::lists) splits a list that is too large for one.
    async fn list_pod_sandboxes(
        &self,
        filter: &SandboxFilter,
    ) -> Result<Vec<Sandbox>, RuntimeError>;
    /// Details of one sandbox.
    async fn pod_sandbox_status(&self, id: &SandboxId) -> Result<SandboxStatus, RuntimeError>;
    /// Sets the resources of a whole sandbox, and the overhead in them that belongs to no container. Not all
    /// runtimes implement it.
    async fn update_pod_sandbox_resources(
        &self,
        id: &SandboxId,
        overhead: &LinuxResources,
        resources: &LinuxResources,
    ) -> Result<(), RuntimeError>;
    /// The image of a sandbox, where the runtime reports it.
    async fn sandbox_image(&self, id: &SandboxId) -> Result<Option<String>, RuntimeError>;
}

/// The containers of pods. Stopping and removing are idempotent, as for sandboxes.
#[async_trait]
pub trait ContainerService: Debug + Send + Sync {
    /// Creates a container in a sandbox.
    async fn create_container(
        &self,
        sandbox: &SandboxId,
        config: &ContainerConfig,
        sandbox_config: &SandboxConfig,
    ) -> Result<ContainerId, RuntimeError>;
    /// Starts a created container.
    async fn start_container(&self, id: &ContainerId) -> Result<(), RuntimeError>;
    /// Stops a container, and kills it after the grace period.
    async fn stop_container(&self, id: &ContainerId, grace: Duration) -> Result<(), RuntimeError>;
    /// Removes the container that the verdict names.
    async fn remove_container(&self, verdict: &Verdict) -> Result<(), RuntimeError>;
    /// Lists containers in one response, as for sandboxes.
    async fn list_containers(
        &self,
        filter: &ContainerFilter,
    ) -> Result<Vec<Container>, RuntimeError>;
    /// Details of one container.
    async fn container_status(&self, id: &ContainerId) -> Result<ContainerStatus, RuntimeError>;
    /// Changes the resources of a container; unset values stay.
    async fn update_container_resources(
        &self,
        id: &ContainerId,
        resources: &LinuxResources,
    ) -> Result<(), RuntimeError>;
    /// The writable layers of running containers. A container whose layer was not measured yet may be missing.
    async fn list_writable_layers(&self) -> Result<Vec<WritableLayer>, RuntimeError>;
    /// Makes the runtime open the log file of a running container again, after it was renamed.
    async fn reopen_container_log(&self, id: &ContainerId) -> Result<(), RuntimeError>;
    /// Runs a command in a running container and waits for its end. After `timeout` the runtime kills the
    /// command and returns [`Code::DeadlineExceeded`]; without a timeout there is no limit.
    async fn exec_sync(
        &self,
        id: &ContainerId,
        command: &[String],
        timeout: Option<Duration>,
    ) -> Result<ExecOutput, RuntimeError>;
}

/// The images on the node.
#[async_trait]
pub trait ImageService: Debug + Send + Sync {
    /// The image with a name, if the runtime has it.
    async fn image_status(&self, image: &str) -> Result<Option<Image>, RuntimeError>;
    /// Pulls an image and returns its reference. The runtime may store the image depending on the sandbox
    /// of the pod that it is pulled for. Without `auth` the pull is anonymous, unless the
    /// runtime has its own credentials.
    async fn pull_image(
        &self,
        image: &str,
        sandbox: Option<&SandboxConfig>,
        auth: Option<&RegistryAuth>,
    ) -> Result<String, RuntimeError>;
    /// Lists images.
    async fn list_images(&self) -> Result<Vec<Image>, RuntimeError>;
    /// Removes the image that the verdict names.
    async fn remove_image(&self, verdict: &Verdict) -> Result<(), RuntimeError>;
    /// The images of containers in any state.
    async fn list_image_uses(
        &self,
        filter: &ContainerFilter,
    ) -> Result<Vec<ImageUse>, RuntimeError>;
    /// The labels of an image; none where the runtime does not report them.
    async fn image_labels(&self, image: &str) -> Result<BTreeMap<String, String>, RuntimeError>;
    /// The file systems with images and with writable layers.
    async fn image_fs_info(&self) -> Result<ImageFsInfo, RuntimeError>;
}

/// The runtime as a whole.
#[async_trait]
pub trait RuntimeInfo: Debug + Send + Sync {
    /// Its name and version.
    async fn version(&self) -> Result<RuntimeVersion, RuntimeError>;
    /// Its health and features.
    async fn status(&self) -> Result<RuntimeStatus, RuntimeError>;
    /// Sets the addresses of the node's pods: CIDRs, separated by commas.
    async fn update_runtime_config(&self, pod_cidrs: &str) -> Result<(), RuntimeError>;
    /// Lists all sandboxes and containers, or returns `None` if they equal `known`. An optional optimization:
    /// [`lists::everything_unless_known`](crate::lists::everything_unless_known) calls it and lists in the
    /// usual way where it is [`Code::Unimplemented`] or one response is too large.
    async fn list_if_changed(&self, known: &Fingerprint) -> Result<Option<Lists>, RuntimeError> {
        let _ = known;
        Err(unimplemented("ListIfChanged", "no cheaper list"))
    }
    /// Opens a stream of events; events from before may come first. A runtime without events returns
    /// [`Code::Unimplemented`], here or as the first item of the stream.
    async fn container_events(&self) -> Result<ContainerEvents, RuntimeError> {
        Err(unimplemented("GetContainerEvents", "this runtime does not send events"))
    }
}

fn unimplemented(method: &'static str, message: &str) -> RuntimeError {
    RuntimeError {
        method,
        object: "of the runtime".to_owned(),
        code: Code::Unimplemented,
        message: message.to_owned(),
    }
}

/// The services of a CRI runtime. Clones share them.
#[derive(Debug, Clone)]
pub struct Runtime {
    /// Sandboxes.
    pub sandboxes: Arc<dyn SandboxService>,
    /// Containers.
    pub containers: Arc<dyn ContainerService>,
    /// Images.
    pub images: Arc<dyn ImageService>,
    /// The runtime as a whole.
    pub info: Arc<dyn RuntimeInfo>,
}

impl Runtime {
    /// The services of one runtime that implements all of them.
    pub fn new<R>(runtime: Arc<R>) -> Self
    where
        R: SandboxService + ContainerService + ImageService + RuntimeInfo + 'static,
    {
        Self {
            sandboxes: Arc::clone(&runtime) as _,
            containers: Arc::clone(&runtime) as _,
            images: Arc::clone(&runtime) as _,
            info: runtime,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn name_is_taken_when_the_runtime_reports_a_taken_name() {
        let name = "web_default_uid_0";
        let taken = [
            // containerd
            format!(
                "failed to reserve sandbox name \"{name}\": name \"{name}\" is reserved for \"5e1f\""
            ),
            format!(
                "failed to reserve container name \"main_{name}\"; check if another CreateContainer \
                 request is in progress: name \"main_{name}\" is reserved for \"77ab\""
            ),
            // CRI-O
            format!("pod sandbox with name \"k8s_{name}\" already exists"),
            format!("error reserving pod name k8s_{name} for id 5e1f: name is reserved"),
            format!(
                "creating container storage: the container name \"k8s_{name}\" is already in use by 77ab. \
                 You have to remove that container to be able to reuse that name: that name is already in use"
            ),
            "that name is already in use".to_owned(),
        ];
        for message in taken {
            assert!(failed(Code::Unknown, &message).is_name_taken(), "{message}");
            assert!(failed(Code::FailedPrecondition, &message).is_name_taken(), "{message}");
        }
        assert!(failed(Code::AlreadyExists, "no words").is_name_taken());
    }

    #[test]
    fn address_or_port_in_use_is_not_a_taken_name() {
        let sandbox = "failed to setup network for sandbox \"5e1f\": plugin type=";
        let other = [
            format!(
                "{sandbox}\"portmap\" failed (add): listen tcp 0.0.0.0:80: bind: address already in use"
            ),
            format!("{sandbox}\"portmap\" failed (add): port 8080 is already allocated"),
            format!(
                "{sandbox}\"host-local\" failed (add): requested IP 10.88.0.2 is already in use"
            ),
            format!(
                "{sandbox}\"bridge\" failed (add): container veth name provided (eth0) already exists"
            ),
            format!("{sandbox}\"static\" failed (add): address \"10.88.0.2\" is already in use"),
            format!("{sandbox}\"macvlan\" failed (add): 10.0.0.0/8 is reserved for internal use"),
            format!("{sandbox}\"firewall\" failed (add): iptables: Chain already exists."),
            "key \"5e1f\" is reserved for \"web_default_uid_0\"".to_owned(),
            "the hostname \"web\" is already in use".to_owned(),
            "\" is reserved for \"".to_owned(),
            String::new(),
        ];
        for message in other {
            assert!(!failed(Code::Unknown, &message).is_name_taken(), "{message}");
        }
    }

    fn failed(code: Code, message: &str) -> RuntimeError {
        RuntimeError {
            method: "RunPodSandbox",
            object: "default/web".to_owned(),
            code,
            message: message.to_owned(),
        }
    }
}
