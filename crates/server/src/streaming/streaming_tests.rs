//! Requests over real connections, with a small TCP server as the runtime's streaming server.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Mutex;
use std::time::Duration;

use http_body_util::BodyExt as _;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Container as ContainerSpec, PodSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use model::observed::{ContainerState, SandboxState};
use model::ports::clock::WallClock;
use model::ports::streaming::{CheckpointRequest, StdStreams};
use testkit::files::MemoryFiles;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::timeout;

use super::*;
use crate::parts::PodAndStatus;
use crate::respond::BrokenOff;
use crate::wire::RefusedManifest;

/// Longer than any step takes on a busy machine.
const LONG: Duration = Duration::from_secs(30);

const SWITCHING: &str = "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\n\
                         Upgrade: SPDY/3.1\r\nX-Stream-Protocol-Version: v4.channel.k8s.io\r\n\r\n";

/// A node with one pod, `shop/web`, and a record of calls.
#[derive(Debug)]
struct Node {
    url: Result<String, Code>,
    output: ExecOutput,
    changes: watch::Sender<u64>,
    sessions: Mutex<Vec<Session>>,
    execs: Mutex<Vec<ExecRequest>>,
    attached: Mutex<Vec<AttachRequest>>,
    forwarded: Mutex<Vec<PortForwardRequest>>,
}

fn pod() -> Pod {
    let metadata = ObjectMeta {
        namespace: Some("shop".to_owned()),
        name: Some("web".to_owned()),
        uid: Some("uid-1".to_owned()),
        ..ObjectMeta::default()
    };
    let container =
        ContainerSpec { name: "main".to_owned(), tty: Some(true), ..ContainerSpec::default() };
    let spec = PodSpec { containers: vec![container], ..PodSpec::default() };
    Pod { metadata, spec: Some(spec), ..Pod::default() }
}

impl PodView for Node {
    fn pods(&self) -> Vec<PodAndStatus> {
        vec![PodAndStatus { pod: Arc::new(pod()), status: None }]
    }

    fn refused(&self) -> Vec<RefusedManifest> {
        Vec::new()
    }

    fn changes(&self) -> watch::Receiver<u64> {
        self.changes.subscribe()
    }
}

#[async_trait]
impl StreamTargets for Node {
    async fn running_containers(&self, pod: &PodUid) -> Result<Vec<Container>, RuntimeError> {
        Ok(vec![Container {
            id: "c1".into(),
            sandbox_id: "s1".into(),
            pod_uid: pod.clone(),
            pod: PodName::new("shop", "web"),
            name: "main".into(),
            attempt: 0,
            state: ContainerState::Running,
            created_at: Timestamp::UNIX_EPOCH,
            image_ref: "image".into(),
        }])
    }

    async fn ready_sandboxes(&self, pod: &PodUid) -> Result<Vec<Sandbox>, RuntimeError> {
        Ok(vec![Sandbox {
            id: "s1".into(),
            pod_uid: pod.clone(),
            pod: PodName::new("shop", "web"),
            attempt: 0,
            state: SandboxState::Ready,
            created_at: Timestamp::UNIX_EPOCH,
        }])
    }

    async fn exec_sync(
        &self,
        _container: &ContainerId,
        _command: &[String],
    ) -> Result<ExecOutput, RuntimeError> {
        self.url().map(|_| self.output.clone())
    }

    fn mirrored(&self, mirror: &PodUid) -> Option<PodUid> {
        (mirror.as_str() == "mirror-1").then(|| "uid-1".into())
    }
}

impl Node {
    fn url(&self) -> Result<String, RuntimeError> {
        self.url.clone().map_err(|code| RuntimeError {
            method: "Exec",
            object: "c1".to_owned(),
            code,
            message: "no".to_owned(),
        })
    }
}

#[async_trait]
impl Streaming for Node {
    async fn exec(&self, request: &ExecRequest) -> Result<String, RuntimeError> {
        self.execs.lock().unwrap().push(request.clone());
        self.url()
    }

    async fn attach(&self, request: &AttachRequest) -> Result<String, RuntimeError> {
        self.attached.lock().unwrap().push(request.clone());
        self.url()
    }

    async fn port_forward(&self, request: &PortForwardRequest) -> Result<String, RuntimeError> {
        self.forwarded.lock().unwrap().push(request.clone());
        self.url()
    }

    async fn checkpoint_container(&self, _: &CheckpointRequest) -> Result<(), RuntimeError> {
        self.url().map(drop)
    }
}

