//! gRPC probes.

use std::convert::Infallible;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use fetch::ProbeDialer;
use http_body_util::{BodyExt as _, Full};
use hyper::body::{Body, Bytes, Incoming};
use hyper::service::service_fn;
use hyper::{HeaderMap, Request, Response};
use hyper_util::rt::{TokioExecutor, TokioIo};
use model::ports::probes::{GrpcProbe, NetworkProbe, ProbeClient as _};
use model::probe::{ProbeOutput, ProbeVerdict};
use tokio::io::AsyncWriteExt as _;
use tokio::net::TcpListener;
use tokio::task::JoinSet;

const LONG: Duration = Duration::from_secs(20);
const SHORT: Duration = Duration::from_millis(200);

/// The reaction of a health server to a call.
#[derive(Debug, Clone, Copy)]
enum Reaction {
    Status(u8),
    Error(u8, &'static str),
    Hang,
}

/// What a health server received.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Call {
    path: String,
    agent: String,
    body: Vec<u8>,
}

#[derive(Debug)]
struct HealthServer {
    port: u16,
    calls: Arc<Mutex<Vec<Call>>>,
    _tasks: JoinSet<()>,
}

impl HealthServer {
    async fn start(reaction: Reaction) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let calls = Arc::new(Mutex::new(Vec::new()));
        let mut tasks = JoinSet::new();
        tasks.spawn(serve(listener, reaction, Arc::clone(&calls)));
        Self { port, calls, _tasks: tasks }
    }
}

async fn serve(listener: TcpListener, reaction: Reaction, calls: Arc<Mutex<Vec<Call>>>) {
    let (stream, _) = listener.accept().await.unwrap();
    let service = service_fn(move |request| respond(request, reaction, Arc::clone(&calls)));
    let builder = hyper::server::conn::http2::Builder::new(TokioExecutor::new());
    builder.serve_connection(TokioIo::new(stream), service).await.ok();
}

async fn respond(
    request: Request<Incoming>,
    reaction: Reaction,
    calls: Arc<Mutex<Vec<Call>>>,
) -> Result<Response<impl Body<Data = Bytes, Error = Infallible>>, Infallible> {
    let path = request.uri().path().to_owned();
    let agent = request.headers()["user-agent"].to_str().unwrap().to_owned();
    let body = request.into_body().collect().await.unwrap().to_bytes().to_vec();
    calls.lock().unwrap().push(Call { path, agent, body });
    let (status, message, data) = match reaction {
        Reaction::Hang => std::future::pending().await,
        Reaction::Status(status) => (0, "", vec![0, 0, 0, 0, 2, 8, status]),
        Reaction::Error(code, message) => (code, message, Vec::new()),
    };
    let mut trailers = HeaderMap::new();
    trailers.insert("grpc-status", u16::from(status).into());
    trailers.insert("grpc-message", message.parse().unwrap());
    let body = Full::new(Bytes::from(data)).with_trailers(async { Some(Ok(trailers)) });
    let response = Response::builder().header("content-type", "application/grpc").body(body);
    Ok(response.unwrap())
}

async fn probe(port: u16, service: &str, timeout: Duration) -> ProbeOutput {
    let (host, service) = ("127.0.0.1".to_owned(), service.to_owned());
    let probe = NetworkProbe::Grpc(GrpcProbe { host, port, service });
    ProbeDialer::default().probe(&probe, timeout).await.unwrap()
}

#[tokio::test]
async fn health_check_names_the_service_and_passes_when_it_serves() {
    let server = HealthServer::start(Reaction::Status(1)).await;
    let output = probe(server.port, "db", LONG).await;
    let passed =
        ProbeOutput { verdict: ProbeVerdict::Success, output: "service healthy".to_owned() };
    assert_eq!(output, passed);
    let calls = server.calls.lock().unwrap().clone();
    let body = [&[0, 0, 0, 0, 4, 10, 2][..], b"db"].concat();
    let path = "/grpc.health.v1.Health/Check".to_owned();
    assert_eq!(calls, [Call { path, agent: "kube-probe/1.36".to_owned(), body }]);
}

#[tokio::test]
async fn failed_health_check_has_the_text_of_upstream() {
    let rows = [
        (Reaction::Status(2), LONG, "service unhealthy (responded with \"NOT_SERVING\")"),
        (
            Reaction::Error(12, "unknown method Check"),
            LONG,
            "error: this server does not implement the grpc health protocol \
             (grpc.health.v1.Health): unknown method Check",
        ),
        (
            Reaction::Error(5, "unknown service"),
            LONG,
            "error: health rpc probe failed: rpc error: code = NotFound desc = unknown service",
        ),
        (Reaction::Hang, SHORT, "timeout: health rpc did not complete within 200ms"),
    ];
    for (reaction, timeout, expected) in rows {
        let server = HealthServer::start(reaction).await;
        let output = probe(server.port, "", timeout).await;
        let expected = ProbeOutput { verdict: ProbeVerdict::Failure, output: expected.to_owned() };
        assert_eq!(output, expected, "{reaction:?}");
    }
}

#[tokio::test]
async fn server_without_http2_counts_as_not_connected() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let text = |port| {
        format!(
            "timeout: failed to connect service \"127.0.0.1:{port}\" within 200ms: context deadline exceeded"
        )
    };
    // The server accepts and does not answer.
    assert_eq!(probe(port, "", SHORT).await.output, text(port));
    let mut tasks = JoinSet::new();
    tasks.spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            stream.write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n").await.ok();
        }
    });
    assert_eq!(probe(port, "", SHORT).await.output, text(port));
    assert_eq!(probe(1, "", SHORT).await.output, text(1));
}

#[tokio::test]
async fn refused_connection_is_tried_again_until_the_deadline() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    drop(listener);
    let output = probe(address.port(), "", LONG);
    let start = async {
        // The first attempt is refused before the server starts.
        tokio::task::yield_now().await;
        let socket = tokio::net::TcpSocket::new_v4().unwrap();
        socket.set_reuseaddr(true).unwrap();
        socket.bind(address).unwrap();
        let calls = Arc::new(Mutex::new(Vec::new()));
        serve(socket.listen(1).unwrap(), Reaction::Status(1), calls).await;
    };
    let (output, ()) = tokio::join!(output, start);
    assert_eq!(output.output, "service healthy");
}
