//! A certificate with its key, as a file has both.

use std::collections::BTreeSet;
use std::fmt;
use std::net::IpAddr;

use jiff::Timestamp;
use rustls::crypto::ring;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::sign::CertifiedKey;
use x509_parser::prelude::{FromDer as _, GeneralName, X509Certificate};

/// Why a text is no certificate with its key.
#[derive(Debug, thiserror::Error)]
pub enum PairError {
    /// It has no certificate.
    #[error("there is no certificate")]
    NoCertificate,
    /// It has no key.
    #[error("there is no usable private key")]
    NoKey,
    /// A certificate cannot be decoded.
    #[error("a certificate cannot be decoded")]
    Undecodable,
    /// The key is not that of the certificate.
    #[error("the private key does not match the certificate")]
    Mismatch(#[source] rustls::Error),
}

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
    /// Reads the text of a file.
    pub fn parse(pem: String) -> Result<Self, PairError> {
        let chain = CertificateDer::pem_slice_iter(pem.as_bytes()).collect::<Result<Vec<_>, _>>();
        let chain = chain.map_err(|_| PairError::Undecodable)?;
        let mut facts = chain.iter().map(CertificateFacts::of).collect::<Result<Vec<_>, _>>()?;
        let Some(first_end) = facts.iter().map(|one| one.not_after).min() else {
            return Err(PairError::NoCertificate);
        };
        let key = PrivateKeyDer::from_pem_slice(pem.as_bytes()).map_err(|_| PairError::NoKey)?;
        CertifiedKey::from_der(chain, key, &ring::default_provider())
            .map_err(PairError::Mismatch)?;
        Ok(Self { pem, facts: facts.swap_remove(0), first_end })
    }

    /// Joins a chain and a key.
    pub fn join(chain: &str, key: &str) -> Result<Self, PairError> {
        Self::parse(format!("{}\n{}\n", chain.trim_end(), key.trim_end()))
    }

    /// Whether no certificate of the chain has expired.
    pub fn is_valid(&self, now: Timestamp) -> bool {
        now <= self.first_end
    }
}

impl CertificateFacts {
    fn of(certificate: &CertificateDer<'_>) -> Result<Self, PairError> {
        let (_, certificate) =
            X509Certificate::from_der(certificate).map_err(|_| PairError::Undecodable)?;
        let time = |seconds| Timestamp::from_second(seconds).map_err(|_| PairError::Undecodable);
        let subject = certificate.subject();
        let common_name = subject.iter_common_name().next().and_then(|name| name.as_str().ok());
        let organizations = subject.iter_organization().filter_map(|one| one.as_str().ok());
        let names = certificate.subject_alternative_name().ok().flatten();
        let names = names.map(|names| &*names.value.general_names).unwrap_or_default();
        let (mut dns_names, mut ips) = (BTreeSet::new(), BTreeSet::new());
        for name in names {
            match name {
                GeneralName::DNSName(name) => _ = dns_names.insert((*name).to_owned()),
                GeneralName::IPAddress(bytes) => ips.extend(ip(bytes)),
                _ => {}
            }
        }
        Ok(Self {
            not_before: time(certificate.validity().not_before.timestamp())?,
            not_after: time(certificate.validity().not_after.timestamp())?,
            common_name: common_name.unwrap_or_default().to_owned(),
            organizations: organizations.map(ToOwned::to_owned).collect(),
            dns_names,
            ips,
        })
    }
}

fn ip(bytes: &[u8]) -> Option<IpAddr> {
    let four = <[u8; 4]>::try_from(bytes).map(IpAddr::from).ok();
    four.or_else(|| <[u8; 16]>::try_from(bytes).map(IpAddr::from).ok())
}
