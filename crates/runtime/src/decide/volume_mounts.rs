//! The mounts and block devices of a container's volumes.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Component, Path, PathBuf};

use k8s_openapi::api::core::v1::{Container, VolumeMount};
use model::wanted::{Device, Mount, MountPropagation};

use super::ConfigError;
use super::string_limits::expand;

/// A volume of a pod that is mounted on the host.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct MountedVolume {
    /// The last element of the volume's path, or the name of its persistent volume.
    pub spec_name: String,
    /// Its root on the host, or the block device. Empty for an image.
    pub host_path: PathBuf,
    /// Whether no container may write it.
    pub read_only: bool,
    /// Whether `SELinux` labels are set on it.
    pub relabel: bool,
    /// Whether it is a block device.
    pub is_block: bool,
    /// The reference of the image volume in the runtime; empty for other volumes.
    pub image: String,
}

/// A part of a volume that is mounted before the container is created.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SubpathMount {
    /// The volume's name.
    pub volume: String,
    /// The root of the volume on the host.
    pub volume_path: PathBuf,
    /// The path inside the volume: relative, without `..`.
    pub path: PathBuf,
    /// The container.
    pub container: String,
    /// The position of the mount in the container.
    pub index: usize,
    /// The volume's name in the container's mount, for messages.
    pub mount_name: String,
}

/// A mount of a container.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VolumeMountPlan {
    /// The mount. With a subpath its path on the host is not known yet.
    pub mount: Mount,
    /// The part of the volume that is mounted.
    pub subpath: Option<SubpathMount>,
}

/// The inputs of the mounts of a container, in addition to its spec.
#[derive(Debug)]
pub struct MountContext<'a> {
    /// The mounted volumes, by their names in the pod.
    pub volumes: &'a BTreeMap<String, MountedVolume>,
    /// The container's environment.
    pub envs: &'a [(String, String)],
    /// Whether the runtime can make mounts below a read-only mount read-only too.
    pub recursive_read_only: bool,
    /// Whether `SELinux` is on.
    pub selinux: bool,
}

/// The volume mounts of a container, in their order.
pub fn volume_mounts(
    container: &Container,
    context: &MountContext<'_>,
) -> Result<Vec<VolumeMountPlan>, ConfigError> {
    let mounts = container.volume_mounts.iter().flatten().enumerate();
    mounts.map(|(index, mount)| plan(container, index, mount, context)).collect()
}

/// The block devices of a container.
pub fn volume_devices(
    container: &Container,
    volumes: &BTreeMap<String, MountedVolume>,
) -> Result<Vec<Device>, ConfigError> {
    let devices = container.volume_devices.iter().flatten();
    devices
        .map(|device| {
            let volume = volumes.get(&device.name).filter(|volume| volume.is_block);
            let volume = volume.ok_or_else(|| not_found(&device.name, container))?;
            Ok(Device {
                container_path: device.device_path.clone(),
                host_path: volume.host_path.to_string_lossy().into_owned(),
                permissions: if volume.read_only { "r" } else { "mrw" }.to_owned(),
            })
        })
        .collect()
}

/// The names of the volumes that a container uses.
pub fn used_volumes(container: &Container) -> BTreeSet<&str> {
    let mounts = container.volume_mounts.iter().flatten().map(|mount| mount.name.as_str());
    let devices = container.volume_devices.iter().flatten().map(|device| device.name.as_str());
    mounts.chain(devices).collect()
}

fn not_found(volume: &str, container: &Container) -> ConfigError {
    let (volume, container) = (volume.to_owned(), container.name.clone());
    ConfigError::VolumeNotMounted { volume, container }
}

