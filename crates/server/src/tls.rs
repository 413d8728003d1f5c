//! The certificates of a port: read from files, reloaded when they change, or self-signed.

use std::collections::BTreeMap;
use std::error::Error;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use jiff::{SignedDuration, Span, Timestamp};
use model::chain::Chain;
use model::cluster::User;
use model::ports::clock::WallClock;
use model::ports::files::{FileVersion, HostFiles};
use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose,
};
use rustls::client::danger::HandshakeSignatureValid;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, UnixTime};
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::server::{ClientHello, ResolvesServerCert, WebPkiClientVerifier};
use rustls::sign::CertifiedKey;
use rustls::{
    DigitallySignedStruct, DistinguishedName, RootCertStore, ServerConfig, SignatureScheme,
};
use sha2::{Digest as _, Sha256};
use tokio::time::Instant;
use tracing::{debug, info, warn};
use x509_parser::prelude::{FromDer as _, X509Certificate};

use crate::tls_choice;

/// The largest file of certificates.
const LONGEST: u64 = 1 << 20;
/// The validity of a self-signed certificate.
const DAYS: i64 = 365;

/// The age at which a self-signed certificate is replaced.
const RENEW: SignedDuration = SignedDuration::from_hours(24 * DAYS / 2);
/// How often the files are checked for changes.
const CHECK_PERIOD: Duration = Duration::from_mins(1);

/// The attribute of a user that names its certificate.
const CREDENTIAL_ID: &str = "authentication.kubernetes.io/credential-id";

/// The TLS settings of a port.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TlsSettings {
    /// The certificate chain; self-signed without one.
    pub cert_file: Option<PathBuf>,
    /// Its key.
    pub key_file: Option<PathBuf>,
    /// Whether the certificate may not exist yet: handshakes fail until it does.
    pub is_issued_later: bool,
    /// The authorities whose client certificates are accepted.
    pub client_ca_file: Option<PathBuf>,
    /// Whether clients must use TLS 1.3.
    pub newest_tls_only: bool,
    /// The cipher suites of TLS 1.2, by their names in Go; empty for all.
    pub cipher_suites: Vec<String>,
    /// The ids of key exchanges, by preference; empty for all.
    pub curves: Vec<i32>,
    /// Whether clients may use HTTP/2.
    pub http2: bool,
    /// When client certificates are verified.
    pub client_verification: ClientVerification,
}

/// When client certificates are verified.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum ClientVerification {
    /// During the handshake, which fails for an invalid one.
    #[default]
    Handshake,
    /// Checked with each request, because a client with an invalid certificate may have a token.
    Request,
}

