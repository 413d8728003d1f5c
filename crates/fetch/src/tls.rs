//! Whom to trust.

use std::sync::Arc;

use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use tokio::net::TcpStream;
use tokio::sync::OnceCell;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

type Failure = Box<dyn std::error::Error + Send + Sync>;

/// The authorities that vouch for servers, read when they are first needed.
#[derive(Debug, Default)]
pub(crate) struct Tls {
    config: OnceCell<Arc<ClientConfig>>,
    /// Instead of the system's.
    authorities: Option<Vec<Vec<u8>>>,
}

impl Tls {
    pub(crate) fn trusting(authorities: Vec<Vec<u8>>) -> Self {
        Self { config: OnceCell::new(), authorities: Some(authorities) }
    }

    /// Makes a connection a secure one to the host that is meant.
    pub(crate) async fn secure(
        &self,
        stream: TcpStream,
        host: &str,
    ) -> Result<TlsStream<TcpStream>, Failure> {
        let config = self.config.get_or_try_init(|| self.load()).await?;
        let name = ServerName::try_from(host.to_owned())?;
        Ok(TlsConnector::from(Arc::clone(config)).connect(name, stream).await?)
    }

    async fn load(&self) -> Result<Arc<ClientConfig>, Failure> {
        let roots = match &self.authorities {
            Some(authorities) => roots(authorities.iter().cloned().map(CertificateDer::from)),
            // Many files.
            None => {
                tokio::task::spawn_blocking(|| {
                    roots(rustls_native_certs::load_native_certs().certs)
                })
                .await?
            }
        };
        if roots.is_empty() {
            return Err("the system has no certificates of authorities".into());
        }
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()?
            .with_root_certificates(roots)
            .with_no_client_auth();
        Ok(Arc::new(config))
    }
}

fn roots(certificates: impl IntoIterator<Item = CertificateDer<'static>>) -> RootCertStore {
    let mut roots = RootCertStore::empty();
    // One that makes no sense vouches for nobody, and is no reason to trust none of the others.
    roots.add_parsable_certificates(certificates);
    roots
}
