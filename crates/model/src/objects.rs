//! API objects that pods refer to: the stored parts of secrets, config maps, services and runtime
//! classes, and tokens of service accounts.

use std::collections::BTreeMap;
use std::fmt;

use jiff::Timestamp;

use crate::cluster::{Uid, Version};
use crate::ids::{PodName, PodUid};

/// A kind of object that a pod can refer to for data.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ObjectKind {
    /// A secret.
    Secret,
    /// A config map.
    ConfigMap,
}

impl ObjectKind {
    /// Its name in upstream's cache.
    pub fn singular(self) -> &'static str {
        match self {
            Self::Secret => "secret",
            Self::ConfigMap => "configmap",
        }
    }

    /// Its resource name in the API.
    pub fn resource(self) -> &'static str {
        match self {
            Self::Secret => "secrets",
            Self::ConfigMap => "configmaps",
        }
    }

    /// Its kind in the API.
    pub fn kind(self) -> &'static str {
        match self {
            Self::Secret => "Secret",
            Self::ConfigMap => "ConfigMap",
        }
    }
}

/// The identity of an object.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ObjectKey {
    /// Its kind.
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

/// A secret or a config map. Its content is never printed.
#[derive(Clone, PartialEq, Eq, Default)]
pub struct DataObject {
    /// `metadata.uid`.
    pub uid: Uid,
    /// `metadata.resourceVersion`.
    pub version: Version,
    /// `type` of a secret.
    pub secret_type: Box<str>,
    /// Whether it is immutable.
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

/// A request for a token.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct TokenRequest {
    /// The name of the service account, which is in the pod's namespace.
    pub service_account: Box<str>,
    /// The audiences of the token; none means the API server.
    pub audiences: Vec<String>,
    /// The requested lifetime in seconds; the server may choose another.
    pub expiration_seconds: i64,
    /// The pod that it is bound to: it is invalid once the pod is removed.
    pub pod: PodName,
    /// The UID of that pod.
    pub pod_uid: PodUid,
}

/// A token. Never printed.
#[derive(Clone, PartialEq, Eq)]
pub struct ServiceAccountToken {
    /// The token itself.
    pub token: String,
    /// The requested lifetime in seconds.
    pub expiration_seconds: i64,
    /// When it expires.
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

/// The stored fields of a service.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServiceRecord {
    /// Its name.
    pub name: ServiceName,
    /// `spec.clusterIP`; empty, or `None`, for a service without a cluster IP.
    pub cluster_ip: Box<str>,
    /// Its ports, in order.
    pub ports: Vec<ServicePort>,
}

impl ServiceRecord {
    /// Whether it has a cluster IP.
    pub fn has_address(&self) -> bool {
        !self.cluster_ip.is_empty() && &*self.cluster_ip != "None"
    }
}

/// A port of a service.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServicePort {
    /// Its name; only the first port's may be empty.
    pub name: Box<str>,
    /// The protocol; `TCP` by default.
    pub protocol: Box<str>,
    /// Its number.
    pub port: i32,
}

/// The stored fields of a cluster trust bundle.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct TrustBundleRecord {
    /// Its name.
    pub name: String,
    /// Its signer; empty if it has none.
    pub signer: String,
    /// Its labels.
    pub labels: BTreeMap<String, String>,
    /// Certificates in PEM.
    pub certificates: String,
}

/// The stored fields of a runtime class.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RuntimeClassRecord {
    /// Its name.
    pub name: String,
    /// The handler of the runtime.
    pub handler: String,
}

#[cfg(test)]
mod tests {
    use super::*;

    // behaviour: OBJ-19
    #[test]
    fn debug_output_has_no_secrets() {
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
