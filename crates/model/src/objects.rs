//! Objects of the API that pods refer to: what is kept of secrets, config maps, services and runtime
//! classes, and tokens of service accounts.

use std::collections::BTreeMap;
use std::fmt;

use jiff::Timestamp;

use crate::cluster::{Uid, Version};
use crate::ids::{PodName, PodUid};

/// What a pod can refer to for its data.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ObjectKind {
    /// A secret.
    Secret,
    /// A config map.
    ConfigMap,
}

impl ObjectKind {
    /// As upstream's own cache names it.
    pub fn singular(self) -> &'static str {
        match self {
            Self::Secret => "secret",
            Self::ConfigMap => "configmap",
        }
    }

    /// As the API server names it.
    pub fn resource(self) -> &'static str {
        match self {
            Self::Secret => "secrets",
            Self::ConfigMap => "configmaps",
        }
    }

    /// As people write it.
    pub fn kind(self) -> &'static str {
        match self {
            Self::Secret => "Secret",
            Self::ConfigMap => "ConfigMap",
        }
    }
}

/// One object.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ObjectKey {
    /// Of which kind.
    pub kind: ObjectKind,
    /// Its namespace.
    pub namespace: Box<str>,
    /// Its name.
    pub name: Box<str>,
}

impl ObjectKey {
    /// A secret.
    pub fn secret(namespace: &str, name: &str) -> Self {
        Self { kind: ObjectKind::Secret, namespace: namespace.into(), name: name.into() }
    }

    /// A config map.
    pub fn config_map(namespace: &str, name: &str) -> Self {
        Self { kind: ObjectKind::ConfigMap, namespace: namespace.into(), name: name.into() }
    }
}

impl fmt::Display for ObjectKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}/{}", self.kind.singular(), self.namespace, self.name)
    }
}

/// A secret or a config map. What it holds is never printed.
#[derive(Clone, PartialEq, Eq, Default)]
pub struct DataObject {
    /// `metadata.uid`.
    pub uid: Uid,
    /// `metadata.resourceVersion`.
    pub version: Version,
    /// `type` of a secret.
    pub secret_type: Box<str>,
    /// Whether it never changes.
    pub is_immutable: bool,
    /// `data`, decoded.
    pub data: BTreeMap<Box<str>, Box<[u8]>>,
    /// `binaryData` of a config map, decoded.
    pub binary_data: BTreeMap<Box<str>, Box<[u8]>>,
}

impl fmt::Debug for DataObject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DataObject")
            .field("version", &self.version)
            .field("is_immutable", &self.is_immutable)
            .field("keys", &self.data.keys().chain(self.binary_data.keys()).collect::<Vec<_>>())
            .finish_non_exhaustive()
    }
}

/// The part of a service account that credential provider plugins receive.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ServiceAccountRecord {
    /// `metadata.uid`.
    pub uid: Box<str>,
    /// `metadata.annotations`.
    pub annotations: BTreeMap<String, String>,
}

/// A token to be asked for.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct TokenRequest {
    /// The name of the service account, which is in the pod's namespace.
    pub service_account: Box<str>,
    /// Whom the token is for; nobody named is the API server.
    pub audiences: Vec<String>,
    /// For how many seconds; the server may give another time.
    pub expiration_seconds: i64,
    /// The pod that it is bound to: it is good for nothing once the pod is gone.
    pub pod: PodName,
    /// That pod's uid.
    pub pod_uid: PodUid,
}

/// A token. Never printed.
#[derive(Clone, PartialEq, Eq)]
pub struct ServiceAccountToken {
    /// The token itself.
    pub token: String,
    /// For how many seconds it was given.
    pub expiration_seconds: i64,
    /// Until when it is good.
    pub expires: Timestamp,
}

impl fmt::Debug for ServiceAccountToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ServiceAccountToken")
            .field("expires", &self.expires)
            .finish_non_exhaustive()
    }
}

/// Namespace and name of a service.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct ServiceName {
    /// Its namespace.
    pub namespace: Box<str>,
    /// Its name.
    pub name: Box<str>,
}

/// What is kept of a service.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServiceRecord {
    /// What it is called.
    pub name: ServiceName,
    /// `spec.clusterIP`; empty, or `None`, for one without an address of its own.
    pub cluster_ip: Box<str>,
    /// Its ports, in order.
    pub ports: Vec<ServicePort>,
}

impl ServiceRecord {
    /// Whether it has an address of its own.
    pub fn has_address(&self) -> bool {
        !self.cluster_ip.is_empty() && &*self.cluster_ip != "None"
    }
}

/// A port of a service.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServicePort {
    /// Its name; only that of the first may be empty.
    pub name: Box<str>,
    /// `TCP` unless it says otherwise.
    pub protocol: Box<str>,
    /// Its number.
    pub port: i32,
}

/// What is kept of a cluster trust bundle.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct TrustBundleRecord {
    /// Its name.
    pub name: String,
    /// The signer that it belongs to; empty if it belongs to none.
    pub signer: String,
    /// Its labels.
    pub labels: BTreeMap<String, String>,
    /// Certificates in PEM.
    pub certificates: String,
}

/// What is kept of a runtime class.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RuntimeClassRecord {
    /// Its name.
    pub name: String,
    /// How the runtime calls it.
    pub handler: String,
}

#[cfg(test)]
mod tests {
    use super::*;

    // behaviour: OBJ-19
    #[test]
    fn what_is_secret_is_not_printed() {
        let object = DataObject {
            data: BTreeMap::from([("key".into(), b"hidden".as_slice().into())]),
            ..DataObject::default()
        };
        let token = ServiceAccountToken {
            token: "hidden".to_owned(),
            expiration_seconds: 1,
            expires: Timestamp::UNIX_EPOCH,
        };
        let printed = format!("{object:?} {token:?}");
        assert!(printed.contains("key"), "{printed}");
        assert!(!printed.contains("hidden") && !printed.contains("104"), "{printed}");
    }
}
