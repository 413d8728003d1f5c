//! Persistent volumes and their claims, with the fields that a node needs.

use std::fmt;

use k8s_openapi::api::core::v1::NodeSelectorTerm;

/// Namespace and name of a persistent volume claim.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ClaimName {
    /// Its namespace.
    pub namespace: Box<str>,
    /// Its name.
    pub name: Box<str>,
}

impl fmt::Display for ClaimName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.namespace, self.name)
    }
}

/// The stored fields of a persistent volume claim.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ClaimRecord {
    /// `metadata.uid`.
    pub uid: Box<str>,
    /// The UID of its controlling owner, if it has one.
    pub controller: Option<Box<str>>,
    /// Whether it has a deletion timestamp.
    pub is_being_deleted: bool,
    /// Whether it has the finalizer `kubernetes.io/pvc-protection`.
    pub is_protected: bool,
    /// Whether its phase is `Bound`.
    pub is_bound: bool,
    /// `spec.volumeName`; empty before it is bound.
    pub volume: Box<str>,
}

/// The stored fields of a persistent volume.
#[derive(Debug, Clone, PartialEq)]
pub struct PersistentVolumeRecord {
    /// The UID in `spec.claimRef`; `None` without a `claimRef`.
    pub claim_uid: Option<Box<str>>,
    /// `spec.volumeMode`: `Filesystem` or `Block`.
    pub mode: Option<Box<str>>,
    /// `spec.accessModes`.
    pub access_modes: Vec<String>,
    /// The mount options, of the annotation if it is set, else of the spec.
    pub mount_options: Vec<String>,
    /// The annotation `pv.beta.kubernetes.io/gid`.
    pub group: Option<Box<str>>,
    /// `spec.nodeAffinity.required`: one of the terms must match the node.
    pub node_affinity: Option<Vec<NodeSelectorTerm>>,
    /// The location of the data.
    pub source: PersistentVolumeSource,
}

/// The location of the data of a persistent volume.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PersistentVolumeSource {
    /// A path of the host.
    HostPath {
        /// The path.
        path: String,
        /// `type`; empty for any.
        kind: String,
    },
    /// A directory or block device of the node.
    Local {
        /// The path.
        path: String,
        /// The file system of a block device; `ext4` without one.
        fs_type: Option<String>,
    },
    /// A directory of an NFS server.
    Nfs {
        /// The server.
        server: String,
        /// The directory.
        path: String,
    },
    /// A kind that is not supported, by the name of its field: `csi`.
    Other(Box<str>),
}