fn plan(
    container: &Container,
    index: usize,
    mount: &VolumeMount,
    context: &MountContext<'_>,
) -> Result<VolumeMountPlan, ConfigError> {
    let volume = context.volumes.get(&mount.name).filter(|volume| !volume.is_block);
    let volume = volume.ok_or_else(|| not_found(&mount.name, container))?;
    let path = subpath(mount, context.envs)?;
    let is_image = !volume.image.is_empty();
    let image_subpath = path.clone().filter(|_| is_image).unwrap_or_default();
    let subpath = path.filter(|_| !is_image).map(|path| SubpathMount {
        volume: volume.spec_name.clone(),
        volume_path: volume.host_path.clone(),
        path: path.into(),
        container: container.name.clone(),
        index,
        mount_name: mount.name.clone(),
    });
    let mount = Mount {
        container_path: absolute(&mount.mount_path),
        host_path: volume.host_path.to_string_lossy().into_owned(),
        read_only: mount.read_only == Some(true) || volume.read_only,
        recursive_read_only: recursive_read_only(mount, context.recursive_read_only)?,
        propagation: propagation(mount)?,
        image: volume.image.clone(),
        image_subpath,
        relabel: volume.relabel && context.selinux,
    };
    Ok(VolumeMountPlan { mount, subpath })
}

fn absolute(path: &str) -> String {
    if path.starts_with('/') { path.to_owned() } else { format!("/{path}") }
}

/// The path inside the volume that is mounted; `None` for all of it.
fn subpath(mount: &VolumeMount, envs: &[(String, String)]) -> Result<Option<String>, ConfigError> {
    let expression = mount.sub_path_expr.as_deref().filter(|text| !text.is_empty());
    let path = match expression {
        Some(text) => expanded(text, envs)?,
        None => mount.sub_path.clone().unwrap_or_default(),
    };
    if path.is_empty() {
        return Ok(None);
    }
    if path.starts_with('/') {
        return Err(ConfigError::AbsoluteSubpath(path));
    }
    if Path::new(&path).components().any(|part| part == Component::ParentDir) {
        return Err(ConfigError::SubpathLeavesVolume(path));
    }
    Ok(Some(path))
}

/// A variable without a value is an error here: the container would see all of the volume.
fn expanded(text: &str, envs: &[(String, String)]) -> Result<String, ConfigError> {
    let values: BTreeMap<&str, &str> =
        envs.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
    let missing = RefCell::new(BTreeSet::new());
    let expanded = expand(text, |name| {
        let value = values.get(name).copied().filter(|value| !value.is_empty());
        if value.is_none() {
            missing.borrow_mut().insert(name.to_owned());
        }
        Some(value.unwrap_or_default())
    });
    let missing = missing.into_inner();
    match expanded {
        Some(path) if missing.is_empty() => Ok(path),
        Some(_) => {
            let names: Vec<String> = missing.into_iter().collect();
            Err(ConfigError::SubpathVariables(names.join(", ")))
        }
        None => Err(ConfigError::SubpathTooLong),
    }
}

fn propagation(mount: &VolumeMount) -> Result<MountPropagation, ConfigError> {
    match mount.mount_propagation.as_deref() {
        None | Some("None") => Ok(MountPropagation::Private),
        Some("HostToContainer") => Ok(MountPropagation::HostToContainer),
        Some("Bidirectional") => Ok(MountPropagation::Bidirectional),
        Some(other) => Err(ConfigError::MountPropagation(other.to_owned())),
    }
}

/// Whether mounts below a read-only mount are read-only too.
fn recursive_read_only(mount: &VolumeMount, supported: bool) -> Result<bool, ConfigError> {
    let mode = mount.recursive_read_only.as_deref().unwrap_or("Disabled");
    if mode == "Disabled" {
        return Ok(false);
    }
    let refused = |problem: String| {
        let text = format!(
            "volume {:?} requested recursive read-only mode, but it is {problem}",
            mount.name
        );
        Err(ConfigError::RecursiveReadOnly(text))
    };
    if mount.read_only != Some(true) {
        return refused("not read-only".to_owned());
    }
    if let Some(propagation) = mount.mount_propagation.as_deref().filter(|mode| *mode != "None") {
        return refused(format!("not compatible with propagation {propagation:?}"));
    }
    match mode {
        "IfPossible" => Ok(supported),
        "Enabled" if supported => Ok(true),
        "Enabled" => refused("not supported by the runtime".to_owned()),
        other => {
            let text = format!("unknown recursive read-only mode {other:?}");
            Err(ConfigError::RecursiveReadOnly(text))
        }
    }
}

#[cfg(test)]
#[path = "volume_mounts_tests.rs"]
mod tests;
