//! The certificate of the port, and who vouches for those who ask.

use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use config::pod_gc::Serving;
use jiff::{SignedDuration, Span, Timestamp};
use model::cluster::User;
use model::ports::clock::WallClock;
use model::ports::files::{FileVersion, HostFiles};
use rcgen::{CertificateParams, DnType, KeyPair};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::WebPkiClientVerifier;
use rustls::{RootCertStore, ServerConfig};
use tokio::time::Instant;
use tracing::{info, warn};
use x509_parser::prelude::{FromDer as _, X509Certificate};

/// No file with certificates is longer.
const LONGEST: u64 = 1 << 20;
/// How long a certificate that is made here is good.
const DAYS: i64 = 365;

/// How long a certificate that is made here is used; then another is made.
const RENEW: SignedDuration = SignedDuration::from_hours(24 * DAYS / 2);
/// How often it is looked whether the files have changed.
const LOOK_AGAIN: Duration = Duration::from_mins(1);

/// Certificates that are read again when their files change.
#[derive(Debug)]
pub struct Keys {
    serving: Serving,
    host: String,
    files: Arc<dyn HostFiles>,
    clock: Arc<dyn WallClock>,
    /// Held for a look or a change, never over an await.
    used: Mutex<Used>,
}

/// What is used now.
#[derive(Debug, Clone)]
struct Used {
    config: Arc<ServerConfig>,
    versions: Vec<Option<FileVersion>>,
    made: Timestamp,
    looked: Instant,
}

impl Keys {
    /// Reads them, or makes one.
    pub async fn read(
        serving: &Serving,
        host: &str,
        files: Arc<dyn HostFiles>,
        clock: Arc<dyn WallClock>,
    ) -> Result<Self> {
        let made = clock.now();
        let versions = versions(serving, &*files).await;
        let config = Arc::new(config(serving, host, &*files, made).await?);
        let used = Mutex::new(Used { config, versions, made, looked: Instant::now() });
        Ok(Self { serving: serving.clone(), host: host.to_owned(), files, clock, used })
    }

    fn used(&self) -> MutexGuard<'_, Used> {
        self.used.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// How the next connection is made secure.
    pub async fn current(&self) -> Arc<ServerConfig> {
        let used = {
            let mut used = self.used();
            if used.looked.elapsed() < LOOK_AGAIN {
                return Arc::clone(&used.config);
            }
            // Who comes while one looks gets the last one.
            used.looked = Instant::now();
            used.clone()
        };
        if let Some(new) = self.look_again(&used).await {
            *self.used() = new;
        }
        Arc::clone(&self.used().config)
    }

    /// What is to be used instead. What cannot be used is told, and the last that could be is used on.
    async fn look_again(&self, used: &Used) -> Option<Used> {
        let now = self.clock.now();
        let versions = versions(&self.serving, &*self.files).await;
        let is_old = self.serving.cert_file.is_none() && now.duration_since(used.made) >= RENEW;
        if versions == used.versions && !is_old {
            return None;
        }
        match config(&self.serving, &self.host, &*self.files, now).await {
            Ok(config) => {
                info!("the certificates of the port are new");
                let config = Arc::new(config);
                Some(Used { config, versions, made: now, looked: used.looked })
            }
            Err(error) => {
                let error = format!("{error:#}");
                warn!(error, "the certificates of the port have changed and cannot be used");
                None
            }
        }
    }
}

/// Which versions of the files there are.
async fn versions(serving: &Serving, files: &dyn HostFiles) -> Vec<Option<FileVersion>> {
    let mut versions = Vec::new();
    for path in [&serving.cert_file, &serving.key_file, &serving.client_ca_file] {
        let found = match path {
            Some(path) => files.look(path).await.ok().map(|found| found.version),
            None => None,
        };
        versions.push(found);
    }
    versions
}

/// How connections are made secure.
async fn config(
    serving: &Serving,
    host: &str,
    files: &dyn HostFiles,
    now: Timestamp,
) -> Result<ServerConfig> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let (chain, key) = match (&serving.cert_file, &serving.key_file) {
        (Some(cert), Some(key)) => {
            (certificates(files, cert).await?, private_key(files, key).await?)
        }
        _ => self_signed(host, now)?,
    };
    let versions = if serving.newest_tls_only {
        vec![&rustls::version::TLS13]
    } else {
        rustls::DEFAULT_VERSIONS.to_vec()
    };
    let builder = ServerConfig::builder_with_provider(Arc::clone(&provider))
        .with_protocol_versions(&versions)
        .context("choose versions of TLS")?;
    let builder = match &serving.client_ca_file {
        None => builder.with_no_client_auth(),
        Some(path) => {
            let mut roots = RootCertStore::empty();
            for certificate in certificates(files, path).await? {
                roots.add(certificate).with_context(|| format!("use {}", path.display()))?;
            }
            // Who has no certificate may have a token, or only ask for health.
            let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider)
                .allow_unauthenticated()
                .build()
                .with_context(|| format!("use {}", path.display()))?;
            builder.with_client_cert_verifier(verifier)
        }
    };
    let mut config = builder.with_single_cert(chain, key).context("use the certificate")?;
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(config)
}