impl WallClock for Node {
    fn now(&self) -> Timestamp {
        Timestamp::UNIX_EPOCH
    }
}

impl SessionRecord for Node {
    fn record_session(&self, session: &Session) {
        self.sessions.lock().unwrap().push(session.clone());
    }
}

#[async_trait]
impl StreamTls for Node {
    async fn client_config(&self) -> Result<Arc<ClientConfig>, BrokenOff> {
        Err("no TLS here".into())
    }
}

/// The agent's server, and the listener of the runtime's streaming server.
struct Harness {
    node: Arc<Node>,
    streams: Arc<Streams>,
    address: SocketAddr,
    runtime: TcpListener,
    _serving: JoinSet<()>,
}

impl Harness {
    async fn new() -> Self {
        Self::with(|url| Ok(format!("http://{url}/exec/token"))).await
    }

    async fn with(url: impl FnOnce(SocketAddr) -> Result<String, Code>) -> Self {
        let runtime = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let output = ExecOutput { stdout: b"out".to_vec(), stderr: b"err".to_vec(), exit_code: 0 };
        let node = Arc::new(Node {
            url: url(runtime.local_addr().unwrap()),
            output,
            changes: watch::Sender::new(0),
            sessions: Mutex::default(),
            execs: Mutex::default(),
            attached: Mutex::default(),
            forwarded: Mutex::default(),
        });
        let streams = Arc::new(Streams {
            pods: Arc::clone(&node) as _,
            targets: Arc::clone(&node) as _,
            runtime: Arc::clone(&node) as _,
            sessions: Arc::clone(&node) as _,
            tls: Arc::clone(&node) as _,
            proxy: StreamProxy::default(),
        });
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let served = Arc::clone(&streams);
        let mut serving = JoinSet::new();
        serving.spawn(async move {
            let mut connections = JoinSet::new();
            while let Ok((stream, _)) = listener.accept().await {
                connections.spawn(connection(stream, Arc::clone(&served)));
            }
        });
        Self { node, streams, address, runtime, _serving: serving }
    }

    /// Sends a request and returns the connection.
    async fn send(&self, request: &str) -> TcpStream {
        let mut client = TcpStream::connect(self.address).await.unwrap();
        client.write_all(request.as_bytes()).await.unwrap();
        client
    }

    /// Sends an upgrade request, and accepts it at the streaming server with this answer.
    async fn upgrade(&self, answer: &str) -> (TcpStream, TcpStream, String) {
        let client = self.send(&upgrade("/exec/shop/web/main?command=sh&output=1&input=1")).await;
        let (mut runtime, _) = timeout(LONG, self.runtime.accept()).await.unwrap().unwrap();
        let head = read_head(&mut runtime).await;
        runtime.write_all(answer.as_bytes()).await.unwrap();
        (client, runtime, head)
    }

    /// The whole answer to a request; the connection must be closed after it if the request says so.
    async fn answer(&self, request: &str) -> String {
        rest_of(self.send(request).await).await
    }
}

/// Serves a connection: paths as in the node API.
async fn connection(stream: TcpStream, streams: Arc<Streams>) {
    let service = service_fn(|request: Request<Incoming>| {
        let streams = Arc::clone(&streams);
        async move { Ok::<_, Infallible>(route(&streams, request).await) }
    });
    let served = http1::Builder::new().serve_connection(TokioIo::new(stream), service);
    drop(served.with_upgrades().await);
}

async fn route(streams: &Streams, request: Request<Incoming>) -> Answer {
    let caller = StreamCaller { user: "alice".to_owned(), address: Some([10, 0, 0, 9].into()) };
    let path = request.uri().path().to_owned();
    let words: Vec<&str> = path.split('/').skip(1).collect();
    let of = |uid: Option<&str>, container: &str| StreamPath {
        pod: PodName::new(words[1], words[2]),
        uid: uid.map(Into::into),
        container: container.to_owned(),
    };
    match words[..] {
        ["exec", _, _, container] => streams.exec(&of(None, container), request, &caller).await,
        ["exec", _, _, uid, container] => {
            streams.exec(&of(Some(uid), container), request, &caller).await
        }
        ["attach", _, _, container] => streams.attach(&of(None, container), request, &caller).await,
        ["portForward", _, _] => streams.port_forward(&of(None, ""), request, &caller).await,
        ["run", _, _, container] => {
            let query = request.uri().query().map(str::to_owned);
            streams.run(&of(None, container), query.as_deref(), &caller).await
        }
        _ => error_text(StatusCode::NOT_FOUND, "no such path"),
    }
}

