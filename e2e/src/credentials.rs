//! Credentials that a node must not accept.

use std::fs;
use std::path::PathBuf;

use anyhow::{Context, Result, bail};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use rcgen::{
    CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, Issuer, KeyPair,
    SigningKey as _,
};
use serde_json::{Value, json};

use crate::https::file;
use crate::plane::Plane;

/// A certificate for an administrator, still without a signature.
fn admin() -> Result<CertificateParams> {
    let mut params = CertificateParams::new(Vec::new())?;
    params.distinguished_name = named("kubernetes-admin");
    params.distinguished_name.push(DnType::OrganizationName, "system:masters");
    params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
    Ok(params)
}

fn named(name: &str) -> DistinguishedName {
    let mut distinguished = DistinguishedName::new();
    distinguished.push(DnType::CommonName, name);
    distinguished
}

/// A kubeconfig with a client certificate of an authority that the node does not trust.
pub fn foreign_certificate(plane: &Plane) -> Result<PathBuf> {
    let key = KeyPair::generate()?;
    let certificate = admin()?.self_signed(&key)?;
    write(plane, "foreign", &certificate.pem(), &key)
}

/// A kubeconfig with a client certificate of the cluster's authority that has expired.
pub fn expired_certificate(plane: &Plane) -> Result<PathBuf> {
    let mut params = admin()?;
    params.not_before = rcgen::date_time_ymd(2020, 1, 1);
    params.not_after = rcgen::date_time_ymd(2021, 1, 1);
    let mut authority = CertificateParams::new(Vec::new())?;
    authority.distinguished_name = named("control-plane");
    let authority_key = KeyPair::from_pem(&fs::read_to_string(file(plane, "ca.key"))?)?;
    let key = KeyPair::generate()?;
    let certificate = params.signed_by(&key, &Issuer::new(authority, authority_key))?;
    write(plane, "expired", &certificate.pem(), &key)
}

fn write(plane: &Plane, name: &str, certificate: &str, key: &KeyPair) -> Result<PathBuf> {
    let mut path = plane.control_plane().admin_kubeconfig().clone();
    let cert_file = path.with_file_name(format!("{name}.crt"));
    let key_file = path.with_file_name(format!("{name}.key"));
    fs::write(&cert_file, certificate)?;
    fs::write(&key_file, key.serialize_pem())?;
    let config = json!({
        "clusters": [{ "name": "c", "cluster": {
            "server": plane.control_plane().server(),
            "certificate-authority": file(plane, "ca.crt"),
        }}],
        "users": [{ "name": "u", "user": {
            "client-certificate": cert_file, "client-key": key_file,
        }}],
        "contexts": [{ "name": "c", "context": { "cluster": "c", "user": "u" }}],
        "current-context": "c",
    });
    path.set_file_name(format!("{name}.kubeconfig"));
    fs::write(&path, config.to_string())?;
    Ok(path)
}

/// The same service account token with validity in the past. Its signature is right.
pub fn expired_token(plane: &Plane, token: &str) -> Result<String> {
    let mut parts = token.split('.');
    let (header, claims) = (parts.next().context("a header")?, parts.next().context("claims")?);
    let mut claims: Value = serde_json::from_slice(&URL_SAFE_NO_PAD.decode(claims)?)?;
    for (name, time) in [("iat", 1_600_000_000), ("nbf", 1_600_000_000), ("exp", 1_600_003_600)] {
        claims[name] = time.into();
    }
    let signed = format!("{header}.{}", URL_SAFE_NO_PAD.encode(claims.to_string()));
    let key = KeyPair::from_pem(&fs::read_to_string(file(plane, "sa.key"))?)?;
    let signature = fixed_length(&key.sign(signed.as_bytes())?)?;
    Ok(format!("{signed}.{}", URL_SAFE_NO_PAD.encode(signature)))
}

/// An ECDSA signature as tokens have it: two numbers with 32 bytes each, without ASN.1.
fn fixed_length(signature: &[u8]) -> Result<Vec<u8>> {
    let [0x30, _, rest @ ..] = signature else { bail!("not a sequence") };
    let (mut rest, mut fixed) = (rest, Vec::new());
    for _ in 0..2 {
        let [0x02, length, number @ ..] = rest else { bail!("not a number") };
        let (number, after) = number.split_at(usize::from(*length));
        let number = &number[number.len().saturating_sub(32)..];
        fixed.resize(fixed.len() + 32 - number.len(), 0);
        fixed.extend(number);
        rest = after;
    }
    Ok(fixed)
}
