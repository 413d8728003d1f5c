//! API objects that pods refer to: how they are read from the API server, and how the parts of
//! the agent get them.

use std::collections::BTreeSet;
use std::fmt::Debug;
use std::sync::Arc;

use async_trait::async_trait;

use crate::ids::PodUid;
use crate::objects::{
    DataObject, ObjectKey, RuntimeClassRecord, ServiceAccountRecord, ServiceAccountToken,
    ServiceName, ServiceRecord, TokenRequest, TrustBundleRecord,
};
use crate::pod_certificates::{CertificateRequestRecord, CertificateSource, RequestedCertificate};
use crate::ports::cluster::{ApiError, Sink};
use crate::storage::{ClaimName, ClaimRecord, PersistentVolumeRecord};

/// The required version of an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Freshness {
    /// The newest.
    Newest,
    /// Any version that the server has cached.
    Any,
}

/// Reads secrets and config maps, one by one: a node may only read those of its own pods.
#[async_trait]
pub trait ObjectReads: Debug + Send + Sync {
    /// Sends one object and then its changes. Never returns.
    async fn follow_object(&self, key: &ObjectKey, sink: &dyn Sink<DataObject, ()>);

    /// Gets an object; `None` if it does not exist.
    async fn object(
        &self,
        key: &ObjectKey,
        freshness: Freshness,
    ) -> Result<Option<DataObject>, ApiError>;
}

/// Requests tokens of service accounts.
#[async_trait]
pub trait TokenRequests: Debug + Send + Sync {
    /// Requests one.
    async fn request_token(&self, request: &TokenRequest) -> Result<ServiceAccountToken, ApiError>;
}

/// Reads service accounts. A node may get those of its own pods.
#[async_trait]
pub trait ServiceAccountReads: Debug + Send + Sync {
    /// Gets a service account; `None` when there is none.
    async fn service_account(
        &self,
        namespace: &str,
        name: &str,
    ) -> Result<Option<ServiceAccountRecord>, ApiError>;
}

/// Reads persistent volumes and their claims. A node may get those of its own pods, but not watch them.
#[async_trait]
pub trait StorageReads: Debug + Send + Sync {
    /// Gets a claim; `None` if it does not exist.
    async fn claim(&self, name: &ClaimName) -> Result<Option<ClaimRecord>, ApiError>;

    /// Gets a persistent volume; `None` if it does not exist.
    async fn persistent_volume(
        &self,
        name: &str,
    ) -> Result<Option<PersistentVolumeRecord>, ApiError>;
}

/// Watches the services of the cluster.
#[async_trait]
pub trait ServiceFeed: Debug + Send + Sync {
    /// Sends all services and then every change. Never returns.
    async fn follow_services(&self, sink: &dyn Sink<ServiceRecord, ServiceName>);
}

/// Watches the runtime classes of the cluster.
#[async_trait]
pub trait RuntimeClassFeed: Debug + Send + Sync {
    /// Sends all runtime classes and then every change. Never returns.
    async fn follow_runtime_classes(&self, sink: &dyn Sink<RuntimeClassRecord, String>);
}

/// Watches the cluster trust bundles.
#[async_trait]
pub trait TrustBundleFeed: Debug + Send + Sync {
    /// Sends all trust bundles and then every change. Never returns.
    async fn follow_trust_bundles(&self, sink: &dyn Sink<TrustBundleRecord, String>);
}

/// Requests certificates of pods.
#[async_trait]
pub trait CertificateRequests: Debug + Send + Sync {
    /// Creates a key, and requests a certificate for it.
    async fn request_certificate(
        &self,
        source: &CertificateSource,
        node: &str,
    ) -> Result<RequestedCertificate, ApiError>;

    /// Sends all requests of the pods of a node and then every change. Never returns.
    async fn follow_certificate_requests(
        &self,
        node: &str,
        sink: &dyn Sink<CertificateRequestRecord, String>,
    );
}

/// Why an API object is not available. The texts are upstream's, because users search for them.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ObjectError {
    /// It does not exist.
    #[error("{resource} {name:?} not found")]
    NotFound {
        /// Its kind.
        resource: &'static str,
        /// Its name.
        name: Box<str>,
    },
    /// Its watch has not delivered it yet.
    #[error("failed to sync {resource} cache: timed out waiting for the condition")]
    NotYet {
        /// Its kind.
        resource: &'static str,
    },
    /// No known pod refers to it.
    #[error("object {namespace:?}/{name:?} not registered")]
    NotRegistered {
        /// Its namespace.
        namespace: Box<str>,
        /// Its name.
        name: Box<str>,
    },
    /// The request to the API server failed.
    #[error("{0}")]
    NotRead(String),
}

impl ObjectError {
    /// Whether it does not exist, which is fine for an optional reference.
    pub fn is_not_found(&self) -> bool {
        matches!(self, Self::NotFound { .. })
    }
}

/// The secrets and config maps of the node's pods.
#[async_trait]
pub trait PodObjects: Debug + Send + Sync {
    /// Registers the references of a pod, and drops its others.
    fn register(&self, pod: &PodUid, objects: BTreeSet<ObjectKey>);

    /// Drops all references of a pod.
    fn unregister(&self, pod: &PodUid);

    /// Gets an object that a pod refers to, read after the first of its pods was registered.
    async fn get(&self, key: &ObjectKey) -> Result<Arc<DataObject>, ObjectError>;
}

/// The environment variables of services.
#[async_trait]
pub trait ServiceVariables: Debug + Send + Sync {
    /// Waits until the services were listed, for some seconds at most.
    async fn first_list(&self);

    /// The variables for a pod in a namespace, which may disable service links; none before
    /// the services were listed.
    fn variables(&self, namespace: &str, links: bool) -> Option<Vec<(String, String)>>;
}

/// Resolves runtime classes.
#[async_trait]
pub trait RuntimeHandlers: Debug + Send + Sync {
    /// The handler of a class.
    async fn handler(&self, class: &str) -> Result<String, ObjectError>;
}
