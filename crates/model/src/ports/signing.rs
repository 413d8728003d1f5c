//! Requests for the node's own certificates.

use std::fmt::Debug;

use async_trait::async_trait;

use crate::ports::cluster::{ApiError, Sink};
use crate::signing::{SigningRequest, SigningRequestId, SigningRequestRecord};

/// Creates and reads `CertificateSigningRequest` objects.
#[async_trait]
pub trait SigningRequests: Debug + Send + Sync {
    /// Creates a request. [`ApiError::Conflict`] if one of this name exists.
    async fn create_signing_request(
        &self,
        request: &SigningRequest,
    ) -> Result<SigningRequestId, ApiError>;

    /// Gets a request; `None` if it does not exist.
    async fn signing_request(&self, name: &str) -> Result<Option<SigningRequestRecord>, ApiError>;

    /// Sends one request and then its changes. Never returns.
    async fn follow_signing_request(
        &self,
        name: &str,
        sink: &dyn Sink<SigningRequestRecord, String>,
    );
}

/// Reloads the client certificate of a connection.
pub trait ReloadIdentity: Debug + Send + Sync {
    /// The file of the client certificate changed: the next call reads it.
    fn reload_identity(&self);
}
