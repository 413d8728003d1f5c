//! HTTP and TCP probes.

use std::time::Duration;

use fetch::ProbeDialer;
use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::{TokioExecutor, TokioIo};
use model::ports::probes::{HttpProbe, NetworkProbe, ProbeClient as _, TcpProbe};
use model::probe::{ProbeOutput, ProbeVerdict};
use testkit::http::Page;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::task::JoinSet;
use tokio::time::timeout;
use tokio_rustls::TlsAcceptor;

use super::server::{Identity, Server, response};

const LONG: Duration = Duration::from_secs(20);
const SHORT: Duration = Duration::from_millis(150);

pub(crate) fn http(url: impl Into<String>) -> NetworkProbe {
    NetworkProbe::Http(HttpProbe { url: url.into(), headers: Vec::new() })
}

async fn probe(url: &str, timeout: Duration) -> Result<ProbeOutput, String> {
    ProbeDialer::default().probe(&http(url), timeout).await
}

/// The output of a probe that fails.
async fn failure(url: &str, timeout: Duration) -> String {
    let output = probe(url, timeout).await.unwrap();
    assert_eq!(output.verdict, ProbeVerdict::Failure, "{output:?}");
    output.output
}

const PASSED: Result<ProbeOutput, String> =
    Ok(ProbeOutput { verdict: ProbeVerdict::Success, output: String::new() });

/// A server that sends these bytes after it has read something, and then closes or keeps the connection.
async fn raw_server(bytes: &'static [u8], keeps: bool) -> (u16, JoinSet<()>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let mut tasks = JoinSet::new();
    tasks.spawn(async move {
        let mut kept = Vec::new();
        loop {
            let (mut stream, _) = listener.accept().await.unwrap();
            stream.read_u8().await.unwrap();
            stream.try_read(&mut [0; 4096]).ok();
            stream.write_all(bytes).await.unwrap();
            if keeps {
                kept.push(stream);
            }
        }
    });
    (port, tasks)
}

#[tokio::test]
async fn http_verdict_follows_the_final_response() {
    let server = Server::start(None).await;
    let failed = |status: u16| {
        let output = format!("HTTP probe failed with statuscode: {status}");
        Ok(ProbeOutput { verdict: ProbeVerdict::Failure, output })
    };
    let warned = |body: &str| {
        let output = format!("Probe terminated redirects, Response body: {body}");
        Ok(ProbeOutput { verdict: ProbeVerdict::Warning, output })
    };
    let answer = |status, body: &str| response(Page::Answer(status, body.into()));
    let to = |place: &str| response(Page::Redirect(place.to_owned()));
    let raw = |bytes: Vec<u8>| Some(bytes);
    let truncated =
        [b"HTTP/1.1 200 x\r\ncontent-length: 99999\r\n\r\n".to_vec(), vec![b'x'; 12_000]];
    let elsewhere = format!("http://localhost:{}/ok", server.port());
    let rows = [
        ("ok", answer(200, "secret"), PASSED),
        ("empty", answer(204, ""), PASSED),
        ("large", response(Page::ok("x".repeat(100_000))), PASSED),
        ("truncated", raw(truncated.concat()), PASSED),
        ("cut", response(Page::CutOff), Err("unexpected EOF".to_owned())),
        (
            "chunked",
            raw(b"HTTP/1.1 200 x\r\ntransfer-encoding: chunked\r\n\r\n5\r\nab".to_vec()),
            Err("unexpected EOF".to_owned()),
        ),
        ("early", raw(b"HTTP/1.1 103 x\r\n\r\nHTTP/1.1 200 x\r\n\r\nrest".to_vec()), PASSED),
        ("missing", answer(404, "secret"), failed(404)),
        ("broken", answer(500, "secret"), failed(500)),
        ("same", to("ok?x=1"), failed(404)),
        ("same-host", to(&server.url("ok")), PASSED),
        ("other-host", to(&elsewhere), warned("")),
        ("no-location", answer(302, "body"), warned("body")),
        ("not-modified", answer(304, ""), warned("")),
    ];
    for (page, response, _) in &rows {
        server.put(page, response.clone());
    }
    for (page, _, expected) in rows {
        assert_eq!(probe(&server.url(page), LONG).await, expected, "{page}");
    }
    assert_eq!(server.requested("ok?x=1", "referer"), [[server.url("same")]]);
}

#[tokio::test]
async fn eleventh_request_of_a_redirect_chain_is_not_sent() {
    let server = Server::start(None).await;
    server.put("loop", response(Page::Redirect("/loop".to_owned())));
    let output = failure(&server.url("loop"), LONG).await;
    assert_eq!(output, "Get \"/loop\": stopped after 10 redirects");
    assert_eq!(server.requested("loop", "host").len(), 10);
}

#[tokio::test]
async fn request_has_the_headers_of_the_probe() {
    let server = Server::start(None).await;
    server.put("page?a=b", response(Page::ok("text")));
    let headers =
        [("Host", "name.example"), ("User-Agent", "mine"), ("X-Key", "1"), ("X-Key", "2")];
    let headers = headers.map(|(name, value)| (name.to_owned(), value.to_owned())).to_vec();
    let request = NetworkProbe::Http(HttpProbe { url: server.url("page?a=b"), headers });
    assert_eq!(ProbeDialer::default().probe(&request, LONG).await, PASSED);
    let rows: [(&str, &[&str]); 4] = [
        ("host", &["name.example"]),
        ("user-agent", &["mine"]),
        ("x-key", &["1", "2"]),
        ("connection", &["close"]),
    ];
    for (name, expected) in rows {
        assert_eq!(server.requested("page?a=b", name), [expected], "{name}");
    }
}

