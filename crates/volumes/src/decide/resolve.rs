//! The volumes that a pod uses, with claims replaced by the persistent volumes behind them.

mod claim;
mod source;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use k8s_openapi::api::core::v1::{Container, NodeSelectorTerm, Pod, Volume};
use model::ports::objects::ObjectError;
use model::ports::volumes::HostPathKind;
use model::storage::{ClaimName, ClaimRecord, PersistentVolumeRecord};
use model::volume::VolumeId;
use podspec::{node_selector, view};

pub use claim::ClaimError;

/// A volume that a pod uses.
#[derive(Debug, Clone, PartialEq)]
pub struct VolumeSpec {
    /// The volume. A persistent volume is named after the `PersistentVolume`, any other after the pod's volume.
    pub id: VolumeId,
    /// The pod's volumes with this ID. Two claim volumes may refer to the same persistent volume.
    pub outer_names: Vec<OuterName>,
    /// Its source.
    pub source: VolumeSource,
    /// Whether it is mounted read-only.
    pub read_only: bool,
    /// Whether containers use it as a block device.
    pub is_block: bool,
    /// Whether `fsGroup` is applied to it.
    pub fs_group_applies: bool,
    /// The facts of its persistent volume.
    pub persistent: Option<Arc<Persistent>>,
}

/// A volume by its name in the pod.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OuterName {
    /// The name in `spec.volumes`.
    pub name: Box<str>,
    /// Whether containers may only read it under this name.
    pub read_only: bool,
}

/// The source of a volume.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum VolumeSource {
    /// A directory of the pod.
    EmptyDir {
        /// Its medium.
        medium: Medium,
        /// `sizeLimit` in bytes.
        size_limit: Option<u64>,
    },
    /// A path of the host.
    HostPath {
        /// The path.
        path: String,
        /// Its required kind.
        kind: HostPathKind,
    },
    /// Files that the agent writes: a config map, a secret, fields of the pod, or a projection.
    Content,
    /// A directory or block device of the node.
    Local {
        /// The path.
        path: String,
        /// The file system of a block device.
        fs_type: String,
        /// Mount options.
        options: Vec<String>,
    },
    /// A directory of an NFS server.
    Nfs {
        /// The server.
        server: String,
        /// The directory.
        path: String,
        /// Mount options.
        options: Vec<String>,
    },
    /// An image, which the runtime mounts.
    Image {
        /// The image.
        reference: String,
        /// When it is pulled.
        pull_policy: String,
    },
}

/// The medium of an `emptyDir`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Medium {
    /// On the node's disk.
    Disk,
    /// In memory.
    Memory,
    /// In huge pages: of this size (`2Mi`), or of the only size that the pod requests.
    HugePages(Option<String>),
}

/// The known properties of the persistent volume of a volume.
#[derive(Debug, Clone, PartialEq)]
pub struct Persistent {
    /// The claim.
    pub claim: ClaimName,
    /// One of these terms must match the node; without terms every node matches.
    pub node_affinity: Option<Vec<NodeSelectorTerm>>,
    /// Whether `ReadWriteOncePod` is its only access mode.
    pub is_for_one_pod: bool,
    /// An additional group for the containers of the pod.
    pub group: Option<u32>,
}

/// Why a volume cannot be mounted at all. Upstream's texts where it has one.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ResolveError {
    /// Its claim, or the persistent volume of the claim, is not ready.
    #[error("error processing PVC {claim}: {error}")]
    Claim {
        /// The claim.
        claim: ClaimName,
        /// Why.
        error: ClaimError,
    },
    /// The claim of a generic ephemeral volume is another's.
    #[error("PVC {claim} was not created for pod {pod} (pod is not owner)")]
    ForeignClaim {
        /// The claim.
        claim: ClaimName,
        /// The pod, with its namespace.
        pod: String,
    },
    /// The persistent volume has no mode.
    #[error("cannot get volumeMode for volume: {0}")]
    NoMode(Box<str>),
    /// A block device is mounted as a directory, or the other way round.
    #[error("volume {volume} has volumeMode {mode}, but is specified in {field}")]
    Mode {
        /// The name of the volume in the pod.
        volume: String,
        /// `Filesystem` or `Block`.
        mode: Box<str>,
        /// `volumeMounts` or `volumeDevices`.
        field: &'static str,
    },
    /// Volumes of this kind cannot be used as block devices.
    #[error("block volumes of kind {0} are not supported")]
    Block(Box<str>),
    /// Volumes of this kind have no mount options.
    #[error("mount options are not supported for this volume type")]
    MountOptions,
    /// A kind that is not supported, by the name of its field.
    #[error("volumes of kind {0} are not supported")]
    Unsupported(Box<str>),
    /// The medium of an `emptyDir` is not known.
    #[error("unknown storage medium {0:?}")]
    Medium(String),
    /// The size limit of an `emptyDir` is not a quantity.
    #[error("invalid sizeLimit {0:?}")]
    SizeLimit(String),
    /// The type of a host path is not known.
    #[error("{0} is an invalid volume type")]
    HostPathType(String),
    /// A host path leads upwards.
    #[error("invalid HostPath `{0}`: must not contain '..'")]
    HostPath(String),
    /// The path of a local volume leads upwards.
    #[error("invalid path: {0} must not contain '..'")]
    LocalPath(String),
    /// A local volume has no path.
    #[error("LocalVolume volume {0:?} path is empty")]
    NoLocalPath(Box<str>),
}

