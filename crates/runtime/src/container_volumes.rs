//! The volumes of a container that is about to be created.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;

use futures_util::future::join_all;
use model::chain::Chain;
use model::ports::volumes::SubpathError;
use model::wanted::{Device, Mount};
use podspec::view;
use tracing::error;

use crate::decide::{
    ConfigError, EnvFile, EnvFileRead, MountContext, MountedVolume, SubpathMount, VolumeMountPlan,
    env_files, used_volumes, volume_devices, volume_mounts,
};
use crate::image_volumes::ImageVolumes;
use crate::start_context::StartContext;
use crate::volumes::PodVolumes;

/// The longest file that defines variables. Upstream has no limit, so a container can exhaust its memory.
const MOST_OF_ENV_FILE: u64 = 16 * 1024 * 1024;

/// The mounts and devices of a container.
#[derive(Debug)]
pub(crate) struct ContainerVolumeMounts {
    pub(crate) mounts: Vec<Mount>,
    pub(crate) devices: Vec<Device>,
    /// The groups of the pod's persistent volumes.
    pub(crate) groups: BTreeSet<i64>,
}

/// Mounts the volumes of containers.
#[derive(Debug)]
pub(crate) struct ContainerVolumes {
    pub(crate) volumes: Arc<dyn PodVolumes>,
    /// Whether `SELinux` is on.
    pub(crate) selinux: bool,
}

impl ContainerVolumes {
    /// The mounts and devices of a container, in the order of its spec.
    pub(crate) async fn mount(
        &self,
        starting: &StartContext<'_>,
        envs: &[(String, String)],
        images: &ImageVolumes,
    ) -> Result<ContainerVolumeMounts, ConfigError> {
        let StartContext { container, sandbox, .. } = *starting;
        let mounted = self.mounted(starting, images);
        let devices = volume_devices(container, &mounted)?;
        let context = MountContext {
            volumes: &mounted,
            envs,
            recursive_read_only: sandbox.recursive_read_only,
            selinux: self.selinux,
        };
        let plans = volume_mounts(container, &context)?;
        let mut mounts = Vec::with_capacity(plans.len());
        for VolumeMountPlan { mut mount, subpath } in plans {
            if let Some(subpath) = subpath {
                mount.host_path = self.subpath(starting, &subpath).await?;
            }
            mounts.push(mount);
        }
        let groups = self.volumes.groups(&view::uid(starting.pod));
        Ok(ContainerVolumeMounts { mounts, devices, groups })
    }

    /// The env files of a container.
    pub(crate) async fn env_files(
        &self,
        starting: &StartContext<'_>,
    ) -> BTreeMap<EnvFile, EnvFileRead> {
        let files = env_files(starting.container).into_iter();
        let read = files.map(|file| async move {
            let read = self.env_file(starting, &file).await;
            (file, read)
        });
        join_all(read).await.into_iter().collect()
    }

    async fn env_file(&self, starting: &StartContext<'_>, file: &EnvFile) -> EnvFileRead {
        let uid = view::uid(starting.pod);
        let volume = self.volumes.mounted(&uid, &file.volume);
        let is_directory =
            |volume: &MountedVolume| !volume.is_block && !volume.host_path.as_os_str().is_empty();
        let Some(volume) = volume.filter(is_directory) else { return EnvFileRead::NoVolume };
        let (root, path) = (&volume.host_path, Path::new(&file.path));
        match self.volumes.read_file(root, path, MOST_OF_ENV_FILE).await {
            Ok(content) => EnvFileRead::Read { path: root.join(path), content },
            Err(failure) => {
                let pod = view::pod_name(starting.pod);
                let (container, volume) = (&starting.container.name, &file.volume);
                error!(%pod, %uid, container, volume, error = %Chain(&failure), "Cannot read env file");
                EnvFileRead::Failed
            }
        }
    }

    fn mounted(
        &self,
        starting: &StartContext<'_>,
        images: &ImageVolumes,
    ) -> BTreeMap<String, MountedVolume> {
        let uid = view::uid(starting.pod);
        let volume = |name: &str| {
            let mut volume = self.volumes.mounted(&uid, name)?;
            if let Some(reference) = images.references.get(name) {
                volume.image.clone_from(reference);
            }
            Some((name.to_owned(), volume))
        };
        used_volumes(starting.container).into_iter().filter_map(volume).collect()
    }

    /// Mounts a part of a volume. The error has no details of the host: the user may not be allowed to see them.
    async fn subpath(
        &self,
        starting: &StartContext<'_>,
        subpath: &SubpathMount,
    ) -> Result<String, ConfigError> {
        let uid = view::uid(starting.pod);
        let failure = match self.volumes.mount_subpath(&uid, subpath).await {
            Ok(path) => return Ok(path.to_string_lossy().into_owned()),
            Err(failure) => failure,
        };
        let (mount, container) = (subpath.mount_name.clone(), subpath.container.clone());
        let pod = view::pod_name(starting.pod);
        error!(%pod, %uid, container, volume = mount, error = %Chain(&failure), "Cannot mount subPath");
        Err(match failure {
            SubpathError::Create { .. } => ConfigError::SubpathDirectory { mount, container },
            SubpathError::Prepare { .. } => ConfigError::SubpathMount { mount, container },
        })
    }
}