fn upgrade(target: &str) -> String {
    format!(
        "POST {target} HTTP/1.1\r\nHost: node:10250\r\nAuthorization: Bearer secret\r\n\
         Content-Length: 0\r\nConnection: Upgrade\r\nUpgrade: SPDY/3.1\r\n\
         X-Stream-Protocol-Version: v4.channel.k8s.io\r\n\r\n"
    )
}

fn plain(method: &str, target: &str) -> String {
    format!("{method} {target} HTTP/1.1\r\nHost: node:10250\r\nConnection: close\r\n\r\n")
}

async fn read_head(stream: &mut TcpStream) -> String {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.push(timeout(LONG, stream.read_u8()).await.unwrap().unwrap());
    }
    String::from_utf8(head).unwrap().to_lowercase()
}

async fn rest_of(mut stream: TcpStream) -> String {
    let mut all = Vec::new();
    timeout(LONG, stream.read_to_end(&mut all)).await.unwrap().unwrap();
    String::from_utf8(all).unwrap()
}

fn status(answer: &str) -> &str {
    answer.split(' ').nth(1).unwrap_or_default()
}

// behaviour: STR-8
#[tokio::test]
async fn upgrade_is_forwarded_with_its_headers_and_bytes_pass_both_ways() {
    let harness = Harness::new().await;
    let (mut client, mut runtime, request) = harness.upgrade(SWITCHING).await;
    let host = format!("host: {}\r\n", harness.runtime.local_addr().unwrap());
    assert!(request.starts_with("post /exec/token http/1.1\r\n"), "{request}");
    for line in [
        &*host,
        "upgrade: spdy/3.1\r\n",
        "connection: upgrade\r\n",
        "x-forwarded-for: 10.0.0.9\r\n",
    ] {
        assert!(request.contains(line), "{line} is not in {request}");
    }
    assert!(!request.contains("secret"), "{request}");
    let head = read_head(&mut client).await;
    for line in [
        "http/1.1 101",
        "upgrade: spdy/3.1\r\n",
        "x-stream-protocol-version: v4.channel.k8s.io\r\n",
    ] {
        assert!(head.contains(line), "{line} is not in {head}");
    }
    let bytes: Vec<u8> = (0..=255).cycle().take(200_000).collect();
    let mut received = vec![0; bytes.len()];
    let (sent, read) = tokio::join!(client.write_all(&bytes), runtime.read_exact(&mut received));
    sent.unwrap();
    read.unwrap();
    assert!(received == bytes);
    let (sent, read) = tokio::join!(runtime.write_all(&bytes), client.read_exact(&mut received));
    sent.unwrap();
    read.unwrap();
    assert!(received == bytes);
}

#[tokio::test]
async fn bytes_sent_right_behind_the_101_arrive() {
    let harness = Harness::new().await;
    let (mut client, runtime, _) = harness.upgrade(&format!("{SWITCHING}first")).await;
    read_head(&mut client).await;
    drop(runtime);
    assert_eq!(rest_of(client).await, "first");
}

// behaviour: STR-9
#[tokio::test]
async fn half_closed_client_receives_remaining_output() {
    let harness = Harness::new().await;
    let (mut client, mut runtime, _) = harness.upgrade(SWITCHING).await;
    read_head(&mut client).await;
    client.write_all(b"question").await.unwrap();
    client.shutdown().await.unwrap();
    let mut question = String::new();
    timeout(LONG, runtime.read_to_string(&mut question)).await.unwrap().unwrap();
    assert_eq!(question, "question");
    runtime.write_all(b"answer").await.unwrap();
    drop(runtime);
    assert_eq!(rest_of(client).await, "answer");
}

#[tokio::test]
async fn runtime_side_ends_with_the_client() {
    let harness = Harness::new().await;
    let (mut client, runtime, _) = harness.upgrade(SWITCHING).await;
    read_head(&mut client).await;
    drop(client);
    assert_eq!(rest_of(runtime).await, "");
}

#[tokio::test]
async fn client_side_ends_with_the_runtime() {
    let harness = Harness::new().await;
    let (mut client, runtime, _) = harness.upgrade(SWITCHING).await;
    read_head(&mut client).await;
    drop(runtime);
    assert_eq!(rest_of(client).await, "");
}

