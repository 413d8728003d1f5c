//! The certificates of one control plane, and the kubeconfigs made of them.

use std::fs;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use jiff::{Timestamp, ToSpan as _, civil::Date, tz::TimeZone};
use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose,
};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};
use rustls::{ClientConfig, RootCertStore};
use serde_json::json;

use crate::error::{AtPath, PathError};

/// Why a certificate or a kubeconfig could not be made.
#[derive(Debug, thiserror::Error)]
pub enum PkiError {
    #[error("cannot make the certificate of {name}")]
    Make {
        name: String,
        #[source]
        source: rcgen::Error,
    },
    #[error("cannot use the certificate of {name}")]
    Use {
        name: String,
        #[source]
        source: rustls::Error,
    },
    #[error("cannot write the files of {name}")]
    Write {
        name: String,
        #[source]
        source: PathError,
    },
}

/// A user that the API server identifies by certificate.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct User {
    name: String,
    group: Option<String>,
}

impl User {
    /// A user in no group but `system:authenticated`.
    pub fn new(name: impl Into<String>) -> Self {
        Self { name: name.into(), group: None }
    }

    /// Adds a group. A certificate made here has room for one.
    #[must_use]
    pub fn in_group(mut self, group: impl Into<String>) -> Self {
        self.group = Some(group.into());
        self
    }

    /// An administrator.
    pub fn admin() -> Self {
        Self::new("admin").in_group("system:masters")
    }

    /// The agent of a node.
    pub fn node(name: &str) -> Self {
        Self::new(format!("system:node:{name}")).in_group("system:nodes")
    }

    pub fn name(&self) -> &str {
        &self.name
    }

    /// The name of its files; no two users share it.
    fn file_name(&self) -> String {
        let plain =
            |text: &str| text.replace(|c: char| !c.is_ascii_alphanumeric() && c != '-', "_");
        match &self.group {
            Some(group) => format!("{}@{}", plain(&self.name), plain(group)),
            None => plain(&self.name),
        }
    }
}

/// A certificate with its key.
struct Identity {
    certificate: CertificateDer<'static>,
    certificate_pem: String,
    key: KeyPair,
}

/// The authority of a control plane, and the directory of its certificates.
#[derive(Debug)]
pub(crate) struct Pki {
    dir: PathBuf,
    issuer: Issuer<'static, KeyPair>,
    authority: CertificateDer<'static>,
}

impl Pki {
    /// Makes an authority with its files in `dir`: `ca.crt`, `ca.key`, and the keys of service
    /// accounts, `sa.key` and `sa.pub`.
    pub(crate) fn make(dir: PathBuf) -> Result<Self, PkiError> {
        let name = "control-plane";
        let failed = |source| PkiError::Make { name: name.to_owned(), source };
        let mut params = params(name, None, Vec::new()).map_err(failed)?;
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![
            KeyUsagePurpose::DigitalSignature,
            KeyUsagePurpose::KeyCertSign,
            KeyUsagePurpose::CrlSign,
        ];
        let key = KeyPair::generate().map_err(failed)?;
        let certificate = params.self_signed(&key).map_err(failed)?;
        let accounts = KeyPair::generate().map_err(failed)?;
        let write = || {
            fs::create_dir_all(&dir).at("make", &dir)?;
            write_private(&dir.join("ca.crt"), &certificate.pem())?;
            write_private(&dir.join("ca.key"), &key.serialize_pem())?;
            write_private(&dir.join("sa.key"), &accounts.serialize_pem())?;
            write_private(&dir.join("sa.pub"), &accounts.public_key_pem())
        };
        write().map_err(|source| PkiError::Write { name: name.to_owned(), source })?;
        let authority = certificate.der().clone();
        Ok(Self { dir, issuer: Issuer::new(params, key), authority })
    }

    /// A file of the authority.
    pub(crate) fn file(&self, name: &str) -> PathBuf {
        self.dir.join(name)
    }

    /// Writes `<name>.crt` and `<name>.key` for a server at these names and addresses.
    pub(crate) fn write_server(&self, name: &str, hosts: &[&str]) -> Result<(), PkiError> {
        let hosts = hosts.iter().map(ToString::to_string).collect();
        let identity = self.sign(name, None, hosts, ExtendedKeyUsagePurpose::ServerAuth)?;
        self.write(name, &identity)
    }