impl ResolveError {
    /// Whether the API server could not be read: the volume may be valid.
    fn is_unread(&self) -> bool {
        let Self::Claim { error, .. } = self else { return false };
        match error {
            ClaimError::FetchClaim(error) | ClaimError::FetchVolume { error, .. } => {
                !error.is_not_found()
            }
            _ => false,
        }
    }
}

/// A volume that cannot be mounted at all.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unresolved {
    /// Its name in the pod.
    pub name: Box<str>,
    /// Why.
    pub error: ResolveError,
}

/// The volumes that a pod uses.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Resolved {
    /// Those that can be mounted, in the order of the pod.
    pub volumes: Vec<VolumeSpec>,
    /// The others, in the order of the pod.
    pub failed: Vec<Unresolved>,
}

/// Claims by name, as the API server returned them.
pub type Claims = BTreeMap<ClaimName, Result<Arc<ClaimRecord>, ObjectError>>;
/// Persistent volumes by name, as the API server returned them.
pub type PersistentVolumes = BTreeMap<Box<str>, Result<Arc<PersistentVolumeRecord>, ObjectError>>;

/// The response of the API server for the claims of a pod.
#[derive(Debug, Clone, Copy)]
pub struct Storage<'a> {
    /// The claims of [`claims`].
    pub claims: &'a Claims,
    /// The persistent volumes of [`persistent_volumes`].
    pub volumes: &'a PersistentVolumes,
}

/// The names of the volumes that containers use.
#[derive(Debug, Default)]
struct Used<'a> {
    mounts: BTreeSet<&'a str>,
    devices: BTreeSet<&'a str>,
}

impl<'a> Used<'a> {
    fn by(containers: impl Iterator<Item = &'a Container>) -> Self {
        let mut used = Self::default();
        for container in containers {
            let mounts = container.volume_mounts.iter().flatten();
            used.mounts.extend(mounts.map(|mount| mount.name.as_str()));
            let devices = container.volume_devices.iter().flatten();
            used.devices.extend(devices.map(|device| device.name.as_str()));
        }
        used
    }

    fn has(&self, name: &str) -> bool {
        self.mounts.contains(name) || self.devices.contains(name)
    }
}

/// All containers of a pod. Ephemeral ones are converted, hence the copies.
fn containers(pod: &Pod) -> Vec<Container> {
    let declared = view::init_containers(pod).iter().chain(view::containers(pod)).cloned();
    declared.chain(view::ephemeral_containers(pod)).collect()
}

fn volumes(pod: &Pod) -> impl Iterator<Item = &Volume> {
    view::spec(pod).into_iter().flat_map(|spec| spec.volumes.iter().flatten())
}

/// The claims of the volumes that a pod uses.
pub fn claims(pod: &Pod) -> BTreeSet<ClaimName> {
    let containers = containers(pod);
    let used = Used::by(containers.iter());
    let used = volumes(pod).filter(|volume| used.has(&volume.name));
    used.filter_map(|volume| claim::reference(pod, volume)).map(|claim| claim.name).collect()
}

/// The persistent volumes of claims that are ready.
pub fn persistent_volumes(claims: &Claims) -> BTreeSet<Box<str>> {
    let ready = claims.values().filter_map(|claim| claim::ready(claim).ok());
    ready.map(|claim| claim.volume.clone()).collect()
}

/// The volumes that a pod uses, without those that no container refers to.
pub fn resolve(pod: &Pod, storage: &Storage<'_>) -> Resolved {
    let containers = containers(pod);
    let used = Used::by(containers.iter());
    let mut resolved = Resolved::default();
    for volume in volumes(pod).filter(|volume| used.has(&volume.name)) {
        let spec = match claim::reference(pod, volume) {
            Some(reference) => claim::spec(&reference, volume, &used, storage),
            None => source::inline(volume),
        };
        match spec {
            Ok(spec) => resolved.add(spec),
            Err(error) => {
                resolved.failed.push(Unresolved { name: volume.name.as_str().into(), error });
            }
        }
    }
    resolved
}

impl Resolved {
    /// Keeps the known state of volumes whose claims the API server did not return this time: a container can start again
    /// while the server cannot be reached.
    pub fn keep_known(&mut self, known: &[VolumeSpec]) {
        let of = |name: &str| {
            known.iter().find(|spec| spec.outer_names.iter().any(|outer| &*outer.name == name))
        };
        for failed in std::mem::take(&mut self.failed) {
            match of(&failed.name).filter(|_| failed.error.is_unread()) {
                Some(spec) => {
                    let names = spec.outer_names.iter().filter(|one| one.name == failed.name);
                    self.add(VolumeSpec { outer_names: names.cloned().collect(), ..spec.clone() });
                }
                None => self.failed.push(failed),
            }
        }
    }

    fn add(&mut self, spec: VolumeSpec) {
        match self.volumes.iter_mut().find(|known| known.id == spec.id) {
            Some(known) => {
                known.read_only &= spec.read_only;
                known.fs_group_applies |= spec.fs_group_applies;
                known.outer_names.extend(spec.outer_names);
            }
            None => self.volumes.push(spec),
        }
    }
}

/// The node affinity of the persistent volume does not match the node.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("no matching NodeSelectorTerms")]
pub struct WrongNode;

/// Whether a volume can be used on a node with these labels.
pub fn check_node(spec: &VolumeSpec, labels: &BTreeMap<String, String>) -> Result<(), WrongNode> {
    let terms = spec.persistent.as_ref().and_then(|one| one.node_affinity.as_deref());
    match terms {
        Some(terms) if !node_selector::matches_any(terms, labels, None) => Err(WrongNode),
        _ => Ok(()),
    }
}