// behaviour: STR-10
#[tokio::test]
async fn refused_upgrade_is_forwarded_and_the_connection_closed() {
    let harness = Harness::new().await;
    let refusal = "HTTP/1.1 403 Forbidden\r\nContent-Length: 4\r\nX-Reason: token\r\n\r\nused";
    let (mut client, _runtime, _) = harness.upgrade(refusal).await;
    // A second request on the same connection must not be answered.
    client.write_all(upgrade("/exec/shop/web/main?output=1").as_bytes()).await.ok();
    let mut answer = Vec::new();
    // The connection may be reset, as the second request is not read.
    drop(timeout(LONG, client.read_to_end(&mut answer)).await.unwrap());
    let answer = String::from_utf8(answer).unwrap().to_lowercase();
    assert_eq!(status(&answer), "403", "{answer}");
    assert!(
        answer.contains("connection: close\r\n") && answer.contains("x-reason: token\r\n"),
        "{answer}"
    );
    assert!(answer.ends_with("\r\n\r\nused"), "{answer}");
    assert_eq!(harness.node.execs.lock().unwrap().len(), 1);
}

// behaviour: STR-11
#[tokio::test]
async fn response_without_upgrade_is_an_error_and_redirects_are_not_followed() {
    let elsewhere = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let location = format!("http://{}/stolen", elsewhere.local_addr().unwrap());
    let rows = [
        ("200", "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n".to_owned()),
        ("302", format!("HTTP/1.1 302 Found\r\nLocation: {location}\r\nContent-Length: 0\r\n\r\n")),
    ];
    for (code, runtime_answer) in rows {
        let harness = Harness::new().await;
        let (client, _runtime, _) = harness.upgrade(&runtime_answer).await;
        let answer = rest_of(client).await.to_lowercase();
        assert_eq!(status(&answer), "500", "{answer}");
        assert!(answer.contains("connection: close\r\n"), "{answer}");
        assert!(
            answer.ends_with(&format!("invalid upgrade response: status code {code}\n")),
            "{answer}"
        );
        assert!(!answer.contains("stolen"), "{answer}");
    }
    let accepted = timeout(Duration::from_millis(100), elsewhere.accept()).await;
    assert!(accepted.is_err(), "the redirect was followed");
}

// behaviour: STR-12
#[tokio::test]
async fn unreachable_streaming_server_is_an_error() {
    let closed = TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap();
    let harness = Harness::with(|_| Ok(format!("http://{closed}/exec/token"))).await;
    let answer = harness.answer(&upgrade("/exec/shop/web/main?output=1")).await;
    assert_eq!(status(&answer), "500", "{answer}");
    assert!(answer.contains("connect to the streaming server"), "{answer}");
    let harness = Harness::new().await;
    let client = harness.send(&upgrade("/exec/shop/web/main?output=1")).await;
    drop(timeout(LONG, harness.runtime.accept()).await.unwrap());
    let answer = rest_of(client).await;
    assert_eq!(status(&answer), "500", "{answer}");
}

// behaviour: STR-4, STR-6
#[tokio::test]
async fn bad_requests_are_refused_before_the_runtime_is_called() {
    let harness = Harness::new().await;
    let body = "POST /exec/shop/web/main?output=1 HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\n\
                Upgrade: SPDY/3.1\r\nContent-Length: 4\r\n\r\nbody";
    let websocket = "GET /portForward/shop/web HTTP/1.1\r\nHost: x\r\nConnection: close, upgrade\r\n\
                     Upgrade: websocket\r\n\r\n";
    let rows = [
        (upgrade("/exec/shop/other/main?output=1"), "404", "pod does not exist"),
        (upgrade("/exec/shop/web/uid-2/main?output=1"), "404", "pod not found"),
        (upgrade("/exec/shop/web/other?output=1"), "500", "container not found (\"other\")"),
        (
            upgrade("/attach/shop/web/other?output=1"),
            "500",
            "container other not found in pod web_shop",
        ),
        (
            upgrade("/exec/shop/web/main"),
            "400",
            "you must specify at least 1 of stdin, stdout, stderr",
        ),
        (plain("POST", "/exec/shop/web/main?output=1"), "500", "Upgrade request required\n"),
        (plain("GET", "/portForward/shop/web"), "500", "Upgrade request required\n"),
        (body.to_owned(), "400", "an upgrade request has no body\n"),
        (websocket.to_owned(), "400", "query parameter \"port\" is required"),
    ];
    for (request, code, text) in rows {
        let closing = request.replacen("Connection: Upgrade", "Connection: close, Upgrade", 1);
        let answer = harness.answer(&closing).await;
        assert_eq!(status(&answer), code, "{request}{answer}");
        assert!(answer.ends_with(text), "{request}{answer}");
    }
    assert!(harness.node.execs.lock().unwrap().is_empty());
    assert!(harness.node.forwarded.lock().unwrap().is_empty());
    assert!(harness.node.sessions.lock().unwrap().is_empty());
}

