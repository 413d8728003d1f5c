//! Keys, and requests that prove their possession.

use std::net::IpAddr;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use model::signing::{CLIENT_SIGNER, SERVING_SIGNER, SigningRequest};
use rcgen::{
    CertificateParams, DistinguishedName, DnType, KeyPair, PKCS_RSA_SHA256, PublicKeyData as _,
    SanType,
};
use rustls::pki_types::PrivateKeyDer;
use rustls::pki_types::pem::PemObject as _;
use sha2::{Digest as _, Sha512_256};

use crate::decide::{Role, Template};

/// `PrivateKeyInfo` before the `ECPrivateKey` of a P-256 key: version, algorithm and curve.
const P256: [u8; 24] = [
    0x02, 0x01, 0x00, 0x30, 0x13, 0x06, 0x07, 0x2a, 0x86, 0x48, 0xce, 0x3d, 0x02, 0x01, 0x06, 0x08,
    0x2a, 0x86, 0x48, 0xce, 0x3d, 0x03, 0x01, 0x07,
];

/// The usage that only RSA keys have.
const ENCIPHERMENT: &str = "key encipherment";

/// Why there is no key or request.
#[derive(Debug, thiserror::Error)]
pub enum KeyError {
    /// The key cannot be generated.
    #[error("generate a key")]
    Generate(#[source] rcgen::Error),
    /// A stored key cannot be used.
    #[error("use the stored key")]
    Stored(#[source] rcgen::Error),
    /// The stored text has no key.
    #[error("there is no private key")]
    NoKey,
    /// A name cannot be part of a request.
    #[error("name {0:?} cannot be part of a request")]
    Name(String),
    /// The request cannot be signed.
    #[error("sign the request")]
    Sign(#[source] rcgen::Error),
}

/// The key of a request. Never printed.
pub struct RequestKey(KeyPair);

impl std::fmt::Debug for RequestKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("RequestKey")
    }
}

impl RequestKey {
    /// Generates an ECDSA P-256 key, like upstream.
    pub fn generate() -> Result<Self, KeyError> {
        KeyPair::generate().map(Self).map_err(KeyError::Generate)
    }

    /// Reads a key. The kubelet stores EC keys in SEC 1 format.
    pub fn parse(pem: &[u8]) -> Result<Self, KeyError> {
        let key = PrivateKeyDer::from_pem_slice(pem).map_err(|_| KeyError::NoKey)?;
        let der = match &key {
            PrivateKeyDer::Sec1(key) => PrivateKeyDer::Pkcs8(p256(key.secret_sec1_der()).into()),
            _ => key,
        };
        KeyPair::try_from(&der).map(Self).map_err(KeyError::Stored)
    }

    /// The key, in PEM.
    pub fn pem(&self) -> String {
        self.0.serialize_pem()
    }

    /// The usages of a certificate of this key. Only RSA keys encipher others.
    fn usages(&self, role: Role) -> Vec<&'static str> {
        let is_rsa = self.0.is_compatible(&PKCS_RSA_SHA256);
        let encipherment = is_rsa.then_some(ENCIPHERMENT);
        let purpose = match role {
            Role::Client => "client auth",
            Role::Serving => "server auth",
        };
        ["digital signature"].into_iter().chain(encipherment).chain([purpose]).collect()
    }

    /// A request for a certificate of this key; with `is_named`, the name depends only on the key.
    pub fn request(
        &self,
        role: Role,
        template: &Template,
        is_named: bool,
    ) -> Result<SigningRequest, KeyError> {
        let mut params = CertificateParams::default();
        params.distinguished_name = DistinguishedName::new();
        params.distinguished_name.push(DnType::OrganizationName, &*template.organization);
        params.distinguished_name.push(DnType::CommonName, &*template.common_name);
        for name in &template.dns_names {
            let text = name.as_str().try_into().map_err(|_| KeyError::Name(name.clone()))?;
            params.subject_alt_names.push(SanType::DnsName(text));
        }
        let ips = template.ips.iter().copied();
        params.subject_alt_names.extend(ips.map(|ip: IpAddr| SanType::IpAddress(ip)));
        let csr = params.serialize_request(&self.0).map_err(KeyError::Sign)?;
        let usages = self.usages(role);
        let signer = match role {
            Role::Client => CLIENT_SIGNER,
            Role::Serving => SERVING_SIGNER,
        };
        let name = is_named.then(|| self.digested_name(template, &usages));
        let request = csr.pem().map_err(KeyError::Sign)?;
        Ok(SigningRequest { name, signer, request, usages })
    }

