use std::net::SocketAddr;
use std::time::Duration;

use async_trait::async_trait;
use model::cluster::AccessRequest;
use model::ports::cluster::{ApiError, Reviews};
use rustls::SupportedProtocolVersion;
use testkit::clock::VirtualClock;
use tokio::task::JoinSet;

use super::*;
use crate::access::AccessSettings;
use crate::test_tls::{Authority, Identity, status};
use crate::tls::TlsSettings;

/// Accepts the tokens `good` and `poor`, and allows `good` to get metrics and settings, by token or certificate.
#[derive(Debug)]
struct Reviewer;

#[async_trait]
impl Reviews for Reviewer {
    async fn token_owner(&self, token: &str) -> Result<Option<User>, ApiError> {
        let known = ["good", "poor"].contains(&token);
        Ok(known.then(|| User { name: token.to_owned(), ..User::default() }))
    }

    async fn is_allowed(&self, user: &User, request: &AccessRequest) -> Result<bool, ApiError> {
        let AccessRequest::Path(path) = request else { return Ok(false) };
        Ok(user.name == "good"
            && ["/metrics", "/configz", "/healthz/ping"].contains(&path.as_str()))
    }
}

/// Some pages, of which one reports an error.
#[derive(Debug)]
struct TestPages;

impl Pages for TestPages {
    fn answer(&self, path: &str, _: Option<&str>) -> Page {
        match path {
            "/healthz" | "/livez" | "/healthz/ping" | "/livez/ping" | "/metrics" | "/configz" => {
                text_page(StatusCode::OK, "ok")
            }
            "/readyz" => text_page(StatusCode::INTERNAL_SERVER_ERROR, "not ready"),
            _ => text_page(StatusCode::NOT_FOUND, "404 page not found\n"),
        }
    }
}

/// Differences from the default port.
#[derive(Default)]
struct Options {
    open_paths: Option<Vec<String>>,
    newest_tls_only: bool,
}

/// A served port.
struct Port {
    address: SocketAddr,
    authority: Authority,
    _tasks: JoinSet<()>,
}

impl Port {
    async fn open(options: Options) -> Self {
        Self::reviewed_by(Arc::new(Reviewer), options).await
    }

    async fn reviewed_by(reviewer: Arc<dyn Reviews>, options: Options) -> Self {
        let authority = Authority::new();
        let files = authority.server_files();
        let tls = TlsSettings {
            cert_file: Some("/tls/cert".into()),
            key_file: Some("/tls/key".into()),
            client_ca_file: Some("/tls/ca".into()),
            newest_tls_only: options.newest_tls_only,
            ..TlsSettings::default()
        };
        let clock = Arc::new(VirtualClock::new());
        let certificates = Certificates::read(tls, "localhost", files, clock).await.unwrap();
        let usual = || ["/healthz", "/readyz", "/livez"].map(str::to_owned).to_vec();
        let ttl = Duration::from_secs(10);
        let settings = AccessSettings {
            open_paths: options.open_paths.unwrap_or_else(usual),
            token_ttl: ttl,
            allowed_ttl: ttl,
            denied_ttl: ttl,
        };
        let port = HttpsPort::new(Access::new(reviewer, settings), Arc::new(TestPages));
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let mut tasks = JoinSet::new();
        let (port, certificates) = (Arc::new(port), Arc::new(certificates));
        tasks.spawn(serve_https(port, listener, certificates, CancellationToken::new()));
        Self { address, authority, _tasks: tasks }
    }

    /// Sends a text and reads the whole answer.
    async fn send(&self, who: Option<&Identity>, text: &str) -> Result<String, String> {
        self.send_by(rustls::DEFAULT_VERSIONS, who, text).await
    }

