//! The volume manager, as the pod runtime uses it.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use async_trait::async_trait;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Pod;
use model::chain::Chain;
use model::ids::PodUid;
use model::objects::{ServiceAccountToken, TokenRequest, TrustBundleRecord};
use model::pod_certificates::{CertificateSource, Credentials};
use model::ports::files::FileError;
use model::ports::volumes::{Subpath, SubpathError, VolumeHost};
use model::volume::{Plugin, VolumeLayout};
use model::wait::Wait;
use node::NodeHandle;
use objects::{CertificateStore, TokenStore, TrustBundles};
use podspec::resources::Amounts;
use runtime::PodVolumes;
use runtime::decide::{MountedVolume, SubpathMount};
use tokio_util::sync::CancellationToken;
use volumes::decide::resolve::{VolumeSource, VolumeSpec};
use volumes::{ClusterTrustBundles, NodeFacts, PodCertificates, PodTokens, VolumeManager};

/// The volumes of pods, for their containers.
#[derive(Debug)]
pub(crate) struct ContainerVolumes {
    pub(crate) manager: VolumeManager,
    pub(crate) host: Arc<dyn VolumeHost>,
    pub(crate) layout: VolumeLayout,
}

#[async_trait]
impl PodVolumes for ContainerVolumes {
    async fn wait(&self, pod: &Pod, cancel: &CancellationToken) -> Option<Wait> {
        self.manager.wait(pod, cancel).await
    }

    fn mounted(&self, pod: &PodUid, volume: &str) -> Option<MountedVolume> {
        let spec = self.manager.mounted(pod, volume)?;
        Some(mounted_volume(&self.layout, pod, volume, &spec))
    }

    fn groups(&self, pod: &PodUid) -> BTreeSet<i64> {
        self.manager.groups(pod)
    }

    async fn mount_subpath(
        &self,
        pod: &PodUid,
        subpath: &SubpathMount,
    ) -> Result<PathBuf, SubpathError> {
        let SubpathMount { volume, container, index, .. } = subpath;
        let target = self.layout.subpath(pod, volume, container, *index);
        let path = target.path();
        let (volume, inside) = (subpath.volume_path.clone(), subpath.path.clone());
        self.host.bind_subpath(&Subpath { volume, path: inside, target }).await?;
        Ok(path)
    }

    async fn read_file(
        &self,
        volume: &Path,
        path: &Path,
        limit: u64,
    ) -> Result<Vec<u8>, FileError> {
        self.host.read_in_volume(volume, path, limit).await
    }
}

/// A volume as containers mount it, under one of its names in the pod.
fn mounted_volume(
    layout: &VolumeLayout,
    uid: &PodUid,
    name: &str,
    spec: &VolumeSpec,
) -> MountedVolume {
    let (host_path, image) = match &spec.source {
        VolumeSource::HostPath { path, .. } => (path.into(), String::new()),
        VolumeSource::Image { reference, .. } => (PathBuf::new(), reference.clone()),
        _ if spec.is_block => (layout.device_places(uid, &spec.id).link.path(), String::new()),
        _ => (layout.volume(uid, &spec.id).path(), String::new()),
    };
    let read_only = spec.outer_names.iter().any(|one| &*one.name == name && one.read_only);
    let plugin = spec.id.plugin;
    MountedVolume {
        spec_name: spec.id.name.to_string(),
        host_path,
        read_only: read_only || plugin.is_read_only(),
        relabel: !matches!(plugin, Plugin::HostPath | Plugin::Nfs | Plugin::Image),
        is_block: spec.is_block,
        image,
    }
}

/// The tokens of the node's pods.
#[derive(Debug)]
pub(crate) struct StoredTokens(pub(crate) TokenStore);

#[async_trait]
impl PodTokens for StoredTokens {
    async fn token(&self, request: &TokenRequest) -> Result<Arc<ServiceAccountToken>, String> {
        self.0.get(request).await.map_err(|error| Chain(&error).to_string())
    }

    fn refresh_at(&self, request: &TokenRequest) -> Option<Timestamp> {
        self.0.refresh_at(request)
    }

    fn forget(&self, pod: &PodUid) {
        self.0.forget(pod);
    }
}

/// The certificates of the node's pods.
#[derive(Debug)]
pub(crate) struct StoredCertificates(pub(crate) CertificateStore);

#[async_trait]
impl PodCertificates for StoredCertificates {
    async fn certificate(&self, source: &CertificateSource) -> Result<Credentials, String> {
        self.0.get(source).await
    }

    fn refresh_at(&self, source: &CertificateSource) -> Option<Timestamp> {
        self.0.refresh_at(source)
    }

    fn forget(&self, pod: &PodUid) {
        self.0.forget(pod);
    }
}

/// The trust bundles of the cluster.
#[derive(Debug)]
pub(crate) struct StoredTrustBundles(pub(crate) TrustBundles);

#[async_trait]
impl ClusterTrustBundles for StoredTrustBundles {
    async fn all(&self) -> Result<Arc<[TrustBundleRecord]>, String> {
        self.0.all().await.map_err(|error| error.to_string())
    }
}

/// The node, as volumes see it.
#[derive(Debug)]
pub(crate) struct VolumeNode {
    pub(crate) allocatable: Amounts,
    pub(crate) node: Option<NodeHandle>,
}

impl NodeFacts for VolumeNode {
    fn allocatable(&self) -> Amounts {
        self.allocatable.clone()
    }

    fn labels(&self) -> BTreeMap<String, String> {
        let node = self.node.as_ref().and_then(NodeHandle::node);
        node.and_then(|node| node.metadata.labels.clone()).unwrap_or_default()
    }
}
