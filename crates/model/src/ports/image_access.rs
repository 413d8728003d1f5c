//! Which pods may use an image that is present, and with which credentials images are pulled.

use std::fmt::Debug;

use async_trait::async_trait;
use k8s_openapi::api::core::v1::Pod;

use crate::image_access::{PullCredential, PullCredentials};
use crate::ports::files::FileError;

/// Why there are no credentials for a pull. The text has no secret in it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct CredentialsError(pub String);

/// Whether a pod may use an image that the runtime has.
#[derive(Debug, Clone)]
pub enum PresentImage {
    /// The pod may use it.
    Allowed,
    /// The pod must prove by a pull that it may use the image.
    MustPull {
        /// The pod's credentials, if they were looked up for the decision.
        credentials: Option<PullCredentials>,
    },
}

/// Looks up credentials, and records which credentials pulled which image.
#[async_trait]
pub trait ImageAccess: Debug + Send + Sync {
    /// Whether messages mention that the access of pods to images is verified:
    /// `KubeletEnsureSecretPulledImages`.
    fn is_verifying(&self) -> bool;

    /// Whether a pod may use an image that is present. `image` is the name in the pod with its tag, `image_ref` is the
    /// runtime's reference.
    async fn check_present(
        &self,
        pod: &Pod,
        image: &str,
        image_ref: &str,
    ) -> Result<PresentImage, CredentialsError>;

    /// The credentials of a pod for an image.
    async fn credentials(
        &self,
        pod: &Pod,
        image: &str,
    ) -> Result<PullCredentials, CredentialsError>;

    /// Records that a pull begins, before it does: an image that was being pulled when the agent ended must not count
    /// as preloaded.
    async fn pull_begins(&self, image: &str) -> Result<(), FileError>;

    /// Records a pull that succeeded, with the credential that it succeeded with; `None` for an anonymous one.
    async fn pull_succeeded(&self, image: &str, image_ref: &str, with: Option<&PullCredential>);

    /// Records that a pull failed or was cancelled.
    async fn pull_failed(&self, image: &str);
}

/// Every pod may use every image, and pulls are anonymous.
#[derive(Debug, Clone, Copy, Default)]
pub struct OpenAccess;

#[async_trait]
impl ImageAccess for OpenAccess {
    fn is_verifying(&self) -> bool {
        true
    }

    async fn check_present(
        &self,
        _pod: &Pod,
        _image: &str,
        _image_ref: &str,
    ) -> Result<PresentImage, CredentialsError> {
        Ok(PresentImage::Allowed)
    }

    async fn credentials(
        &self,
        _pod: &Pod,
        _image: &str,
    ) -> Result<PullCredentials, CredentialsError> {
        Ok(PullCredentials::default())
    }

    async fn pull_begins(&self, _image: &str) -> Result<(), FileError> {
        Ok(())
    }

    async fn pull_succeeded(&self, _image: &str, _image_ref: &str, _with: Option<&PullCredential>) {
    }

    async fn pull_failed(&self, _image: &str) {}
}