    async fn send_by(
        &self,
        versions: &[&'static SupportedProtocolVersion],
        who: Option<&Identity>,
        text: &str,
    ) -> Result<String, String> {
        self.authority.exchange(self.address, versions, who, text).await
    }

    /// Gets a path; returns the status and the whole answer.
    async fn get(&self, who: Credentials<'_>, path: &str) -> (u16, String) {
        let (identity, token) = match who {
            Credentials::Anonymous => (None, String::new()),
            Credentials::Token(token) => (None, format!("authorization: Bearer {token}\r\n")),
            Credentials::Certificate(identity) => (Some(identity), String::new()),
        };
        let request = format!("GET {path} HTTP/1.1\r\nhost: localhost\r\n{token}\r\n");
        let answer = self.send(identity, &request).await.unwrap();
        (status(&answer), answer)
    }
}

/// The credentials of a caller.
#[derive(Clone, Copy)]
enum Credentials<'a> {
    Anonymous,
    Token(&'a str),
    Certificate(&'a Identity),
}

// behaviour: PGC-100, PGC-102
#[tokio::test]
async fn open_paths_are_public_and_other_paths_need_authorization() {
    let port = Port::open(Options::default()).await;
    let good = port.authority.client("good");
    let poor = port.authority.client("poor");
    let whos = [
        Credentials::Anonymous,
        Credentials::Token("bad"),
        Credentials::Token("poor"),
        Credentials::Token("good"),
        Credentials::Certificate(&poor),
        Credentials::Certificate(&good),
    ];
    for (path, expected) in [
        ("/healthz", [200; 6]),
        ("/livez", [200; 6]),
        ("/readyz", [500; 6]),
        ("/metrics", [403, 401, 403, 200, 403, 200]),
        ("/configz", [403, 401, 403, 200, 403, 200]),
        // Only the named paths are open.
        ("/healthz/ping", [403, 401, 403, 200, 403, 200]),
        ("/secrets", [403, 401, 403, 403, 403, 403]),
    ] {
        let mut seen = Vec::new();
        for who in whos {
            seen.push(port.get(who, path).await.0);
        }
        assert_eq!(seen, expected, "{path}");
    }
    let (_, refusal) = port.get(Credentials::Token("bad"), "/metrics").await;
    assert!(refusal.contains("www-authenticate: Bearer"), "{refusal}");
}

// behaviour: PGC-102
#[tokio::test]
async fn certificate_of_another_authority_is_refused() {
    let port = Port::open(Options::default()).await;
    let foreign = Authority::new().client("good");
    let request = "GET /healthz HTTP/1.1\r\nhost: localhost\r\n\r\n";
    let error = port.send(Some(&foreign), request).await.unwrap_err();
    assert!(error.contains("alert"), "{error}");
}

// behaviour: PGC-105
#[tokio::test]
async fn open_paths_can_be_set() {
    let open_paths = Some(vec!["/metrics".to_owned(), "/livez*".to_owned()]);
    let port = Port::open(Options { open_paths, ..Options::default() }).await;
    for (path, expected) in [("/metrics", 200), ("/livez/ping", 200), ("/healthz", 403)] {
        assert_eq!(port.get(Credentials::Anonymous, path).await.0, expected, "{path}");
    }
}

// behaviour: PGC-107
#[tokio::test]
async fn connection_has_one_get_request_of_at_most_8_kib() {
    let port = Port::open(Options::default()).await;
    let request = "GET /healthz HTTP/1.1\r\nhost: localhost\r\n\r\n";
    let twice = port.send(None, &request.repeat(2)).await.unwrap();
    assert_eq!(twice.matches("HTTP/1.1 200").count(), 1, "{twice}");
    assert!(twice.contains("connection: close"), "{twice}");
    for (length, expected) in [(7_000, 200), (9_000, 431)] {
        let padding = "x".repeat(length);
        let long = format!("GET /healthz HTTP/1.1\r\nhost: localhost\r\nx: {padding}\r\n\r\n");
        assert_eq!(status(&port.send(None, &long).await.unwrap()), expected, "{length}");
    }
    let posted = "POST /healthz HTTP/1.1\r\nhost: localhost\r\ncontent-length: 0\r\n\r\n";
    assert_eq!(status(&port.send(None, posted).await.unwrap()), 405);
}

// behaviour: PGC-107
#[tokio::test]
async fn older_tls_can_be_refused() {
    let request = "GET /livez HTTP/1.1\r\nhost: localhost\r\n\r\n";
    let older = &[&rustls::version::TLS12];
    let any = Port::open(Options::default()).await;
    assert_eq!(status(&any.send_by(older, None, request).await.unwrap()), 200);
    let newest = Port::open(Options { newest_tls_only: true, ..Options::default() }).await;
    newest.send_by(older, None, request).await.unwrap_err();
    assert_eq!(status(&newest.send(None, request).await.unwrap()), 200);
}

// behaviour: PGC-141
#[tokio::test]
async fn unspecified_address_means_both_versions_of_ip() {
    let connects = async |host: &str, port: u16| TcpStream::connect((host, port)).await.is_ok();
    // Not every test machine has IPv6.
    let has_v6 = TcpListener::bind("[::1]:0").await.is_ok();
    for (address, v4, v6) in
        [("0.0.0.0", true, has_v6), ("::", true, has_v6), ("127.0.0.1", true, false)]
    {
        let listener = listen(address, 0).await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let seen = (connects("127.0.0.1", port).await, connects("::1", port).await);
        assert_eq!(seen, (v4, v6), "{address}");
        // The port is in use, for either version of IP.
        let error = listen(address, port).await.unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::AddrInUse, "{address}");
    }
}

/// Answers only about the token `good`; counts the other reviews, which never end.
#[derive(Debug, Default)]
struct Slow(tokio::sync::watch::Sender<usize>);

#[async_trait]
impl Reviews for Slow {
    async fn token_owner(&self, token: &str) -> Result<Option<User>, ApiError> {
        if token == "good" {
            return Reviewer.token_owner(token).await;
        }
        self.0.send_modify(|count| *count += 1);
        std::future::pending().await
    }