    /// Writes the certificate and the key of a user; returns their paths.
    pub(crate) fn write_client(&self, user: &User) -> Result<(PathBuf, PathBuf), PkiError> {
        let name = user.file_name();
        self.write(&name, &self.identity(user)?)?;
        Ok((self.dir.join(format!("{name}.crt")), self.dir.join(format!("{name}.key"))))
    }

    /// Writes the kubeconfig of a user with a new certificate; returns its path.
    pub(crate) fn write_kubeconfig(&self, user: &User, server: &str) -> Result<PathBuf, PkiError> {
        let (certificate, key) = self.write_client(user)?;
        let config = json!({
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{ "name": "testbed", "cluster": {
                "server": server,
                "certificate-authority": self.file("ca.crt"),
            }}],
            "users": [{ "name": user.name, "user": {
                "client-certificate": certificate,
                "client-key": key,
            }}],
            "contexts": [{ "name": "testbed", "context": { "cluster": "testbed", "user": user.name }}],
            "current-context": "testbed",
        });
        let path = self.dir.join(format!("{}.kubeconfig", user.file_name()));
        write_private(&path, &config.to_string())
            .map_err(|source| PkiError::Write { name: user.name.clone(), source })?;
        Ok(path)
    }

    /// The TLS configuration of a client in this process, to call a server of this authority as `user`.
    pub(crate) fn client_config(&self, user: &User) -> Result<Arc<ClientConfig>, PkiError> {
        let identity = self.identity(user)?;
        let failed = |source| PkiError::Use { name: user.name.clone(), source };
        let mut roots = RootCertStore::empty();
        roots.add(self.authority.clone()).map_err(failed)?;
        let key = PrivateKeyDer::from(PrivatePkcs8KeyDer::from(identity.key.serialize_der()));
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(failed)?
            .with_root_certificates(roots)
            .with_client_auth_cert(vec![identity.certificate], key)
            .map_err(failed)?;
        Ok(Arc::new(config))
    }

    fn identity(&self, user: &User) -> Result<Identity, PkiError> {
        let usage = ExtendedKeyUsagePurpose::ClientAuth;
        self.sign(&user.name, user.group.as_deref(), Vec::new(), usage)
    }

    fn sign(
        &self,
        name: &str,
        group: Option<&str>,
        hosts: Vec<String>,
        usage: ExtendedKeyUsagePurpose,
    ) -> Result<Identity, PkiError> {
        let failed = |source| PkiError::Make { name: name.to_owned(), source };
        let mut params = params(name, group, hosts).map_err(failed)?;
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.extended_key_usages = vec![usage];
        let key = KeyPair::generate().map_err(failed)?;
        let certificate = params.signed_by(&key, &self.issuer).map_err(failed)?;
        Ok(Identity {
            certificate: certificate.der().clone(),
            certificate_pem: certificate.pem(),
            key,
        })
    }

    fn write(&self, name: &str, identity: &Identity) -> Result<(), PkiError> {
        let files = [("crt", &identity.certificate_pem), ("key", &identity.key.serialize_pem())];
        for (extension, text) in files {
            write_private(&self.dir.join(format!("{name}.{extension}")), text)
                .map_err(|source| PkiError::Write { name: name.to_owned(), source })?;
        }
        Ok(())
    }
}

/// Valid from yesterday, as clocks differ, for a year.
fn params(
    name: &str,
    group: Option<&str>,
    hosts: Vec<String>,
) -> Result<CertificateParams, rcgen::Error> {
    let mut params = CertificateParams::new(hosts)?;
    params.distinguished_name = rcgen::DistinguishedName::new();
    params.distinguished_name.push(DnType::CommonName, name);
    if let Some(group) = group {
        params.distinguished_name.push(DnType::OrganizationName, group);
    }
    let today = Timestamp::now().to_zoned(TimeZone::UTC).date();
    let midnight = |date: Date| {
        let part = |value: i8| u8::try_from(value).expect("months and days are above zero");
        rcgen::date_time_ymd(i32::from(date.year()), part(date.month()), part(date.day()))
    };
    params.not_before = midnight(today.saturating_sub(1.day()));
    params.not_after = midnight(today.saturating_add(1.year()));
    Ok(params)
}

/// Only the owner may read keys.
fn write_private(path: &Path, text: &str) -> Result<(), PathError> {
    use std::io::Write as _;
    fs::OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(true)
        .mode(0o600)
        .open(path)
        .and_then(|mut file| file.write_all(text.as_bytes()))
        .at("write", path)
}
