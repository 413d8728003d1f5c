//! Clients and certificates for tests of HTTPS ports.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa,
    Issuer, KeyPair,
};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, RootCertStore, SupportedProtocolVersion};
use testkit::files::MemoryFiles;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

/// A certificate authority.
pub(crate) struct Authority {
    pub(crate) certificate: CertificateDer<'static>,
    pub(crate) pem: String,
    issuer: Issuer<'static, KeyPair>,
}

/// A certificate with its key.
pub(crate) type Identity = (rcgen::Certificate, KeyPair);

impl Authority {
    pub(crate) fn new() -> Self {
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate().unwrap();
        let certificate = params.self_signed(&key).unwrap();
        let (pem, der) = (certificate.pem(), certificate.der().clone());
        Self { certificate: der, pem, issuer: Issuer::new(params, key) }
    }

    pub(crate) fn issue(
        &self,
        mut params: CertificateParams,
        usage: ExtendedKeyUsagePurpose,
    ) -> Identity {
        params.extended_key_usages = vec![usage];
        let key = KeyPair::generate().unwrap();
        (params.signed_by(&key, &self.issuer).unwrap(), key)
    }

    /// A client certificate with this name.
    pub(crate) fn client(&self, name: &str) -> Identity {
        self.issue(named(name), ExtendedKeyUsagePurpose::ClientAuth)
    }

    /// The files `/tls/cert`, `/tls/key` and `/tls/ca` of a server on `localhost`.
    pub(crate) fn server_files(&self) -> Arc<MemoryFiles> {
        let files = Arc::new(MemoryFiles::new());
        let params = CertificateParams::new(vec!["localhost".to_owned()]).unwrap();
        let (certificate, key) = self.issue(params, ExtendedKeyUsagePurpose::ServerAuth);
        files.write("/tls/cert", certificate.pem());
        files.write("/tls/key", key.serialize_pem());
        files.write("/tls/ca", self.pem.clone());
        files
    }

    /// Connects to a server on `localhost` that has a certificate of this authority.
    pub(crate) async fn connect(
        &self,
        address: SocketAddr,
        versions: &[&'static SupportedProtocolVersion],
        who: Option<&Identity>,
    ) -> io::Result<TlsStream<TcpStream>> {
        let mut roots = RootCertStore::empty();
        roots.add(self.certificate.clone()).unwrap();
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let builder = ClientConfig::builder_with_provider(provider)
            .with_protocol_versions(versions)
            .unwrap()
            .with_root_certificates(roots);
        let config = match who {
            None => builder.with_no_client_auth(),
            Some((certificate, key)) => {
                let key = PrivateKeyDer::Pkcs8(key.serialize_der().into());
                builder.with_client_auth_cert(vec![certificate.der().clone()], key).unwrap()
            }
        };
        let name = ServerName::try_from("localhost").unwrap();
        let stream = TcpStream::connect(address).await?;
        TlsConnector::from(Arc::new(config)).connect(name, stream).await
    }

    /// Sends a text and reads the whole answer.
    pub(crate) async fn exchange(
        &self,
        address: SocketAddr,
        versions: &[&'static SupportedProtocolVersion],
        who: Option<&Identity>,
        text: &str,
    ) -> Result<String, String> {
        let all = async {
            let mut stream = self.connect(address, versions, who).await?;
            stream.write_all(text.as_bytes()).await?;
            let mut answer = Vec::new();
            match stream.read_to_end(&mut answer).await {
                // A refused upgrade ends the connection without a TLS close.
                Err(error)
                    if error.kind() == io::ErrorKind::UnexpectedEof && !answer.is_empty() => {}
                read => {
                    read?;
                }
            }
            io::Result::Ok(String::from_utf8(answer).unwrap())
        };
        let answer = timeout(Duration::from_secs(30), all).await.unwrap();
        answer.map_err(|error| error.to_string())
    }
}

/// The parameters of a certificate with this common name.
pub(crate) fn named(name: &str) -> CertificateParams {
    let mut params = CertificateParams::new(Vec::new()).unwrap();
    params.distinguished_name = DistinguishedName::new();
    params.distinguished_name.push(DnType::CommonName, name);
    params
}

/// The status of an answer.
pub(crate) fn status(answer: &str) -> u16 {
    let line = answer.strip_prefix("HTTP/1.1 ").unwrap_or_else(|| panic!("{answer:?}"));
    line.split(' ').next().unwrap().parse().unwrap()
}