    async fn is_allowed(&self, user: &User, request: &AccessRequest) -> Result<bool, ApiError> {
        if user.name == "hung" {
            self.0.send_modify(|count| *count += 1);
            return std::future::pending().await;
        }
        Reviewer.is_allowed(user, request).await
    }
}

// behaviour: PGC-144
#[tokio::test]
async fn health_is_served_while_reviews_and_idle_connections_hold_slots() {
    let slow = Arc::new(Slow::default());
    let port = Arc::new(Port::reviewed_by(Arc::clone(&slow) as _, Options::default()).await);
    let mut requesting = JoinSet::new();
    for number in 0..MOST_REVIEWED {
        let port = Arc::clone(&port);
        let token = format!("token-{number}");
        requesting.spawn(async move { port.get(Credentials::Token(&token), "/metrics").await.0 });
    }
    let all = slow.0.subscribe().wait_for(|count| *count == MOST_REVIEWED).await.map(drop);
    all.unwrap();
    let (status, refusal) = port.get(Credentials::Token("one-more"), "/metrics").await;
    assert_eq!(status, 429, "{refusal}");
    assert!(refusal.contains("retry-after: 1"), "{refusal}");
    let mut idle = Vec::new();
    for _ in 0..2 * MOST_CONNECTIONS {
        idle.push(TcpStream::connect(port.address).await.unwrap());
    }
    assert_eq!(port.get(Credentials::Anonymous, "/healthz").await.0, 200);
    let good = port.authority.client("good");
    assert_eq!(
        port.get(Credentials::Certificate(&good), "/metrics").await.0,
        200,
        "it is not reviewed"
    );
}

// behaviour: PGC-144
#[tokio::test]
async fn authenticated_connections_do_not_count() {
    let slow = Arc::new(Slow::default());
    let port = Arc::new(Port::reviewed_by(Arc::clone(&slow) as _, Options::default()).await);
    let hung = Arc::new(port.authority.client("hung"));
    let mut requesting = JoinSet::new();
    // More connections than there are slots, one after the other: none is closed before it is
    // authenticated.
    for number in 0..=MOST_CONNECTIONS {
        let (port, hung) = (Arc::clone(&port), Arc::clone(&hung));
        requesting
            .spawn(async move { port.get(Credentials::Certificate(&hung), "/metrics").await.0 });
        slow.0.subscribe().wait_for(|count| *count > number).await.map(drop).unwrap();
    }
    assert_eq!(port.get(Credentials::Anonymous, "/healthz").await.0, 200);
    assert_eq!(port.get(Credentials::Token("good"), "/metrics").await.0, 200);
}
