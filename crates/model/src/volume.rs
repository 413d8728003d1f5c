//! Volumes of pods on disk: their plugins, paths and content.

use std::collections::BTreeMap;
use std::fmt;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::ids::PodUid;

/// The volume plugins of the agent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Plugin {
    /// A directory of the pod, on disk or in memory.
    EmptyDir,
    /// The keys of a config map.
    ConfigMap,
    /// The keys of a secret.
    Secret,
    /// Fields of the pod.
    DownwardApi,
    /// Several of these, tokens and certificates in one directory.
    Projected,
    /// A path of the host.
    HostPath,
    /// A directory or disk of the host, through a claim.
    Local,
    /// A directory of an NFS server.
    Nfs,
    /// An image, which the runtime mounts.
    Image,
}

impl Plugin {
    /// All of them.
    pub const ALL: [Self; 9] = [
        Self::EmptyDir,
        Self::ConfigMap,
        Self::Secret,
        Self::DownwardApi,
        Self::Projected,
        Self::HostPath,
        Self::Local,
        Self::Nfs,
        Self::Image,
    ];

    /// Its name in metrics and messages.
    pub fn name(self) -> &'static str {
        match self {
            Self::EmptyDir => "kubernetes.io/empty-dir",
            Self::ConfigMap => "kubernetes.io/configmap",
            Self::Secret => "kubernetes.io/secret",
            Self::DownwardApi => "kubernetes.io/downward-api",
            Self::Projected => "kubernetes.io/projected",
            Self::HostPath => "kubernetes.io/host-path",
            Self::Local => "kubernetes.io/local-volume",
            Self::Nfs => "kubernetes.io/nfs",
            Self::Image => "kubernetes.io/image",
        }
    }

    /// Its name on disk.
    pub fn directory(self) -> String {
        self.name().replace('/', "~")
    }

    /// The plugin with this name on disk.
    pub fn from_directory(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|plugin| plugin.directory() == name)
    }

    /// Whether its volumes are written again when their sources change.
    pub fn requires_remount(self) -> bool {
        matches!(self, Self::ConfigMap | Self::Secret | Self::DownwardApi | Self::Projected)
    }

    /// Whether containers may never write its volumes.
    pub fn is_read_only(self) -> bool {
        self.requires_remount() || self == Self::Image
    }
}

/// A volume of a pod: a plugin, and the last element of the volume's path. Unique within the pod.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct VolumeId {
    /// Its plugin.
    pub plugin: Plugin,
    /// The volume's name in the pod, or the name of its persistent volume.
    pub name: Arc<str>,
}

impl VolumeId {
    /// A volume.
    pub fn new(plugin: Plugin, name: &str) -> Self {
        Self { plugin, name: name.into() }
    }
}

/// A path below a directory of the agent. The part below may contain names from a pod. It never leaves
/// the root, and links below the root are not followed.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Place {
    /// A directory of the agent.
    pub root: PathBuf,
    /// Plain names below it.
    pub below: PathBuf,
}

impl Place {
    /// The whole path.
    pub fn path(&self) -> PathBuf {
        self.root.join(&self.below)
    }

    /// A path further down.
    #[must_use]
    pub fn join(&self, names: impl AsRef<Path>) -> Self {
        Self { root: self.root.clone(), below: self.below.join(names) }
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.path().display())
    }
}

/// The paths of a block volume of a pod: a volume that its containers use as a device.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DevicePlaces {
    /// The device, bind-mounted only for this pod.
    pub map: Place,
    /// The link to the device, in the directory of the pod.
    pub link: Place,
}

/// The layout of volumes below the agent's root directory, like upstream.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VolumeLayout {
    /// The root of the pods' directories.
    pub pods: PathBuf,
}

impl VolumeLayout {
    /// The directory of a pod.
    pub fn pod(&self, uid: &PodUid) -> Place {
        Place { root: self.pods.clone(), below: uid.as_str().into() }
    }

    /// The directory of a volume.
    pub fn volume(&self, uid: &PodUid, id: &VolumeId) -> Place {
        self.pod(uid).join("volumes").join(id.plugin.directory()).join(&*id.name)
    }

    /// The directory in which an `emptyDir` has its ready marker. Volumes with content are wrapped ones.
    pub fn ready_marker(&self, uid: &PodUid, id: &VolumeId) -> Place {
        let wrapped = if id.plugin.requires_remount() { "wrapped_" } else { "" };
        let name = format!("{wrapped}{}", id.name);
        self.pod(uid).join("plugins").join(Plugin::EmptyDir.directory()).join(name).join("ready")
    }