#[tokio::test]
async fn https_probe_accepts_a_self_signed_certificate() {
    let server = Server::start(Some(Identity::new("name.example"))).await;
    server.put("ok", response(Page::ok("text")));
    assert_eq!(probe(&server.url("ok"), LONG).await, PASSED);
    let output = failure(&server.url("missing"), LONG).await;
    assert_eq!(output, "HTTP probe failed with statuscode: 404");
}

#[tokio::test]
async fn https_probe_speaks_http2_when_the_server_chooses_it() {
    let mut config = (*Identity::new("name.example").config).clone();
    config.alpn_protocols = vec![b"h2".to_vec()];
    let acceptor = TlsAcceptor::from(std::sync::Arc::new(config));
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("https://{}/page", listener.local_addr().unwrap());
    let mut tasks = JoinSet::new();
    tasks.spawn(async move {
        let stream = acceptor.accept(listener.accept().await.unwrap().0).await.unwrap();
        let service = service_fn(async |request: Request<Incoming>| {
            let is_right = request.headers()["x-key"] == "1" && request.uri().path() == "/page";
            let status = if is_right { 200 } else { 500 };
            let response = Response::builder().status(status).body(Full::<Bytes>::default());
            Ok::<_, hyper::Error>(response.unwrap())
        });
        let builder = hyper::server::conn::http2::Builder::new(TokioExecutor::new());
        builder.serve_connection(TokioIo::new(stream), service).await.ok();
    });
    let headers = vec![("X-Key".to_owned(), "1".to_owned())];
    let request = NetworkProbe::Http(HttpProbe { url, headers });
    assert_eq!(ProbeDialer::default().probe(&request, LONG).await, PASSED);
}

#[tokio::test]
async fn broken_servers_fail_with_the_text_of_go() {
    const BROKEN: &str = "net/http: HTTP/1.x transport connection broken";
    let rows: [(&str, &'static [u8], String); 6] = [
        ("http", b"", "EOF".to_owned()),
        ("http", b"garbage\r\n\r\n", format!("{BROKEN}: malformed HTTP response \"garbage\"")),
        ("http", b"HTTP/1.1 200 OK\r\nserver: x", format!("{BROKEN}: unexpected EOF")),
        ("https", b"", "EOF".to_owned()),
        (
            "https",
            b"HTTP/1.1 400 Bad Request\r\n\r\n",
            "http: server gave HTTP response to HTTPS client".to_owned(),
        ),
        (
            "https",
            b"SSH-2.0-OpenSSH\r\n",
            "tls: first record does not look like a TLS handshake".to_owned(),
        ),
    ];
    for (scheme, bytes, cause) in rows {
        let (port, _server) = raw_server(bytes, false).await;
        let url = format!("{scheme}://127.0.0.1:{port}/");
        assert_eq!(failure(&url, LONG).await, format!("Get \"{url}\": {cause}"));
    }
}

#[tokio::test]
async fn refused_connection_and_timeouts_fail_with_the_text_of_go() {
    let url = "http://127.0.0.1:1/";
    let refused = "dial tcp 127.0.0.1:1: connect: connection refused";
    assert_eq!(failure(url, LONG).await, format!("Get \"{url}\": {refused}"));
    let cause = "context deadline exceeded (Client.Timeout exceeded while awaiting headers)";
    for scheme in ["http", "https"] {
        let (port, _server) = raw_server(b"", true).await;
        let url = format!("{scheme}://127.0.0.1:{port}/");
        assert_eq!(failure(&url, SHORT).await, format!("Get \"{url}\": {cause}"));
    }
}

#[tokio::test]
async fn body_that_does_not_end_in_time_is_an_error_without_verdict() {
    let (port, _server) = raw_server(b"HTTP/1.1 200 x\r\ncontent-length: 9\r\n\r\nbye", true).await;
    let cause = probe(&format!("http://127.0.0.1:{port}/"), SHORT).await.unwrap_err();
    let text =
        "context deadline exceeded (Client.Timeout or context cancellation while reading body)";
    assert_eq!(cause, text);
}

#[tokio::test]
async fn tcp_probe_passes_when_a_connection_is_established() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let tcp = |port| NetworkProbe::Tcp(TcpProbe { host: "127.0.0.1".to_owned(), port });
    let dialer = ProbeDialer::default();
    assert_eq!(dialer.probe(&tcp(port), LONG).await, PASSED);
    let refused = "dial tcp 127.0.0.1:1: connect: connection refused".to_owned();
    let expected = ProbeOutput { verdict: ProbeVerdict::Failure, output: refused };
    assert_eq!(dialer.probe(&tcp(1), LONG).await, Ok(expected));
}

#[tokio::test]
async fn dial_to_a_full_backlog_times_out() {
    let socket = TcpSocket::new_v4().unwrap();
    socket.bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let address = socket.local_addr().unwrap();
    let _listener = socket.listen(1).unwrap();
    let mut waiting = Vec::new();
    while let Ok(stream) = timeout(SHORT, TcpStream::connect(address)).await {
        waiting.push(stream.unwrap());
    }
    let tcp = TcpProbe { host: "127.0.0.1".to_owned(), port: address.port() };
    let dialer = ProbeDialer::default();
    let output = dialer.probe(&NetworkProbe::Tcp(tcp), SHORT).await.unwrap();
    assert_eq!(output.output, format!("dial tcp {address}: i/o timeout"));
    let cause = "context deadline exceeded (Client.Timeout exceeded while awaiting headers)";
    let url = format!("http://{address}/");
    assert_eq!(failure(&url, SHORT).await, format!("Get \"{url}\": {cause}"));
}
