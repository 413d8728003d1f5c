//! A client certificate whose files are replaced.
#![expect(clippy::disallowed_methods, reason = "certificates are in files")]

use std::convert::Infallible;
use std::fs;
use std::path::Path;
use std::sync::{Arc, Mutex};

use http_body_util::Full;
use hyper::Response;
use hyper::body::Bytes;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use model::ids::PodName;
use model::ports::cluster::ApiError;
use model::ports::pod_api::PodApi as _;
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use rustls::pki_types::PrivateKeyDer;
use rustls::server::WebPkiClientVerifier;
use rustls::{RootCertStore, ServerConfig};
use tokio::net::TcpListener;
use tokio::task::JoinSet;
use tokio_rustls::TlsAcceptor;

use crate::server::by_kubeconfig;

const POD: &str = r#"{"metadata":{"name":"a","namespace":"ns","uid":"u1","resourceVersion":"8"},"spec":{"containers":[]}}"#;

/// A certificate with its key.
struct Identity {
    der: Vec<u8>,
    certificate: String,
    key: String,
}

impl Identity {
    fn new(authority: &CertifiedIssuer<'_, KeyPair>) -> Self {
        let key = KeyPair::generate().unwrap();
        let params = CertificateParams::new(vec!["node".to_owned()]).unwrap();
        let certificate = params.signed_by(&key, authority).unwrap();
        let (der, text) = (certificate.der().to_vec(), certificate.pem());
        Self { der, certificate: text, key: key.serialize_pem() }
    }

    /// Writes them to files, each by a rename.
    fn write(&self, directory: &Path) {
        for (name, text) in [("cert.pem", &self.certificate), ("key.pem", &self.key)] {
            fs::write(directory.join("draft"), text).unwrap();
            fs::rename(directory.join("draft"), directory.join(name)).unwrap();
        }
    }
}

fn authority() -> CertifiedIssuer<'static, KeyPair> {
    let mut params = CertificateParams::default();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap()
}

/// TLS with certificates of this authority at both ends.
fn tls(authority: &CertifiedIssuer<'_, KeyPair>) -> TlsAcceptor {
    let key = KeyPair::generate().unwrap();
    let params = CertificateParams::new(vec!["localhost".to_owned()]).unwrap();
    let certificate = params.signed_by(&key, authority).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut roots = RootCertStore::empty();
    roots.add(authority.der().clone()).unwrap();
    let clients = WebPkiClientVerifier::builder_with_provider(roots.into(), Arc::clone(&provider));
    let config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_client_cert_verifier(clients.build().unwrap())
        .with_single_cert(
            vec![certificate.der().clone()],
            PrivateKeyDer::try_from(key.serialize_der()).unwrap(),
        )
        .unwrap();
    TlsAcceptor::from(Arc::new(config))
}

#[derive(Default)]
struct ServerCounts {
    /// The certificate of each call.
    calls: Vec<Vec<u8>>,
    /// A certificate that is no longer accepted.
    expired: Vec<u8>,
}

/// An API server that refuses calls with an expired certificate, as real ones do: on existing connections too.
async fn serve(listener: TcpListener, tls: TlsAcceptor, seen: Arc<Mutex<ServerCounts>>) {
    let mut connections = JoinSet::new();
    while let Ok((stream, _)) = listener.accept().await {
        let (tls, seen) = (tls.clone(), Arc::clone(&seen));
        connections.spawn(async move {
            let Ok(stream) = tls.accept(stream).await else { return };
            let caller = stream.get_ref().1.peer_certificates().unwrap()[0].to_vec();
            let service = service_fn(move |_| {
                let mut seen = seen.lock().unwrap();
                seen.calls.push(caller.clone());
                let status = if seen.expired == caller { 401 } else { 200 };
                let answer = Response::builder().status(status);
                let answer = answer.body(Full::new(Bytes::from(POD))).unwrap();
                async move { Ok::<_, Infallible>(answer) }
            });
            drop(http1::Builder::new().serve_connection(TokioIo::new(stream), service).await);
        });
    }
}

// behaviour: NODE-61
#[tokio::test]
async fn changed_client_certificate_is_used_after_the_old_one_was_refused() {
    let (place, authority) = (tempfile::tempdir().unwrap(), authority());
    let (first, second) = (Identity::new(&authority), Identity::new(&authority));
    first.write(place.path());
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = format!("https://{}", listener.local_addr().unwrap());
    let (seen, mut tasks) = (Arc::new(Mutex::new(ServerCounts::default())), JoinSet::new());
    tasks.spawn(serve(listener, tls(&authority), Arc::clone(&seen)));

    let directory = place.path().display();
    let user = format!(
        "client-certificate: \"{directory}/cert.pem\", client-key: \"{directory}/key.pem\""
    );
    let cluster = by_kubeconfig(&address, ", insecure-skip-tls-verify: true", &user).await;
    let patch = async || cluster.patch_status(&PodName::new("ns", "a"), "{}".to_owned()).await;
    patch().await.unwrap();
    second.write(place.path());
    seen.lock().unwrap().expired = first.der.clone();
    let error = patch().await.unwrap_err();
    assert!(matches!(error, ApiError::Refused { code: 401, .. }), "{error:?}");
    patch().await.unwrap();
    assert_eq!(seen.lock().unwrap().calls, [first.der.clone(), first.der, second.der.clone()]);

    // A certificate without its key changes nothing.
    fs::write(place.path().join("cert.pem"), authority.pem()).unwrap();
    seen.lock().unwrap().expired = second.der.clone();
    patch().await.unwrap_err();
    patch().await.unwrap_err();
    seen.lock().unwrap().expired.clear();
    patch().await.unwrap();
    assert_eq!(seen.lock().unwrap().calls.last(), Some(&second.der));
}
