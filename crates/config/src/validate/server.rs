//! Ports, TLS, log queries and hidden metrics.

use crate::fields::KubeletConfiguration;
use crate::finding::Findings;
use crate::gates::FeatureGates;

/// The minor version before the supported one.
const PREVIOUS_VERSION: &str = "1.35";

/// The supported cipher suites, under their names in Go.
const CIPHER_SUITES: [&str; 15] = [
    "TLS_AES_128_GCM_SHA256",
    "TLS_AES_256_GCM_SHA384",
    "TLS_CHACHA20_POLY1305_SHA256",
    "TLS_ECDHE_ECDSA_WITH_AES_128_CBC_SHA",
    "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256",
    "TLS_ECDHE_ECDSA_WITH_AES_256_CBC_SHA",
    "TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384",
    "TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305",
    "TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256",
    "TLS_ECDHE_RSA_WITH_AES_128_CBC_SHA",
    "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256",
    "TLS_ECDHE_RSA_WITH_AES_256_CBC_SHA",
    "TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384",
    "TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305",
    "TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256",
];

/// The suites that are accepted with a warning.
const WEAK_CIPHER_SUITES: [&str; 12] = [
    "TLS_ECDHE_ECDSA_WITH_AES_128_CBC_SHA256",
    "TLS_ECDHE_ECDSA_WITH_RC4_128_SHA",
    "TLS_ECDHE_RSA_WITH_3DES_EDE_CBC_SHA",
    "TLS_ECDHE_RSA_WITH_AES_128_CBC_SHA256",
    "TLS_ECDHE_RSA_WITH_RC4_128_SHA",
    "TLS_RSA_WITH_3DES_EDE_CBC_SHA",
    "TLS_RSA_WITH_AES_128_CBC_SHA",
    "TLS_RSA_WITH_AES_128_CBC_SHA256",
    "TLS_RSA_WITH_AES_128_GCM_SHA256",
    "TLS_RSA_WITH_AES_256_CBC_SHA",
    "TLS_RSA_WITH_AES_256_GCM_SHA384",
    "TLS_RSA_WITH_RC4_128_SHA",
];

pub(super) fn check(
    config: &KubeletConfiguration,
    gates: &FeatureGates<'_>,
    findings: &mut Findings,
) {
    findings.require(config.port != 0, "port", "must be from 1 to 65535");
    findings.require(
        !config.server_tls_bootstrap || gates.enabled("RotateKubeletServerCertificate"),
        "serverTLSBootstrap",
        "needs feature gate RotateKubeletServerCertificate",
    );
    cipher_suites(&config.tls_cipher_suites, findings);
    curve_preferences(&config.tls_curve_preferences, findings);
    findings.require(
        !config.enable_system_log_query || config.enable_system_log_handler,
        "enableSystemLogHandler",
        "must be true for enableSystemLogQuery",
    );
    let version = &config.show_hidden_metrics_for_version;
    findings.require(
        version.is_empty() || version == PREVIOUS_VERSION,
        "showHiddenMetricsForVersion",
        format_args!("must be empty or {PREVIOUS_VERSION}, the previous minor version"),
    );
}

fn cipher_suites(names: &[String], findings: &mut Findings) {
    for (index, name) in names.iter().enumerate() {
        let field = format_args!("tlsCipherSuites[{index}]");
        if WEAK_CIPHER_SUITES.contains(&name.as_str()) {
            findings.doubt(field, format_args!("{name} is a weak cipher suite"));
        } else if !CIPHER_SUITES.contains(&name.as_str()) {
            findings.error(field, format_args!("no cipher suite is called {name:?}"));
        }
    }
}

fn curve_preferences(ids: &[i32], findings: &mut Findings) {
    for (index, id) in ids.iter().enumerate() {
        let field = format_args!("tlsCurvePreferences[{index}]");
        if !(1..=65_535).contains(id) {
            findings.error(field, "must be from 1 to 65535");
        } else if ids[..index].contains(id) {
            findings.error(field, format_args!("{id} is listed twice"));
        }
    }
}