// behaviour: STR-5
#[tokio::test]
async fn runtime_errors_are_mapped_by_their_code() {
    let rows = [
        (Code::NotFound, "404", "rpc error: code = NotFound desc = no"),
        (Code::ResourceExhausted, "429", "rpc error: code = ResourceExhausted desc = no"),
        (Code::Unknown, "500", "rpc error: code = Unknown desc = no"),
    ];
    for (code, expected, text) in rows {
        let harness = Harness::with(|_| Err(code)).await;
        let request = upgrade("/exec/shop/web/main?output=1");
        let answer = harness.answer(&request.replacen("Upgrade", "close, Upgrade", 1)).await;
        assert_eq!(status(&answer), expected, "{answer}");
        assert!(answer.ends_with(text), "{answer}");
        assert_eq!(
            answer.contains("retry-after: 60\r\n"),
            code == Code::ResourceExhausted,
            "{answer}"
        );
        let sessions = harness.node.sessions.lock().unwrap();
        assert_eq!(sessions[0].refusal, Some(format!("Exec c1: {code}: no")));
    }
}

// behaviour: STR-14
#[tokio::test]
async fn sessions_are_recorded_without_the_arguments_of_their_command() {
    let harness = Harness::new().await;
    let (_client, _runtime, _) = harness.upgrade(SWITCHING).await;
    let session = Session {
        kind: SessionKind::Exec,
        pod: PodName::new("shop", "web"),
        uid: "uid-1".into(),
        container: "main".to_owned(),
        object: ObjectId::Container("c1".into()),
        user: "alice".to_owned(),
        address: Some([10, 0, 0, 9].into()),
        program: Some("sh".to_owned()),
        ports: Vec::new(),
        refusal: None,
    };
    assert_eq!(*harness.node.sessions.lock().unwrap(), [session]);
    let streams = StdStreams { stdin: true, stdout: true, stderr: false, tty: false };
    let exec = ExecRequest { container: "c1".into(), command: vec!["sh".to_owned()], streams };
    assert_eq!(*harness.node.execs.lock().unwrap(), [exec]);
}

// behaviour: STR-7
#[tokio::test]
async fn attach_takes_the_terminal_from_the_specification() {
    let harness = Harness::new().await;
    let _client = harness.send(&upgrade("/attach/shop/web/main?output=1&input=1")).await;
    let (mut runtime, _) = timeout(LONG, harness.runtime.accept()).await.unwrap().unwrap();
    read_head(&mut runtime).await;
    let attached = harness.node.attached.lock().unwrap();
    let streams = StdStreams { stdin: true, stdout: true, stderr: false, tty: true };
    assert_eq!(*attached, [AttachRequest { container: "c1".into(), streams }]);
}

#[tokio::test]
async fn ports_of_a_websocket_are_passed_to_the_runtime() {
    let harness = Harness::new().await;
    let request = "GET /portForward/shop/web?port=80,81 HTTP/1.1\r\nHost: x\r\n\
                   Connection: Upgrade\r\nUpgrade: websocket\r\n\r\n";
    let _client = harness.send(request).await;
    let (mut runtime, _) = timeout(LONG, harness.runtime.accept()).await.unwrap().unwrap();
    read_head(&mut runtime).await;
    let forwarded = harness.node.forwarded.lock().unwrap();
    assert_eq!(*forwarded, [PortForwardRequest { sandbox: "s1".into(), ports: vec![80, 81] }]);
    assert_eq!(harness.node.sessions.lock().unwrap()[0].ports, [80, 81]);
}

#[tokio::test]
async fn mirror_uid_names_the_static_pod() {
    let harness = Harness::new().await;
    let _client = harness.send(&upgrade("/exec/shop/web/mirror-1/main?output=1")).await;
    timeout(LONG, harness.runtime.accept()).await.unwrap().unwrap();
}

// behaviour: STR-13
#[tokio::test]
async fn run_returns_both_outputs_as_json() {
    let harness = Harness::new().await;
    let answer = harness.answer(&plain("POST", "/run/shop/web/main?cmd=ls")).await;
    assert_eq!(status(&answer), "200", "{answer}");
    assert!(answer.contains("content-type: application/json\r\n"), "{answer}");
    assert!(answer.ends_with("\r\n\r\nouterr"), "{answer}");
    assert_eq!(harness.node.sessions.lock().unwrap()[0].kind, SessionKind::Run);
}

#[path = "checkpoint_tests.rs"]
mod checkpoint;