/// Why a port has no certificate.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// The file cannot be read or is not PEM.
    #[error("read certificates from {}", path.display())]
    ReadCertificates {
        /// The file.
        path: PathBuf,
        /// The cause.
        source: Box<dyn Error + Send + Sync>,
    },
    /// The file is empty.
    #[error("{} has no certificate", .0.display())]
    NoCertificate(PathBuf),
    /// The file cannot be read or has no key.
    #[error("read a key from {}", path.display())]
    ReadKey {
        /// The file.
        path: PathBuf,
        /// The cause.
        source: Box<dyn Error + Send + Sync>,
    },
    /// A certificate of the file is not an authority.
    #[error("use {}", path.display())]
    UseAuthorities {
        /// The file.
        path: PathBuf,
        /// The cause.
        source: Box<dyn Error + Send + Sync>,
    },
    /// No configured cipher suite or key exchange is supported.
    #[error("none of {0} is supported")]
    NoneSupported(&'static str),
    /// The versions of TLS are not supported.
    #[error("choose versions of TLS")]
    Versions(#[source] rustls::Error),
    /// The certificate and its key do not match.
    #[error("use the certificate")]
    UseCertificate(#[source] rustls::Error),
    /// A self-signed certificate cannot be generated.
    #[error("generate a certificate")]
    Generate(#[source] rcgen::Error),
    /// A key cannot be generated.
    #[error("generate a key")]
    GenerateKey(#[source] rcgen::Error),
}

/// The certificates of a port, which are reloaded when their files change.
#[derive(Debug)]
pub struct Certificates {
    settings: TlsSettings,
    host: String,
    files: Arc<dyn HostFiles>,
    clock: Arc<dyn WallClock>,
    /// Held for a lookup or a change, never across an await.
    loaded: Mutex<Loaded>,
}

/// The certificates in use.
#[derive(Debug, Clone)]
struct Loaded {
    config: Arc<ServerConfig>,
    /// Verifies client certificates, if any are accepted.
    clients: Option<Arc<dyn ClientCertVerifier>>,
    versions: Vec<Option<FileVersion>>,
    since: Timestamp,
    checked: Instant,
}

impl Certificates {
    /// Reads the files, or generates a self-signed certificate for a host name.
    pub async fn read(
        settings: TlsSettings,
        host: &str,
        files: Arc<dyn HostFiles>,
        clock: Arc<dyn WallClock>,
    ) -> Result<Self, TlsError> {
        let since = clock.now();
        let versions = versions(&settings, &*files).await;
        let clients = client_verifier(&settings, &*files).await?;
        let config = Arc::new(config(&settings, host, &*files, since, clients.as_ref()).await?);
        let checked = Instant::now();
        let loaded = Mutex::new(Loaded { config, clients, versions, since, checked });
        Ok(Self { settings, host: host.to_owned(), files, clock, loaded })
    }

    fn loaded(&self) -> MutexGuard<'_, Loaded> {
        self.loaded.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The configuration for the next connection.
    pub(crate) async fn current(&self) -> Arc<ServerConfig> {
        let loaded = {
            let mut loaded = self.loaded();
            let is_missing = self.settings.is_issued_later && loaded.versions[0].is_none();
            if loaded.checked.elapsed() < CHECK_PERIOD && !is_missing {
                return Arc::clone(&loaded.config);
            }
            // Concurrent connections use the last configuration.
            loaded.checked = Instant::now();
            loaded.clone()
        };
        if let Some(new) = self.reload(&loaded).await {
            *self.loaded() = new;
        }
        Arc::clone(&self.loaded().config)
    }

    /// The user of a client certificate. The error says why the certificate is not valid.
    pub(crate) async fn client(&self, chain: &[CertificateDer<'_>]) -> Result<User, String> {
        self.current().await;
        let clients = self.loaded().clients.clone();
        let (Some(clients), [certificate, intermediates @ ..]) = (clients, chain) else {
            return Err("no client certificates are accepted".to_owned());
        };
        let now = UnixTime::since_unix_epoch(Duration::from_secs(
            u64::try_from(self.clock.now().as_second()).unwrap_or_default(),
        ));
        clients
            .verify_client_cert(certificate, intermediates, now)
            .map_err(|error| error.to_string())?;
        owner(certificate).ok_or_else(|| "the certificate has no common name".to_owned())
    }

    /// The certificates to use instead, if they changed. A failure is logged, and the last ones stay in use.
    async fn reload(&self, loaded: &Loaded) -> Option<Loaded> {
        let now = self.clock.now();
        let versions = versions(&self.settings, &*self.files).await;
        let is_old = self.settings.cert_file.is_none() && now.duration_since(loaded.since) >= RENEW;
        if versions == loaded.versions && !is_old {
            return None;
        }
        let read = async {
            let clients = client_verifier(&self.settings, &*self.files).await?;
            let (settings, files) = (&self.settings, &*self.files);
            let config = config(settings, &self.host, files, now, clients.as_ref()).await?;
            Ok::<_, TlsError>((Arc::new(config), clients))
        };
        match read.await {
            Ok((config, clients)) => {
                info!("Reloaded the certificates of the port");
                Some(Loaded { config, clients, versions, since: now, checked: loaded.checked })
            }
            Err(error) => {
                let error = Chain(&error);
                warn!(%error, "Cannot use the changed certificates of the port, keeping the last ones");
                None
            }
        }
    }
}

/// The versions of the files.
async fn versions(settings: &TlsSettings, files: &dyn HostFiles) -> Vec<Option<FileVersion>> {
    let mut versions = Vec::new();
    for path in [&settings.cert_file, &settings.key_file, &settings.client_ca_file] {
        let found = match path {
            Some(path) => files.look(path).await.ok().map(|found| found.version),
            None => None,
        };
        versions.push(found);
    }
    versions
}

/// The TLS configuration for connections.
async fn config(
    settings: &TlsSettings,
    host: &str,
    files: &dyn HostFiles,
    now: Timestamp,
    clients: Option<&Arc<dyn ClientCertVerifier>>,
) -> Result<ServerConfig, TlsError> {
    let provider = Arc::new(tls_choice::provider(&settings.cipher_suites, &settings.curves)?);
    let pair = match (&settings.cert_file, &settings.key_file) {
        (Some(cert), Some(_)) if settings.is_issued_later && is_missing(files, cert).await => None,
        (Some(cert), Some(key)) => {
            Some((certificates(files, cert).await?, private_key(files, key).await?))
        }
        _ => Some(self_signed(host, now)?),
    };
    let versions = if settings.newest_tls_only {
        vec![&rustls::version::TLS13]
    } else {
        rustls::DEFAULT_VERSIONS.to_vec()
    };
    let builder = ServerConfig::builder_with_provider(Arc::clone(&provider))
        .with_protocol_versions(&versions)
        .map_err(TlsError::Versions)?;
    let builder = match (clients, settings.client_verification) {
        (None, _) => builder.with_no_client_auth(),
        (Some(clients), ClientVerification::Handshake) => {
            builder.with_client_cert_verifier(Arc::clone(clients))
        }
        (Some(clients), ClientVerification::Request) => {
            builder.with_client_cert_verifier(Arc::new(AnyClient(Arc::clone(clients))))
        }
    };
    let mut config = match pair {
        Some((chain, key)) => {
            builder.with_single_cert(chain, key).map_err(TlsError::UseCertificate)?
        }
        None => builder.with_cert_resolver(Arc::new(NotIssued)),
    };
    let protocols = if settings.http2 { &["h2", "http/1.1"][..] } else { &["http/1.1"] };
    config.alpn_protocols = protocols.iter().map(|name| name.as_bytes().to_vec()).collect();
    Ok(config)
}

/// Fails handshakes while there is no certificate.
#[derive(Debug)]
struct NotIssued;

impl ResolvesServerCert for NotIssued {
    fn resolve(&self, _: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        debug!("No serving certificate available for the kubelet");
        None
    }
}

async fn is_missing(files: &dyn HostFiles, path: &Path) -> bool {
    files.look(path).await.is_err_and(|error| error.is_not_found())
}

/// Verifies client certificates, if any are accepted. A client may have none.
async fn client_verifier(
    settings: &TlsSettings,
    files: &dyn HostFiles,
) -> Result<Option<Arc<dyn ClientCertVerifier>>, TlsError> {
    let Some(path) = &settings.client_ca_file else { return Ok(None) };
    let roots = Arc::new(authorities(files, path).await?);
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let verifier = WebPkiClientVerifier::builder_with_provider(roots, provider)
        .allow_unauthenticated()
        .build()
        .map_err(|error| unusable(path, error))?;
    Ok(Some(verifier))
}

/// Accepts any client certificate with a proof of its key: [`Certificates::client`] verifies it later.
#[derive(Debug)]
struct AnyClient(Arc<dyn ClientCertVerifier>);

impl ClientCertVerifier for AnyClient {
    fn client_auth_mandatory(&self) -> bool {
        false
    }

    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        self.0.root_hint_subjects()
    }

    fn verify_client_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: UnixTime,
    ) -> Result<ClientCertVerified, rustls::Error> {
        Ok(ClientCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        self.0.verify_tls12_signature(message, certificate, signature)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        self.0.verify_tls13_signature(message, certificate, signature)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.supported_verify_schemes()
    }
}

async fn authorities(files: &dyn HostFiles, path: &Path) -> Result<RootCertStore, TlsError> {
    let mut roots = RootCertStore::empty();
    for certificate in certificates(files, path).await? {
        roots.add(certificate).map_err(|error| unusable(path, error))?;
    }
    Ok(roots)
}

fn unusable(path: &Path, error: impl Error + Send + Sync + 'static) -> TlsError {
    TlsError::UseAuthorities { path: path.to_owned(), source: Box::new(error) }
}

async fn certificates(
    files: &dyn HostFiles,
    path: &Path,
) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let failed = |source| TlsError::ReadCertificates { path: path.to_owned(), source };
    let pem = files.read(path, LONGEST).await.map_err(|error| failed(error.into()))?;
    let found: Vec<_> = CertificateDer::pem_slice_iter(&pem)
        .collect::<Result<_, _>>()
        .map_err(|error| failed(error.into()))?;
    if found.is_empty() {
        return Err(TlsError::NoCertificate(path.to_owned()));
    }
    Ok(found)
}

async fn private_key(
    files: &dyn HostFiles,
    path: &Path,
) -> Result<PrivateKeyDer<'static>, TlsError> {
    let failed = |source| TlsError::ReadKey { path: path.to_owned(), source };
    let pem = files.read(path, LONGEST).await.map_err(|error| failed(error.into()))?;
    PrivateKeyDer::from_pem_slice(&pem).map_err(|error| failed(error.into()))
}

/// A certificate in files.
#[derive(Debug)]
pub struct GeneratedCertificate {
    /// The certificate and that of its authority, in PEM.
    pub chain: String,
    /// Its key, in PEM.
    pub key: String,
}

/// Generates a certificate for a host name like upstream: with its own authority, valid for a year from an hour
/// ago. Its key is ECDSA P-256, where upstream's is RSA.
pub fn generate(host: &str, now: Timestamp) -> Result<GeneratedCertificate, TlsError> {
    let moment = |hours: i64| {
        let time = (now + Span::new().hours(hours)).to_zoned(jiff::tz::TimeZone::UTC);
        let part = |number: i8| u8::try_from(number).unwrap_or(1);
        let day = rcgen::date_time_ymd(time.year().into(), part(time.month()), part(time.day()));
        let seconds = i64::from(time.hour()) * 3600 + i64::from(time.minute()) * 60;
        day + Duration::from_secs(u64::try_from(seconds).unwrap_or(0))
    };
    let named = |mut params: CertificateParams, name: &str| {
        params.not_before = moment(-1);
        params.not_after = moment(24 * DAYS - 1);
        params.distinguished_name = rcgen::DistinguishedName::new();
        let name = format!("{name}@{}", now.as_second());
        params.distinguished_name.push(DnType::CommonName, name);
        params
    };
    let mut params = CertificateParams::new(Vec::new()).map_err(TlsError::Generate)?;
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    params.key_usages = vec![
        KeyUsagePurpose::DigitalSignature,
        KeyUsagePurpose::KeyEncipherment,
        KeyUsagePurpose::KeyCertSign,
    ];
    let params = named(params, &format!("{host}-ca"));
    let key = KeyPair::generate().map_err(TlsError::GenerateKey)?;
    let authority = params.self_signed(&key).map_err(TlsError::Generate)?;
    let issuer = Issuer::new(params, key);
    let mut params = CertificateParams::new(vec![host.to_owned()]).map_err(TlsError::Generate)?;
    params.key_usages = vec![KeyUsagePurpose::DigitalSignature, KeyUsagePurpose::KeyEncipherment];
    params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
    let params = named(params, host);
    let key = KeyPair::generate().map_err(TlsError::GenerateKey)?;
    let certificate = params.signed_by(&key, &issuer).map_err(TlsError::Generate)?;
    let chain = certificate.pem() + &authority.pem();
    Ok(GeneratedCertificate { chain, key: key.serialize_pem() })
}

/// A self-signed certificate, as upstream generates one.
fn self_signed(
    host: &str,
    now: Timestamp,
) -> Result<(Vec<CertificateDer<'static>>, PrivateKeyDer<'static>), TlsError> {
    let names = vec![host.to_owned(), "localhost".to_owned(), "127.0.0.1".to_owned()];
    let mut params = CertificateParams::new(names).map_err(TlsError::Generate)?;
    params.distinguished_name.push(DnType::CommonName, format!("{host}@{}", now.as_second()));
    let day = |days: i64| {
        let date = (now + Span::new().hours(days * 24)).to_zoned(jiff::tz::TimeZone::UTC).date();
        let part = |number: i8| u8::try_from(number).unwrap_or(1);
        rcgen::date_time_ymd(i32::from(date.year()), part(date.month()), part(date.day()))
    };
    params.not_before = day(-1);
    params.not_after = day(DAYS);
    let key = KeyPair::generate().map_err(TlsError::GenerateKey)?;
    let certificate = params.self_signed(&key).map_err(TlsError::Generate)?;
    let key = PrivateKeyDer::Pkcs8(key.serialize_der().into());
    Ok((vec![certificate.der().clone()], key))
}

/// The owner of a client certificate: the common name is the user, each organisation a group.
pub(crate) fn owner(certificate: &CertificateDer<'_>) -> Option<User> {
    let fingerprint = Sha256::digest(certificate);
    let (_, certificate) = X509Certificate::from_der(certificate).ok()?;
    let subject = certificate.subject();
    let name = subject.iter_common_name().next()?.as_str().ok()?.to_owned();
    if name.is_empty() {
        return None;
    }
    let groups = subject.iter_organization().filter_map(|group| group.as_str().ok());
    let groups = groups.map(str::to_owned).chain(["system:authenticated".to_owned()]);
    let mut id = "X509SHA256=".to_owned();
    for byte in fingerprint {
        write!(id, "{byte:02x}").expect("a string takes every text");
    }
    let extra = BTreeMap::from([(CREDENTIAL_ID.to_owned(), vec![id])]);
    Some(User { name, uid: String::new(), groups: groups.collect(), extra })
}

#[cfg(test)]
mod tests {
    use testkit::clock::VirtualClock;
    use testkit::files::MemoryFiles;

    use super::*;

    #[test]
    fn owner_is_read_from_the_subject() {
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.distinguished_name = rcgen::DistinguishedName::new();
        params.distinguished_name.push(DnType::CommonName, "prometheus");
        params.distinguished_name.push(DnType::OrganizationName, "monitoring");
        let key = KeyPair::generate().unwrap();
        let certificate = params.self_signed(&key).unwrap();
        let owner = owner(certificate.der()).unwrap();
        assert_eq!(owner.name, "prometheus");
        assert_eq!(owner.groups, ["monitoring", "system:authenticated"]);
    }

    /// Writes a certificate and its key to the files of the port.
    fn put(files: &MemoryFiles, name: &str) {
        let key = KeyPair::generate().unwrap();
        let certificate = CertificateParams::new(vec![name.to_owned()]).unwrap();
        let certificate = certificate.self_signed(&key).unwrap();
        files.write("/tls/cert", certificate.pem());
        files.write("/tls/key", key.serialize_pem());
    }

    // behaviour: PGC-104
    #[tokio::test(start_paused = true)]
    async fn certificates_are_reloaded_when_their_files_change() {
        let files = Arc::new(MemoryFiles::new());
        put(&files, "first");
        let settings = TlsSettings {
            cert_file: Some("/tls/cert".into()),
            key_file: Some("/tls/key".into()),
            ..TlsSettings::default()
        };
        let (files_port, clock) = (Arc::clone(&files) as _, Arc::new(VirtualClock::new()));
        let certificates = Certificates::read(settings, "host", files_port, clock).await.unwrap();
        let first = certificates.current().await;
        put(&files, "second");
        assert!(Arc::ptr_eq(&first, &certificates.current().await), "not checked yet");
        tokio::time::sleep(CHECK_PERIOD).await;
        let second = certificates.current().await;
        assert!(!Arc::ptr_eq(&first, &second));
        files.write("/tls/cert", "nonsense");
        tokio::time::sleep(CHECK_PERIOD).await;
        assert!(Arc::ptr_eq(&second, &certificates.current().await), "the last valid one");
    }

    // behaviour: CERT-15
    #[tokio::test(start_paused = true)]
    async fn certificate_that_is_issued_later_is_used_at_once() {
        let files = Arc::new(MemoryFiles::new());
        let settings = TlsSettings {
            cert_file: Some("/tls/both".into()),
            key_file: Some("/tls/both".into()),
            is_issued_later: true,
            ..TlsSettings::default()
        };
        let (files_port, clock) = (Arc::clone(&files) as _, Arc::new(VirtualClock::new()));
        let certificates = Certificates::read(settings, "host", files_port, clock).await.unwrap();
        let none = certificates.current().await;
        put(&files, "issued");
        let both = ["/tls/cert", "/tls/key"].map(|path| files.content(path).unwrap());
        files.write("/tls/both", both.concat());
        let issued = certificates.current().await;
        assert!(!Arc::ptr_eq(&none, &issued));
        assert!(Arc::ptr_eq(&issued, &certificates.current().await));
    }

    // behaviour: SRV-13
    #[test]
    fn generated_certificate_is_of_an_authority_and_valid_for_a_year_from_an_hour_ago() {
        let now: Timestamp = "2026-11-15T10:20:30Z".parse().unwrap();
        let made = generate("host", now).unwrap();
        let chain: Vec<_> = CertificateDer::pem_slice_iter(made.chain.as_bytes()).collect();
        let [Ok(leaf), Ok(authority)] = &chain[..] else { panic!("{chain:?}") };
        let (_, leaf) = X509Certificate::from_der(leaf).unwrap();
        let (_, authority) = X509Certificate::from_der(authority).unwrap();
        assert_eq!(leaf.issuer(), authority.subject());
        assert!(authority.is_ca() && !leaf.is_ca());
        for certificate in [&leaf, &authority] {
            let validity = certificate.validity();
            let (from, to) = (validity.not_before, validity.not_after);
            assert_eq!(from.to_datetime().to_string(), "2026-11-15 9:20:00.0 +00:00:00");
            assert_eq!(to.to_datetime().to_string(), "2027-11-15 9:20:00.0 +00:00:00");
        }
        assert!(leaf.extended_key_usage().unwrap().unwrap().value.server_auth);
        assert!(PrivateKeyDer::from_pem_slice(made.key.as_bytes()).is_ok());
    }

    #[test]
    fn self_signed_certificate_is_valid_for_a_year() {
        let now: Timestamp = "2026-11-15T10:00:00Z".parse().unwrap();
        let (chain, _) = self_signed("host", now).unwrap();
        let (_, certificate) = X509Certificate::from_der(&chain[0]).unwrap();
        let validity = certificate.validity();
        assert_eq!(validity.not_before.to_datetime().to_string(), "2026-11-14 0:00:00.0 +00:00:00");
        assert_eq!(validity.not_after.to_datetime().to_string(), "2027-11-15 0:00:00.0 +00:00:00");
    }
}
