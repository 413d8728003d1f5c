//! A certificate with its key, as a file has both.

use std::collections::BTreeSet;
use std::net::IpAddr;

use jiff::Timestamp;

use rustls::crypto::ring;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::sign::CertifiedKey;
use x509_parser::prelude::{FromDer as _, GeneralName, X509Certificate};

use crate::decide::{CertificateFacts, CertificatePair};

/// Why a text is not a certificate with its key.
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
    /// The key does not belong to the certificate.
    #[error("the private key does not match the certificate")]
    Mismatch(#[source] rustls::Error),
}

/// Reads a certificate with its key, from the text of a file.
pub fn parse_pair(pem: String) -> Result<CertificatePair, PairError> {
    let chain = CertificateDer::pem_slice_iter(pem.as_bytes()).collect::<Result<Vec<_>, _>>();
    let chain = chain.map_err(|_| PairError::Undecodable)?;
    let mut facts = chain.iter().map(facts_of).collect::<Result<Vec<_>, _>>()?;
    let Some(first_end) = facts.iter().map(|one| one.not_after).min() else {
        return Err(PairError::NoCertificate);
    };
    let key = PrivateKeyDer::from_pem_slice(pem.as_bytes()).map_err(|_| PairError::NoKey)?;
    CertifiedKey::from_der(chain, key, &ring::default_provider()).map_err(PairError::Mismatch)?;
    Ok(CertificatePair { pem, facts: facts.swap_remove(0), first_end })
}

/// Joins a chain and a key.
pub(crate) fn join(chain: &str, key: &str) -> Result<CertificatePair, PairError> {
    parse_pair(format!("{}\n{}\n", chain.trim_end(), key.trim_end()))
}

fn facts_of(certificate: &CertificateDer<'_>) -> Result<CertificateFacts, PairError> {
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
    Ok(CertificateFacts {
        not_before: time(certificate.validity().not_before.timestamp())?,
        not_after: time(certificate.validity().not_after.timestamp())?,
        common_name: common_name.unwrap_or_default().to_owned(),
        organizations: organizations.map(ToOwned::to_owned).collect(),
        dns_names,
        ips,
    })
}

fn ip(bytes: &[u8]) -> Option<IpAddr> {
    let four = <[u8; 4]>::try_from(bytes).map(IpAddr::from).ok();
    four.or_else(|| <[u8; 16]>::try_from(bytes).map(IpAddr::from).ok())
}