    /// Like upstream's `digestedName`: after a restart, the same key has the same request. Upstream's order
    /// of usages differs: the purpose comes before the encipherment.
    fn digested_name(&self, template: &Template, usages: &[&str]) -> String {
        let mut hash = Sha512_256::new();
        let mut write = |data: &[u8]| {
            hash.update(URL_SAFE_NO_PAD.encode(data));
            hash.update(b"|");
        };
        write(&self.0.subject_public_key_info());
        write(template.common_name.as_bytes());
        write(template.organization.as_bytes());
        let is_last = |usage: &&&str| **usage == ENCIPHERMENT;
        let (last, first): (Vec<&&str>, Vec<&&str>) = usages.iter().partition(is_last);
        for usage in first.into_iter().chain(last) {
            write(usage.as_bytes());
        }
        format!("node-csr-{}", URL_SAFE_NO_PAD.encode(hash.finalize()))
    }
}

/// Wraps the `ECPrivateKey` of a P-256 key into a `PrivateKeyInfo`.
fn p256(sec1: &[u8]) -> Vec<u8> {
    let mut inner = P256.to_vec();
    // An octet string.
    inner.push(0x04);
    push_length(&mut inner, sec1.len());
    inner.extend_from_slice(sec1);
    let mut whole = vec![0x30];
    push_length(&mut whole, inner.len());
    whole.extend_from_slice(&inner);
    whole
}

/// A length in DER.
fn push_length(der: &mut Vec<u8>, length: usize) {
    match length {
        0..=0x7f => der.push(u8::try_from(length).unwrap_or_default()),
        0x80..=0xff => der.extend([0x81, u8::try_from(length).unwrap_or_default()]),
        _ => {
            let bytes = u16::try_from(length).unwrap_or(u16::MAX).to_be_bytes();
            der.extend([0x82, bytes[0], bytes[1]]);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A key as the kubelet writes it to `kubelet-client.key.tmp`.
    const SEC1: &str = "-----BEGIN EC PRIVATE KEY-----\n\
        MHcCAQEEIF3vQm53Ym2RVKrEYO1qknkwm1gewHls9BHFUh4hv/COoAoGCCqGSM49\n\
        AwEHoUQDQgAEPIP3brvIBd/gdjoQS6Y9r5wf2t6igFvPic41NdGircRiwTNSlrB1\n\
        l2f+mfAa4vQbcSdZGHoVVL1QJC7UWwONQw==\n\
        -----END EC PRIVATE KEY-----\n";
    /// The name that the kubelet gives the request of this key, for node `n1`.
    const NAME: &str = "node-csr-FxS3vJuvm6TvOfztnWsXl10QvANE3tBtKxTzDjLpCKY";

    // behaviour: CERT-6
    #[test]
    fn key_of_an_upstream_kubelet_has_the_same_request_name() {
        let key = RequestKey::parse(SEC1.as_bytes()).unwrap();
        let request = key.request(Role::Client, &Template::client("n1"), true).unwrap();
        assert_eq!(request.name.as_deref(), Some(NAME));
        assert_eq!(request.usages, ["digital signature", "client auth"]);
        let again = RequestKey::parse(key.pem().as_bytes()).unwrap();
        let again = again.request(Role::Client, &Template::client("n1"), true).unwrap();
        assert_eq!(again.name, request.name);
        let other = key.request(Role::Client, &Template::client("n2"), true).unwrap();
        assert_ne!(other.name, request.name);
    }

    // behaviour: CERT-14
    #[test]
    fn serving_request_has_names_and_addresses() {
        use x509_parser::certification_request::X509CertificationRequest;
        use x509_parser::prelude::{FromDer as _, ParsedExtension};

        let mut template = Template::client("n1");
        template.dns_names.insert("n1".to_owned());
        template.ips.insert("10.0.0.1".parse().unwrap());
        let key = RequestKey::generate().unwrap();
        let made = key.request(Role::Serving, &template, false).unwrap();
        assert_eq!((made.signer, made.name), (SERVING_SIGNER, None));
        assert_eq!(made.usages, ["digital signature", "server auth"]);
        let (_, pem) = x509_parser::pem::parse_x509_pem(made.request.as_bytes()).unwrap();
        let (_, request) = X509CertificationRequest::from_der(&pem.contents).unwrap();
        let subject = request.certification_request_info.subject.to_string();
        assert_eq!(subject, "O=system:nodes, CN=system:node:n1");
        let names = request.requested_extensions().unwrap().find_map(|one| match one {
            ParsedExtension::SubjectAlternativeName(names) => Some(names.general_names.len()),
            _ => None,
        });
        assert_eq!(names, Some(2));
    }
}
