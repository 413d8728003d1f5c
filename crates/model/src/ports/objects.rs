//! Objects of the API that pods refer to: how they are read from the API server, and how the parts of
//! the agent that need them get them.

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

/// Which version of an object is good enough.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Freshness {
    /// The newest.
    Newest,
    /// Whichever the server has at hand.
    Any,
}

/// Reads secrets and config maps, one by one: a node may see those of its own pods alone.
#[async_trait]
pub trait ObjectReads: Debug + Send + Sync {
    /// Tells one object and then what changes. Never returns, as no feed does.
    async fn follow_object(&self, key: &ObjectKey, sink: &dyn Sink<DataObject, ()>);

    /// Asks for an object; `None` when there is none.
    async fn object(
        &self,
        key: &ObjectKey,
        freshness: Freshness,
    ) -> Result<Option<DataObject>, ApiError>;
}

/// Asks for tokens of service accounts.
#[async_trait]
pub trait TokenRequests: Debug + Send + Sync {
    /// Asks for one.
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

/// Reads persistent volumes and their claims. A node may get those of its own pods, and may not watch them.
#[async_trait]
pub trait StorageReads: Debug + Send + Sync {
    /// Gets a claim; `None` when there is none.
    async fn claim(&self, name: &ClaimName) -> Result<Option<ClaimRecord>, ApiError>;

    /// Gets a persistent volume; `None` when there is none.
    async fn persistent_volume(
        &self,
        name: &str,
    ) -> Result<Option<PersistentVolumeRecord>, ApiError>;
}

/// Follows the services of the cluster.
#[async_trait]
pub trait ServiceFeed: Debug + Send + Sync {
    /// Tells all services and then every change. Never returns.
    async fn follow_services(&self, sink: &dyn Sink<ServiceRecord, ServiceName>);
}

/// Follows the runtime classes of the cluster.
#[async_trait]
pub trait RuntimeClassFeed: Debug + Send + Sync {
    /// Tells all runtime classes and then every change. Never returns.
    async fn follow_runtime_classes(&self, sink: &dyn Sink<RuntimeClassRecord, String>);
}

/// Follows the cluster trust bundles.
#[async_trait]
pub trait TrustBundleFeed: Debug + Send + Sync {
    /// Sends all trust bundles and then every change. Never returns.
    async fn follow_trust_bundles(&self, sink: &dyn Sink<TrustBundleRecord, String>);
}

/// Requests certificates of pods.
#[async_trait]
pub trait CertificateRequests: Debug + Send + Sync {
    /// Makes a key, and requests a certificate for it.
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

/// Why an object of the API is not to be had. The texts are upstream's, because people look for them.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ObjectError {
    /// There is none.
    #[error("{resource} {name:?} not found")]
    NotFound {
        /// Of which kind.
        resource: &'static str,
        /// Its name.
        name: Box<str>,
    },
    /// Nothing was heard of it yet.
    #[error("failed to sync {resource} cache: timed out waiting for the condition")]
    NotYet {
        /// Of which kind.
        resource: &'static str,
    },
    /// No pod that is known refers to it.
    #[error("object {namespace:?}/{name:?} not registered")]
    NotRegistered {
        /// Its namespace.
        namespace: Box<str>,
        /// Its name.
        name: Box<str>,
    },
    /// The API server did not tell.
    #[error("{0}")]
    NotRead(String),
}

impl ObjectError {
    /// Whether there is none, which is no problem for one that need not be there.
    pub fn is_not_found(&self) -> bool {
        matches!(self, Self::NotFound { .. })
    }
}

/// The secrets and config maps of the node's pods.
#[async_trait]
pub trait PodObjects: Debug + Send + Sync {
    /// A pod refers to these from now on, and to no others.
    fn register(&self, pod: &PodUid, objects: BTreeSet<ObjectKey>);

    /// A pod refers to nothing any more.
    fn unregister(&self, pod: &PodUid);

    /// An object that a pod refers to, read no earlier than the first of its pods was registered.
    async fn get(&self, key: &ObjectKey) -> Result<Arc<DataObject>, ObjectError>;
}

/// The variables that tell containers of services.
pub trait ServiceVariables: Debug + Send + Sync {
    /// Those of a pod in a namespace, which may not want to know of its neighbours; nothing before
    /// the services were heard of.
    fn variables(&self, namespace: &str, links: bool) -> Option<Vec<(String, String)>>;
}

/// What runtime classes stand for.
#[async_trait]
pub trait RuntimeHandlers: Debug + Send + Sync {
    /// How the runtime calls a class.
    async fn handler(&self, class: &str) -> Result<String, ObjectError>;
}