async fn certificates(files: &dyn HostFiles, path: &Path) -> Result<Vec<CertificateDer<'static>>> {
    let named = || format!("read certificates from {}", path.display());
    let pem = files.read(path, LONGEST).await.with_context(named)?;
    let found: Vec<_> =
        CertificateDer::pem_slice_iter(&pem).collect::<Result<_, _>>().with_context(named)?;
    if found.is_empty() {
        bail!("{} has no certificate", path.display());
    }
    Ok(found)
}

async fn private_key(files: &dyn HostFiles, path: &Path) -> Result<PrivateKeyDer<'static>> {
    let named = || format!("read a key from {}", path.display());
    let pem = files.read(path, LONGEST).await.with_context(named)?;
    PrivateKeyDer::from_pem_slice(&pem).with_context(named)
}

/// A certificate that nobody vouches for, as upstream makes one.
fn self_signed(
    host: &str,
    now: Timestamp,
) -> Result<(Vec<CertificateDer<'static>>, PrivateKeyDer<'static>)> {
    let names = vec![host.to_owned(), "localhost".to_owned(), "127.0.0.1".to_owned()];
    let mut params = CertificateParams::new(names).context("make a certificate")?;
    params.distinguished_name.push(DnType::CommonName, format!("{host}@{}", now.as_second()));
    let day = |days: i64| {
        let date = (now + Span::new().hours(days * 24)).to_zoned(jiff::tz::TimeZone::UTC).date();
        let part = |number: i8| u8::try_from(number).unwrap_or(1);
        rcgen::date_time_ymd(i32::from(date.year()), part(date.month()), part(date.day()))
    };
    params.not_before = day(-1);
    params.not_after = day(DAYS);
    let key = KeyPair::generate().context("make a key")?;
    let certificate = params.self_signed(&key).context("make a certificate")?;
    let key = PrivateKeyDer::Pkcs8(key.serialize_der().into());
    Ok((vec![certificate.der().clone()], key))
}

/// Whose certificate it is: the common name, and an organisation for each group.
pub fn owner(certificate: &CertificateDer<'_>) -> Option<User> {
    let (_, certificate) = X509Certificate::from_der(certificate).ok()?;
    let subject = certificate.subject();
    let name = subject.iter_common_name().next()?.as_str().ok()?.to_owned();
    let groups = subject.iter_organization().filter_map(|group| group.as_str().ok());
    let groups = groups.map(str::to_owned).chain(["system:authenticated".to_owned()]);
    Some(User { name, uid: String::new(), groups: groups.collect() })
}

#[cfg(test)]
mod tests {
    use config::pod_gc::{Asked, parse};
    use testkit::clock::VirtualClock;
    use testkit::files::MemoryFiles;

    use super::*;

    #[test]
    fn a_certificate_tells_its_owner() {
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

    /// Puts a certificate and its key where they are served from.
    fn put(files: &MemoryFiles, name: &str) {
        let key = KeyPair::generate().unwrap();
        let certificate = CertificateParams::new(vec![name.to_owned()]).unwrap();
        let certificate = certificate.self_signed(&key).unwrap();
        files.write("/tls/cert", certificate.pem());
        files.write("/tls/key", key.serialize_pem());
    }

    // behaviour: PGC-104
    #[tokio::test(start_paused = true)]
    async fn certificates_are_read_again_when_their_files_change() {
        let files = Arc::new(MemoryFiles::new());
        put(&files, "first");
        let flags = ["--tls-cert-file=/tls/cert", "--tls-private-key-file=/tls/key"];
        let Ok(Asked::Run(args)) = parse(flags) else { panic!("these flags mean to run") };
        let clock = Arc::new(VirtualClock::new());
        let keys = Keys::read(&args.serving, "host", Arc::clone(&files) as _, clock).await.unwrap();
        let first = keys.current().await;
        put(&files, "second");
        assert!(Arc::ptr_eq(&first, &keys.current().await), "not looked yet");
        tokio::time::sleep(LOOK_AGAIN).await;
        let second = keys.current().await;
        assert!(!Arc::ptr_eq(&first, &second));
        files.write("/tls/cert", "nonsense");
        tokio::time::sleep(LOOK_AGAIN).await;
        assert!(Arc::ptr_eq(&second, &keys.current().await), "the last that was good");
    }

    #[test]
    fn a_certificate_that_is_made_here_is_good_for_a_year() {
        let now: Timestamp = "2026-11-15T10:00:00Z".parse().unwrap();
        let (chain, _) = self_signed("host", now).unwrap();
        let (_, certificate) = X509Certificate::from_der(&chain[0]).unwrap();
        let validity = certificate.validity();
        assert_eq!(validity.not_before.to_datetime().to_string(), "2026-11-14 0:00:00.0 +00:00:00");
        assert_eq!(validity.not_after.to_datetime().to_string(), "2027-11-15 0:00:00.0 +00:00:00");
    }
}
