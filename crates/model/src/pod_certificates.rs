//! Certificates of pods, which signers of the cluster issue on request.

use std::collections::BTreeMap;
use std::fmt;

use jiff::Timestamp;

use crate::ids::{PodName, PodUid};

/// A source of a projected volume that needs a certificate.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct CertificateSource {
    /// The UID of the pod.
    pub pod_uid: PodUid,
    /// The pod.
    pub pod: PodName,
    /// The volume.
    pub volume: Box<str>,
    /// The position among the sources of the volume.
    pub index: usize,
    /// The service account of the pod.
    pub service_account: Box<str>,
    /// The signer.
    pub signer: Box<str>,
    /// The kind of the key: `ECDSAP256`.
    pub key_type: Box<str>,
    /// `maxExpirationSeconds`.
    pub max_expiration_seconds: Option<i32>,
    /// `userAnnotations`.
    pub annotations: BTreeMap<String, String>,
}

/// A private key and the certificates that belong to it, both in PEM. Never printed.
#[derive(Clone, PartialEq, Eq)]
pub struct Credentials {
    /// The key.
    pub key: Box<str>,
    /// The certificate, followed by those of its issuers.
    pub chain: Box<str>,
}

impl fmt::Debug for Credentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Credentials").finish_non_exhaustive()
    }
}

/// A created request. The key is never printed.
#[derive(Clone, PartialEq, Eq)]
pub struct RequestedCertificate {
    /// Namespace and name of the request.
    pub name: String,
    /// The private key, in PEM.
    pub key: Box<str>,
}

impl fmt::Debug for RequestedCertificate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RequestedCertificate").field("name", &self.name).finish_non_exhaustive()
    }
}

/// The stored fields of a `PodCertificateRequest`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CertificateRequestRecord {
    /// Namespace and name.
    pub name: String,
    /// The pod.
    pub pod_uid: PodUid,
    /// The answer of the signer.
    pub answer: CertificateAnswer,
}

/// The answer of a signer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CertificateAnswer {
    /// There is none yet.
    Pending,
    /// It was refused permanently.
    Refused {
        /// Whether it failed, in place of being denied.
        has_failed: bool,
        /// The reason.
        reason: String,
        /// The message.
        message: String,
    },
    /// The certificate was issued.
    Issued {
        /// The certificate, followed by those of its issuers, in PEM.
        chain: Box<str>,
        /// When it is due for renewal.
        refresh_at: Timestamp,
        /// When it expires.
        expires: Timestamp,
    },
}
