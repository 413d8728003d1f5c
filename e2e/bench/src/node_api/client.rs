//! A cheap client of the node's API: blocking, over TLS, with a client certificate, without verifying the node's
//! self-signed certificate.

use std::io::{self, Read, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa,
    Issuer, KeyPair,
};
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer, ServerName, UnixTime};
use rustls::{
    ClientConfig, ClientConnection, DigitallySignedStruct, Error, SignatureScheme, StreamOwned,
};

/// The timeout of a read.
const PATIENCE: Duration = Duration::from_mins(1);

/// Accepts the certificate that a node has made for itself.
#[derive(Debug)]
struct AnyCertificate(Arc<CryptoProvider>);

impl ServerCertVerifier for AnyCertificate {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let algorithms = &self.0.signature_verification_algorithms;
        verify_tls12_signature(message, certificate, signature, algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let algorithms = &self.0.signature_verification_algorithms;
        verify_tls13_signature(message, certificate, signature, algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}

/// The certificate of a client, and the authority that signed it.
#[derive(Debug)]
pub(super) struct Identity {
    /// For the node's `clientCAFile`.
    pub(super) authority_pem: String,
    certificate: CertificateDer<'static>,
    key: KeyPair,
}

impl Identity {
    /// A new authority and a certificate of it.
    pub(super) fn generate() -> Result<Self> {
        let mut authority = named("bench-authority")?;
        authority.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let authority_key = KeyPair::generate()?;
        let authority_pem = authority.self_signed(&authority_key)?.pem();
        let mut params = named("bench")?;
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
        let key = KeyPair::generate()?;
        let signed = params.signed_by(&key, &Issuer::new(authority, authority_key))?;
        Ok(Self { authority_pem, certificate: signed.der().clone(), key })
    }
}

fn named(name: &str) -> Result<CertificateParams> {
    let mut params = CertificateParams::new(Vec::new())?;
    params.distinguished_name = DistinguishedName::new();
    params.distinguished_name.push(DnType::CommonName, name);
    Ok(params)
}

type Stream = StreamOwned<ClientConnection, TcpStream>;

/// A response.
#[derive(Debug)]
pub(super) struct Reply {
    /// Head and body.
    pub(super) text: String,
}

/// A connection whose response has begun.
pub(super) struct Follower(
    #[expect(dead_code, reason = "it is open for as long as it is held")] Stream,
);

/// A client of one node.
#[derive(Debug)]
pub(super) struct Client {
    address: SocketAddr,
    tls: Arc<ClientConfig>,
}

impl Client {
    pub(super) fn new(address: SocketAddr, identity: &Identity) -> Result<Self> {
        let key = PrivateKeyDer::from(PrivatePkcs8KeyDer::from(identity.key.serialize_der()));
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let tls = ClientConfig::builder_with_provider(Arc::clone(&provider))
            .with_safe_default_protocol_versions()?
            .dangerous()
            .with_custom_certificate_verifier(Arc::new(AnyCertificate(provider)))
            .with_client_auth_cert(vec![identity.certificate.clone()], key)?;
        Ok(Self { address, tls: Arc::new(tls) })
    }

    /// Sends a request; returns the connection and the response so far, with its complete head.
    fn send(&self, path: &str, headers: &str) -> Result<(Stream, Vec<u8>)> {
        let socket = TcpStream::connect(self.address).context("connect")?;
        socket.set_nodelay(true)?;
        socket.set_read_timeout(Some(PATIENCE))?;
        let name = ServerName::from(self.address.ip());
        let mut stream =
            StreamOwned::new(ClientConnection::new(Arc::clone(&self.tls), name)?, socket);
        let request = format!("GET {path} HTTP/1.1\r\nhost: node\r\n{headers}\r\n");
        stream.write_all(request.as_bytes())?;
        let (mut head, mut chunk) = (Vec::new(), [0; 4096]);
        while !head.windows(4).any(|four| four == b"\r\n\r\n") {
            let count = stream.read(&mut chunk).context("read an answer")?;
            ensure!(count > 0, "no answer: {}", String::from_utf8_lossy(&head));
            head.extend_from_slice(&chunk[..count]);
        }
        Ok((stream, head))
    }

    fn ended(read: io::Result<usize>) -> io::Result<usize> {
        match read {
            // The connection was closed without a TLS alert.
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Ok(0),
            other => other,
        }
    }

    /// Reads the whole response.
    pub(super) fn get(&self, path: &str) -> Result<Reply> {
        let (mut stream, mut all) = self.send(path, "connection: close\r\n")?;
        Self::ended(stream.read_to_end(&mut all))?;
        let text = String::from_utf8_lossy(&all).into_owned();
        ensure!(text.starts_with("HTTP/1.1 200"), "{text}");
        Ok(Reply { text })
    }

    /// Reads the whole response; returns its bytes with head and framing.
    pub(super) fn count(&self, path: &str) -> Result<u64> {
        let (mut stream, head) = self.send(path, "connection: close\r\n")?;
        ensure!(head.starts_with(b"HTTP/1.1 200"), "{}", String::from_utf8_lossy(&head));
        let (mut all, mut chunk) = (u64::try_from(head.len())?, vec![0; 256 << 10]);
        loop {
            match Self::ended(stream.read(&mut chunk))? {
                0 => return Ok(all),
                count => all += u64::try_from(count)?,
            }
        }
    }

    /// Executes a command by WebSocket, until it has ended.
    pub(super) fn execute(&self, path: &str) -> Result<()> {
        let upgrade = "connection: Upgrade\r\nupgrade: websocket\r\nsec-websocket-version: 13\r\n\
                       sec-websocket-key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\
                       sec-websocket-protocol: v4.channel.k8s.io\r\n";
        let (mut stream, mut all) = self.send(path, upgrade)?;
        ensure!(all.starts_with(b"HTTP/1.1 101"), "{}", String::from_utf8_lossy(&all));
        Self::ended(stream.read_to_end(&mut all))?;
        let text = String::from_utf8_lossy(&all);
        ensure!(text.contains(r#""status":"Success""#), "{text}");
        Ok(())
    }

    /// Starts to follow a log.
    pub(super) fn follow(&self, path: &str) -> Result<Follower> {
        let (stream, head) = self.send(path, "")?;
        ensure!(head.starts_with(b"HTTP/1.1 200"), "{}", String::from_utf8_lossy(&head));
        Ok(Follower(stream))
    }
}