    /// The bind mount of a `subPath`, by the volume, the container and the position of its mount.
    pub fn subpath(&self, uid: &PodUid, volume: &str, container: &str, index: usize) -> Place {
        self.subpaths(uid).join(volume).join(container).join(index.to_string())
    }

    /// The directory of all `subPath` mounts of a pod.
    pub fn subpaths(&self, uid: &PodUid) -> Place {
        self.pod(uid).join("volume-subpaths")
    }

    /// The mount of a local block device, which pods share. The directory of pods has a parent: the agent's root.
    pub fn local_device(&self, volume: &str) -> Place {
        let root = self.pods.parent().unwrap_or(&self.pods).to_owned();
        let below = Path::new("plugins/kubernetes.io/local-volume/mounts").join(volume);
        Place { root, below }
    }

    /// The paths of a block volume of a pod.
    pub fn device_places(&self, uid: &PodUid, id: &VolumeId) -> DevicePlaces {
        let link = self.device_links(uid).join(id.plugin.directory()).join(&*id.name);
        let map = self.device_maps(id.plugin).join(&*id.name).join(uid.as_str());
        DevicePlaces { map, link }
    }

    /// The directory of all links of a pod to block devices.
    pub fn device_links(&self, uid: &PodUid) -> Place {
        self.pod(uid).join("volumeDevices")
    }

    /// The directory in which a plugin has a directory for each block volume, with a bind mount for each of its pods.
    pub fn device_maps(&self, plugin: Plugin) -> Place {
        let root = self.pods.parent().unwrap_or(&self.pods).to_owned();
        let below = Path::new("plugins").join(plugin.directory()).join("volumeDevices");
        Place { root, below }
    }
}

/// A file of a volume. Its content is never printed.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct PayloadFile {
    /// The content.
    pub content: Arc<[u8]>,
    /// Its mode, exactly.
    pub mode: u32,
    /// The owner; root without one.
    pub owner: Option<u32>,
}

impl fmt::Debug for PayloadFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PayloadFile {{ {} bytes, mode: {:o} }}", self.content.len(), self.mode)
    }
}

/// The files of a volume, by their relative paths.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct Payload {
    /// Each file under its path: `tls/key.pem`.
    pub files: BTreeMap<String, PayloadFile>,
}

impl Payload {
    /// A digest of the payload.
    pub fn digest(&self) -> u64 {
        let mut hasher = DefaultHasher::new();
        self.hash(&mut hasher);
        hasher.finish()
    }
}

/// The group of a volume, from `fsGroup`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Ownership {
    /// The group.
    pub group: u32,
    /// Whether the files may only be read.
    pub read_only: bool,
    /// `fsGroupChangePolicy: OnRootMismatch`: a volume whose root fits is left alone.
    pub only_on_root_mismatch: bool,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plugin_directories_are_read_back() {
        for plugin in Plugin::ALL {
            assert_eq!(Plugin::from_directory(&plugin.directory()), Some(plugin));
        }
        assert_eq!(Plugin::from_directory("kubernetes.io~csi"), None);
    }

    #[test]
    fn paths_match_upstream() {
        let layout = VolumeLayout { pods: "/var/lib/kubelet/pods".into() };
        let (uid, id) = (PodUid::from("u"), VolumeId::new(Plugin::Projected, "token"));
        let disk = VolumeId::new(Plugin::Local, "pv");
        let rows = [
            (layout.volume(&uid, &id), "u/volumes/kubernetes.io~projected/token"),
            (
                layout.ready_marker(&uid, &id),
                "u/plugins/kubernetes.io~empty-dir/wrapped_token/ready",
            ),
            (layout.subpath(&uid, "data", "main", 2), "u/volume-subpaths/data/main/2"),
            (
                layout.device_places(&uid, &disk).link,
                "u/volumeDevices/kubernetes.io~local-volume/pv",
            ),
        ];
        let device = layout.local_device("pv").path();
        assert_eq!(
            device,
            Path::new("/var/lib/kubelet/plugins/kubernetes.io/local-volume/mounts/pv")
        );
        let map = layout.device_places(&uid, &disk).map.path();
        let maps = "/var/lib/kubelet/plugins/kubernetes.io~local-volume/volumeDevices";
        assert_eq!(map, Path::new(maps).join("pv/u"));
        for (place, expected) in rows {
            assert_eq!(place.path(), Path::new("/var/lib/kubelet/pods").join(expected));
        }
    }
}
