//! Requests for certificates of the node itself: `CertificateSigningRequest` objects.

use std::fmt;

/// The signer of the kubelet's client certificates.
pub const CLIENT_SIGNER: &str = "kubernetes.io/kube-apiserver-client-kubelet";
/// The signer of the kubelet's serving certificates.
pub const SERVING_SIGNER: &str = "kubernetes.io/kubelet-serving";

/// A `CertificateSigningRequest` to create.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SigningRequest {
    /// The name; the API server generates one without it.
    pub name: Option<String>,
    /// The signer.
    pub signer: &'static str,
    /// The PKCS#10 request, in PEM.
    pub request: String,
    /// The requested usages of the key.
    pub usages: Vec<&'static str>,
}

/// The identity of a created request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SigningRequestId {
    /// Its name.
    pub name: String,
    /// Its UID.
    pub uid: String,
}

/// The stored fields of a `CertificateSigningRequest`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SigningRequestRecord {
    /// Name and UID.
    pub id: SigningRequestId,
    /// The signer.
    pub signer: String,
    /// The PKCS#10 request, in PEM.
    pub request: String,
    /// The state.
    pub state: SigningState,
}

/// The state of a request.
#[derive(Clone, PartialEq, Eq)]
pub enum SigningState {
    /// It waits for approval.
    Pending,
    /// It is approved, and waits for its signer.
    Approved,
    /// It was denied, or its signer failed; both are final.
    Refused {
        /// Whether the signer failed, in place of an approver denying it.
        has_failed: bool,
        /// The reason.
        reason: String,
        /// The message.
        message: String,
    },
    /// The certificate, followed by those of its issuers, in PEM.
    Issued(Box<str>),
    /// The request was deleted, or replaced by another one of its name.
    Deleted,
}

impl fmt::Debug for SigningState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Pending => f.write_str("Pending"),
            Self::Approved => f.write_str("Approved"),
            Self::Refused { has_failed: false, reason, .. } => write!(f, "Denied({reason})"),
            Self::Refused { has_failed: true, reason, .. } => write!(f, "Failed({reason})"),
            // Certificates are long.
            Self::Issued(_) => f.write_str("Issued"),
            Self::Deleted => f.write_str("Deleted"),
        }
    }
}
