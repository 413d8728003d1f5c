//! The volumes of pods, as their containers use them.

use std::collections::BTreeSet;
use std::fmt::Debug;
use std::path::{Path, PathBuf};

use async_trait::async_trait;
use k8s_openapi::api::core::v1::Pod;
use model::ids::PodUid;
use model::ports::files::FileError;
use model::ports::volumes::SubpathError;
use model::wait::Wait;
use tokio_util::sync::CancellationToken;

use crate::decide::{MountedVolume, SubpathMount};

/// Mounts the volumes of pods. Implemented by the volume manager.
#[async_trait]
pub trait PodVolumes: Debug + Send + Sync {
    /// Waits until all volumes of a pod are mounted, or the pod terminates. Returns what the pod still waits for if
    /// this fails or takes too long.
    async fn wait(&self, pod: &Pod, cancel: &CancellationToken) -> Option<Wait>;

    /// A mounted volume, by its name in the pod.
    fn mounted(&self, pod: &PodUid, volume: &str) -> Option<MountedVolume>;

    /// The groups that the persistent volumes of a pod belong to.
    fn groups(&self, _pod: &PodUid) -> BTreeSet<i64> {
        BTreeSet::new()
    }

    /// Mounts a part of a volume for a container. Returns its path on the host.
    async fn mount_subpath(
        &self,
        pod: &PodUid,
        subpath: &SubpathMount,
    ) -> Result<PathBuf, SubpathError>;

    /// The content of a file in a volume, at most `limit` bytes. A path that leaves the volume is an error.
    async fn read_file(&self, volume: &Path, path: &Path, limit: u64)
    -> Result<Vec<u8>, FileError>;
}

/// No volumes at all: for pods that use none.
#[derive(Debug, Clone, Copy, Default)]
pub struct NoVolumes;

#[async_trait]
impl PodVolumes for NoVolumes {
    async fn wait(&self, _pod: &Pod, _cancel: &CancellationToken) -> Option<Wait> {
        None
    }

    fn mounted(&self, _pod: &PodUid, _volume: &str) -> Option<MountedVolume> {
        None
    }

    async fn mount_subpath(
        &self,
        _pod: &PodUid,
        subpath: &SubpathMount,
    ) -> Result<PathBuf, SubpathError> {
        let source = std::io::ErrorKind::NotFound.into();
        Err(SubpathError::Prepare { path: subpath.path.clone(), source })
    }

    async fn read_file(
        &self,
        _volume: &Path,
        path: &Path,
        _limit: u64,
    ) -> Result<Vec<u8>, FileError> {
        let source = std::io::ErrorKind::NotFound.into();
        Err(FileError { operation: "read", path: path.to_owned(), source })
    }
}
