//! Trusted certificate authorities.

use std::error::Error;
use std::sync::Arc;
use std::time::Duration;

use blocking::Flights;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::CryptoProvider;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{ClientConfig, DigitallySignedStruct, RootCertStore, SignatureScheme};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::OnceCell;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

pub(crate) type Failure = Box<dyn Error + Send + Sync>;

/// The trusted authorities, read on first use.
#[derive(Debug)]
pub(crate) struct Tls {
    config: OnceCell<Arc<ClientConfig>>,
    trust: Trust,
    /// One thread reads them, even if its callers give up.
    loading: Flights<RootCertStore>,
    offers_http2: bool,
}

/// The ALPN name of HTTP/2.
const HTTP2: &[u8] = b"h2";

/// The timeout of reading the authorities.
const LOADING: Duration = Duration::from_secs(30);

/// The trusted authorities.
#[derive(Debug)]
enum Trust {
    /// The authorities of the system.
    System,
    /// These authorities, as DER certificates.
    These(Vec<Vec<u8>>),
    /// Any certificate.
    AnyServer,
}

impl Default for Tls {
    fn default() -> Self {
        Self::new(Trust::System)
    }
}

impl Tls {
    fn new(trust: Trust) -> Self {
        Self { config: OnceCell::new(), trust, loading: Flights::new(1), offers_http2: false }
    }

    pub(crate) fn trusting(authorities: Vec<Vec<u8>>) -> Self {
        Self::new(Trust::These(authorities))
    }

    /// Trusts every server, as the kubelet does with the containers of the node's own pods.
    pub(crate) fn trusting_any_server() -> Self {
        Self::new(Trust::AnyServer)
    }

    /// Accepts every server certificate, and offers HTTP/2.
    pub(crate) fn for_probes() -> Self {
        Self { offers_http2: true, ..Self::trusting_any_server() }
    }

    /// Establishes TLS to this host.
    pub(crate) async fn secure<S: AsyncRead + AsyncWrite + Unpin>(
        &self,
        stream: S,
        host: &str,
    ) -> Result<TlsStream<S>, Failure> {
        let config = self.config.get_or_try_init(|| self.load()).await?;
        let name = ServerName::try_from(host.to_owned())?;
        Ok(TlsConnector::from(Arc::clone(config)).connect(name, stream).await?)
    }

    async fn load(&self) -> Result<Arc<ClientConfig>, Failure> {
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let builder = ClientConfig::builder_with_provider(Arc::clone(&provider))
            .with_safe_default_protocol_versions()?;
        let roots = match &self.trust {
            Trust::AnyServer => {
                let mut config = builder
                    .dangerous()
                    .with_custom_certificate_verifier(Arc::new(AcceptAnyCertificate(provider)))
                    .with_no_client_auth();
                if self.offers_http2 {
                    config.alpn_protocols = vec![HTTP2.to_vec(), b"http/1.1".to_vec()];
                }
                return Ok(Arc::new(config));
            }
            Trust::These(authorities) => {
                roots(authorities.iter().cloned().map(CertificateDer::from))
            }
            // These are many files.
            Trust::System => {
                let read = || roots(rustls_native_certs::load_native_certs().certs);
                let flight = self.loading.join("", read).ok_or("certificates are being read")?;
                let roots = flight.wait(LOADING).await;
                roots.ok_or("the certificates of the system cannot be read in time")?
            }
        };
        if roots.is_empty() {
            return Err("the system has no certificates of authorities".into());
        }
        Ok(Arc::new(builder.with_root_certificates(roots).with_no_client_auth()))
    }
}

/// The TLS settings of a client that trusts the authorities of the system, which are read on first use.
#[derive(Debug, Default)]
pub struct SystemTls(Tls);

impl SystemTls {
    /// The settings.
    pub async fn client_config(&self) -> Result<Arc<ClientConfig>, Box<dyn Error + Send + Sync>> {
        let config = self.0.config.get_or_try_init(|| self.0.load()).await?;
        Ok(Arc::clone(config))
    }
}

/// Whether the server chose HTTP/2.
pub(crate) fn is_http2<S>(stream: &TlsStream<S>) -> bool {
    stream.get_ref().1.alpn_protocol() == Some(HTTP2)
}

/// Whether a TLS connection failed because the server does not speak TLS.
pub(crate) fn is_plain(failure: &Failure) -> bool {
    let io = failure.downcast_ref::<std::io::Error>().and_then(|error| error.get_ref());
    let tls = io.and_then(|inner| inner.downcast_ref::<rustls::Error>());
    matches!(tls, Some(rustls::Error::InvalidMessage(rustls::InvalidMessage::InvalidContentType)))
}

/// Accepts every certificate, like Go with `InsecureSkipVerify`. Without a verified certificate a signature proves
/// nothing, and checking it would refuse keys and certificates (X.509 v1) that Go accepts.
#[derive(Debug)]
struct AcceptAnyCertificate(Arc<CryptoProvider>);

impl ServerCertVerifier for AcceptAnyCertificate {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn verify_tls13_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}

fn roots(certificates: impl IntoIterator<Item = CertificateDer<'static>>) -> RootCertStore {
    let mut roots = RootCertStore::empty();
    // A certificate that cannot be parsed is skipped; the others are trusted.
    roots.add_parsable_certificates(certificates);
    roots
}
