//! A certificate with its key, as data.

use std::collections::BTreeSet;
use std::fmt;
use std::net::IpAddr;

use jiff::Timestamp;

/// The decoded fields of a certificate.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CertificateFacts {
    /// The start of its validity.
    pub not_before: Timestamp,
    /// Its end.
    pub not_after: Timestamp,
    /// The common name.
    pub common_name: String,
    /// The organizations.
    pub organizations: BTreeSet<String>,
    /// The DNS names.
    pub dns_names: BTreeSet<String>,
    /// The IP addresses.
    pub ips: BTreeSet<IpAddr>,
}

/// A certificate chain with the key of its first certificate. Never printed.
#[derive(Clone, PartialEq, Eq)]
pub struct CertificatePair {
    /// Both in PEM, the chain first.
    pub pem: String,
    /// The first certificate.
    pub facts: CertificateFacts,
    /// The earliest end of a certificate of the chain.
    pub first_end: Timestamp,
}

impl fmt::Debug for CertificatePair {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CertificatePair").field("facts", &self.facts).finish_non_exhaustive()
    }
}

impl CertificatePair {
    /// Whether no certificate of the chain has expired.
    pub fn is_valid(&self, now: Timestamp) -> bool {
        now <= self.first_end
    }
}
