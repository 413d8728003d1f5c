//! Certificates: an authority, a server certificate, and a client that presents its own.

use std::fs;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use base64::Engine as _;
use base64::prelude::BASE64_STANDARD as STANDARD;
use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair};
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::ring::default_provider;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::{ClientConfig, ClientConnection, DigitallySignedStruct, SignatureScheme, StreamOwned};

/// The timeout of a response.
const ANSWER: Duration = Duration::from_secs(10);

/// The maximum size of a response.
const MOST: u64 = 1 << 20;

/// An authority with a certificate for a client and one for a server.
pub(crate) struct Certificates {
    authority: String,
    server: (String, String),
    client: Arc<ClientConfig>,
}

impl Certificates {
    pub(crate) fn new() -> Result<Self> {
        let mut params = CertificateParams::new(Vec::new())?;
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.distinguished_name.push(DnType::CommonName, "authority");
        let key = KeyPair::generate()?;
        let authority = pem("CERTIFICATE", params.self_signed(&key)?.der());
        let issuer = Issuer::new(params, key);
        let signed = |name: &str| -> Result<_> {
            let mut params = CertificateParams::new(vec![name.to_owned()])?;
            params.distinguished_name.push(DnType::CommonName, name);
            let key = KeyPair::generate()?;
            Ok((params.signed_by(&key, &issuer)?, key))
        };
        let (certificate, key) = signed("server")?;
        let server =
            (pem("CERTIFICATE", certificate.der()), pem("PRIVATE KEY", &key.serialize_der()));
        let (certificate, key) = signed("client")?;
        let key = PrivateKeyDer::try_from(key.serialize_der()).map_err(anyhow::Error::msg)?;
        let client = ClientConfig::builder_with_provider(Arc::new(default_provider()))
            .with_safe_default_protocol_versions()?
            .dangerous()
            .with_custom_certificate_verifier(Arc::new(AnyServer))
            .with_client_auth_cert(vec![certificate.der().clone()], key)?;
        Ok(Self { authority, server, client: Arc::new(client) })
    }

    /// Writes `ca.pem`, `server.pem` and `server.key` into a directory.
    pub(crate) fn write(&self, directory: &Path) -> Result<()> {
        fs::write(directory.join("ca.pem"), &self.authority)?;
        fs::write(directory.join("server.pem"), &self.server.0)?;
        fs::write(directory.join("server.key"), &self.server.1)?;
        Ok(())
    }

    /// Gets a path over HTTPS with the client's certificate.
    pub(crate) fn get(&self, address: SocketAddr, path: &str) -> Result<String> {
        let tcp = TcpStream::connect_timeout(&address, ANSWER)?;
        tcp.set_read_timeout(Some(ANSWER))?;
        tcp.set_write_timeout(Some(ANSWER))?;
        let name = ServerName::IpAddress(address.ip().into());
        let tls = ClientConnection::new(Arc::clone(&self.client), name)?;
        let mut stream = StreamOwned::new(tls, tcp);
        write!(stream, "GET {path} HTTP/1.0\r\n\r\n")?;
        let mut answer = String::new();
        // The peer may close the connection without a TLS alert.
        let read = stream.take(MOST).read_to_string(&mut answer);
        let (head, body) = answer.split_once("\r\n\r\n").context("a response without an end")?;
        let status = head.lines().next().unwrap_or_default();
        ensure!(status.contains(" 200 "), "{path}: {status}: {body}");
        if read.is_err() {
            serde_json::from_str::<serde_json::Value>(body).context("an incomplete response")?;
        }
        Ok(body.to_owned())
    }
}

/// The format in which the kubelet reads certificates and keys.
fn pem(label: &str, content: &[u8]) -> String {
    let text = STANDARD.encode(content);
    let lines: Vec<&str> =
        text.as_bytes().chunks(64).filter_map(|line| str::from_utf8(line).ok()).collect();
    format!("-----BEGIN {label}-----\n{}\n-----END {label}-----\n", lines.join("\n"))
}

/// Accepts every server certificate: the test started the server in its own network.
#[derive(Debug)]
struct AnyServer;

impl ServerCertVerifier for AnyServer {
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
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = default_provider().signature_verification_algorithms;
        rustls::crypto::verify_tls12_signature(message, certificate, signature, &algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = default_provider().signature_verification_algorithms;
        rustls::crypto::verify_tls13_signature(message, certificate, signature, &algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        default_provider().signature_verification_algorithms.supported_schemes()
    }
}
