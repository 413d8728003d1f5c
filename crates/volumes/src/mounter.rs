//! Mounting a volume.

mod content;
mod empty_dir;
mod local;
mod ownership;

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::sync::Arc;

use async_trait::async_trait;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Pod;
use model::go_text;
use model::ids::PodUid;
use model::objects::{ServiceAccountToken, TokenRequest, TrustBundleRecord};
use model::pod_certificates::{CertificateSource, Credentials};
use model::ports::files::FileError;
use model::ports::volumes::{FileSystem, HostPathError};
use model::volume::{Ownership, VolumeId};
use podspec::resources::Amounts;
use podspec::view;

use crate::decide::resolve::{VolumeSource, VolumeSpec, check_node};
use crate::manager::ManagerParts;

/// The properties of the node for volumes.
pub trait NodeFacts: Debug + Send + Sync {
    /// Its allocatable resources.
    fn allocatable(&self) -> Amounts;

    /// Its labels, if known.
    fn labels(&self) -> BTreeMap<String, String>;
}

/// Tokens of service accounts, renewed in time.
#[async_trait]
pub trait PodTokens: Debug + Send + Sync {
    /// A token that is valid, or the text of the error.
    async fn token(&self, request: &TokenRequest) -> Result<Arc<ServiceAccountToken>, String>;

    /// When a token is due for renewal.
    fn refresh_at(&self, request: &TokenRequest) -> Option<Timestamp>;

    /// Drops the tokens of a pod.
    fn forget(&self, pod: &PodUid);
}

/// The trust bundles of the cluster.
#[async_trait]
pub trait ClusterTrustBundles: Debug + Send + Sync {
    /// All of them, or the text of the error.
    async fn all(&self) -> Result<Arc<[TrustBundleRecord]>, String>;
}

/// Certificates of pods, renewed in time.
#[async_trait]
pub trait PodCertificates: Debug + Send + Sync {
    /// A certificate, or the text of the error.
    async fn certificate(&self, source: &CertificateSource) -> Result<Credentials, String>;

    /// When a certificate is due for renewal.
    fn refresh_at(&self, source: &CertificateSource) -> Option<Timestamp>;

    /// Drops the certificates of a pod.
    fn forget(&self, pod: &PodUid);
}

/// A volume to be mounted.
#[derive(Debug, Clone)]
pub(crate) struct MountRequest {
    pub(crate) pod: Arc<Pod>,
    pub(crate) spec: Arc<VolumeSpec>,
    /// The content that was written last.
    pub(crate) before: Option<Content>,
    /// Whether another pod has it mounted, or mounts it.
    pub(crate) is_in_use_elsewhere: bool,
    /// Whether containers of another pod use it.
    pub(crate) is_shared: bool,
}

/// The content of a volume as it was written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Content {
    /// Tells it from other content.
    pub(crate) digest: u64,
    /// When it was compared with the files on the host.
    pub(crate) verified_at: Timestamp,
    /// When a token in it is due for renewal.
    pub(crate) refresh_at: Option<Timestamp>,
}

const NODE_AFFINITY: &str = "MountVolume.NodeAffinity check";

/// Why a volume was not mounted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct MountFailure {
    step: &'static str,
    error: String,
    /// The reason of the event.
    pub(crate) reason: &'static str,
    /// Whether nothing was started.
    pub(crate) is_refused: bool,
}

impl MountFailure {
    pub(crate) fn set_up(error: impl Into<String>) -> Self {
        let error = error.into();
        Self { step: "MountVolume.SetUp", error, reason: "FailedMount", is_refused: false }
    }

    /// The failure for a volume that containers use as a device.
    fn of_device(self) -> Self {
        let step = match self.step {
            NODE_AFFINITY => "MapVolume.NodeAffinity check",
            _ => "MapVolume.MapBlockVolume",
        };
        Self { step, reason: "FailedMapVolume", ..self }
    }

    fn node_affinity(error: String) -> Self {
        Self { step: NODE_AFFINITY, is_refused: true, ..Self::set_up(error) }
    }

    fn in_use() -> Self {
        let text =
            "volume uses the ReadWriteOncePod access mode and is already in use by another pod";
        Self { is_refused: true, ..Self::set_up(text) }
    }

    /// The message of the event.
    pub(crate) fn message(&self, id: &VolumeId) -> String {
        format!("{} failed for volume {:?} : {}", self.step, id.name, self.error)
    }
}

impl From<FileError> for MountFailure {
    fn from(error: FileError) -> Self {
        Self::set_up(go_text::file_error(&error))
    }
}

impl From<HostPathError> for MountFailure {
    fn from(error: HostPathError) -> Self {
        match error {
            HostPathError::File(error) => error.into(),
            wrong @ HostPathError::WrongKind { .. } => Self::set_up(wrong.to_string()),
        }
    }
}

/// Mounts a volume, or writes its content again. Returns the content of volumes that have any.
pub(crate) async fn mount(
    parts: &ManagerParts,
    uid: &PodUid,
    request: &MountRequest,
) -> Result<Option<Content>, MountFailure> {
    let mounted = steps(parts, uid, request).await;
    if request.spec.is_block { mounted.map_err(MountFailure::of_device) } else { mounted }
}

async fn steps(
    parts: &ManagerParts,
    uid: &PodUid,
    request: &MountRequest,
) -> Result<Option<Content>, MountFailure> {
    let MountRequest { spec, .. } = request;
    check_node(spec, &parts.node.labels())
        .map_err(|error| MountFailure::node_affinity(error.to_string()))?;
    if request.is_in_use_elsewhere && spec.persistent.as_ref().is_some_and(|pv| pv.is_for_one_pod) {
        return Err(MountFailure::in_use());
    }
    match &spec.source {
        VolumeSource::EmptyDir { .. } => empty_dir::mount(parts, uid, request).await?,
        VolumeSource::HostPath { path, kind } => {
            parts.host.check_host_path(path.as_ref(), *kind).await?;
        }
        VolumeSource::Content => return content::mount(parts, uid, request).await.map(Some),
        VolumeSource::Local { .. } => local::mount(parts, uid, request).await?,
        VolumeSource::Nfs { server, path, options } => {
            let place = parts.layout.volume(uid, &spec.id);
            parts.host.make_directory(&place, 0o750).await?;
            let (server, path, options) = (server.clone(), path.clone(), options.clone());
            let read_only = spec.read_only;
            let nfs = FileSystem::Nfs { server, path, read_only, options };
            parts.host.mount(&place, &nfs).await?;
        }
        // The runtime mounts it.
        VolumeSource::Image { .. } => {}
    }
    Ok(None)
}

/// The group of a volume, if the pod has one.
fn ownership(pod: &Pod, spec: &VolumeSpec, read_only: bool) -> Option<Ownership> {
    let context = view::spec(pod)?.security_context.as_ref()?;
    let group = u32::try_from(context.fs_group?).ok().filter(|_| spec.fs_group_applies)?;
    let only_on_root_mismatch = context.fs_group_change_policy.as_deref() == Some("OnRootMismatch");
    Some(Ownership { group, read_only, only_on_root_mismatch })
}
