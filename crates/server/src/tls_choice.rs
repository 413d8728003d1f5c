//! Cipher suites and key exchanges, by the names of the Kubernetes configuration.

use rustls::crypto::CryptoProvider;
use rustls::crypto::ring::{cipher_suite, default_provider};
use rustls::{NamedGroup, SupportedCipherSuite};
use tracing::warn;

use crate::tls::TlsError;

/// The supported TLS 1.2 cipher suites, by their Go names.
const SUITES: [(&str, SupportedCipherSuite); 8] = [
    (
        "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256",
        cipher_suite::TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256,
    ),
    (
        "TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384",
        cipher_suite::TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384,
    ),
    (
        "TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305",
        cipher_suite::TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256,
    ),
    (
        "TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256",
        cipher_suite::TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256,
    ),
    ("TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256", cipher_suite::TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256),
    ("TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384", cipher_suite::TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384),
    (
        "TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305",
        cipher_suite::TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256,
    ),
    (
        "TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256",
        cipher_suite::TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256,
    ),
];

/// The cryptography of a port with these TLS 1.2 cipher suites and key exchanges. TLS 1.3 has its own cipher
/// suites, which cannot be chosen. Unsupported ones are skipped; an empty result is an error.
pub(crate) fn provider(suites: &[String], curves: &[i32]) -> Result<CryptoProvider, TlsError> {
    let mut provider = default_provider();
    if !suites.is_empty() {
        let found = suites.iter().filter_map(|name| {
            let suite = SUITES.iter().find(|(known, _)| known == name).map(|(_, suite)| *suite);
            // The suites of TLS 1.3 are always enabled, and may be named.
            if suite.is_none() && !name.starts_with("TLS_AES_") {
                warn!(name, "Skipping unsupported TLS cipher suite");
            }
            suite
        });
        let found: Vec<SupportedCipherSuite> = found.collect();
        provider.cipher_suites.retain(|suite| suite.tls13().is_some() || found.contains(suite));
    }
    if !curves.is_empty() {
        let all = std::mem::take(&mut provider.kx_groups);
        let found = curves.iter().filter_map(|number| {
            let group = all.iter().find(|group| number_of(group.name()) == *number);
            if group.is_none() {
                warn!(number, "Skipping unsupported TLS curve");
            }
            group.copied()
        });
        provider.kx_groups = found.collect();
        if provider.kx_groups.is_empty() {
            return Err(TlsError::NoneSupported("tlsCurvePreferences"));
        }
    }
    Ok(provider)
}

fn number_of(group: NamedGroup) -> i32 {
    u16::from(group).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    // behaviour: SRV-14
    #[test]
    fn cipher_suites_and_curves_are_those_of_the_configuration() {
        let names = |names: &[&str]| names.iter().map(ToString::to_string).collect::<Vec<_>>();
        let all = provider(&[], &[]).unwrap();
        assert_eq!(all.cipher_suites.len(), 9);
        let one = names(&["TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256", "TLS_RSA_WITH_RC4_128_SHA"]);
        let some = provider(&one, &[29, 25, 23]).unwrap();
        let older: Vec<_> = some.cipher_suites.iter().filter(|s| s.tls13().is_none()).collect();
        assert_eq!(older, [&cipher_suite::TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256]);
        assert_eq!(some.cipher_suites.len(), 4, "those of TLS 1.3 stay");
        let curves: Vec<i32> = some.kx_groups.iter().map(|group| number_of(group.name())).collect();
        assert_eq!(curves, [29, 23], "25 is not supported");
        assert!(provider(&[], &[25]).is_err());
    }
}
