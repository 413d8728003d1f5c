//! A server with a hundred streams per connection, as API servers have.

use std::convert::Infallible;
use std::io::Write as _;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use cluster::{Cluster, Connection, Exclusion, Rate, Source};
use http_body_util::{Either, Full};
use hyper::body::{Body, Bytes, Frame, Incoming};
use hyper::server::conn::http2;
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::{TokioExecutor, TokioIo};
use model::ids::PodName;
use model::objects::{DataObject, ObjectKey};
use model::ports::cluster::{Change, Sink};
use model::ports::node_api::{NodeApi as _, NodeLeases as _};
use model::ports::objects::ObjectReads as _;
use model::ports::pod_api::PodApi as _;
use rcgen::{CertificateParams, KeyPair};
use rustls::ServerConfig;
use rustls::pki_types::PrivateKeyDer;
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::timeout;
use tokio_rustls::TlsAcceptor;

/// The default of API servers.
const STREAMS: u32 = 100;
/// Longer than any step takes.
const PATIENCE: Duration = Duration::from_secs(30);
const POD: &str = r#"{"kind":"Pod","apiVersion":"v1","metadata":{"name":"a","namespace":"ns","uid":"u1","resourceVersion":"8"},"spec":{"containers":[]}}"#;

#[derive(Debug, Default, Clone, Copy)]
pub(crate) struct ServerCounts {
    pub(crate) connections: usize,
    pub(crate) watches: usize,
    pub(crate) patches: usize,
}

pub(crate) struct Server {
    pub(crate) seen: watch::Receiver<ServerCounts>,
    address: String,
    _tasks: JoinSet<()>,
}

impl Server {
    pub(crate) async fn start() -> Self {
        start().await
    }

    pub(crate) fn socket(&self) -> SocketAddr {
        self.address.strip_prefix("https://").unwrap().parse().unwrap()
    }
}

fn tls() -> TlsAcceptor {
    let key = KeyPair::generate().unwrap();
    let params = CertificateParams::new(vec!["localhost".to_owned()]).unwrap();
    let certificate = params.self_signed(&key).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(
            vec![certificate.der().clone()],
            PrivateKeyDer::try_from(key.serialize_der()).unwrap(),
        )
        .unwrap();
    config.alpn_protocols = vec![b"h2".to_vec()];
    TlsAcceptor::from(Arc::new(config))
}

/// A body that never ends.
struct Endless;

impl Body for Endless {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        self: std::pin::Pin<&mut Self>,
        _: &mut std::task::Context<'_>,
    ) -> std::task::Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        std::task::Poll::Pending
    }
}

/// Watches stay open, as does the status write of a stuck pod; anything else is answered at once.
fn answer(
    seen: &watch::Sender<ServerCounts>,
    request: &Request<Incoming>,
) -> Response<Either<Endless, Full<Bytes>>> {
    let uri = request.uri().to_string();
    let body = if uri.contains("watch=true") {
        seen.send_modify(|seen| seen.watches += 1);
        Either::Left(Endless)
    } else if uri.contains("/pods/stuck") {
        seen.send_modify(|seen| seen.patches += 1);
        Either::Left(Endless)
    } else if uri.contains("/pods/") {
        seen.send_modify(|seen| seen.patches += 1);
        Either::Right(Full::new(POD.into()))
    } else {
        let object = r#"{"metadata":{"name":"n","resourceVersion":"8"}}"#;
        Either::Right(Full::new(object.into()))
    };
    Response::new(body)
}

async fn start() -> Server {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = format!("https://127.0.0.1:{}", listener.local_addr().unwrap().port());
    let (seen_by_server, seen) = watch::channel(ServerCounts::default());
    let (mut tasks, tls) = (JoinSet::new(), tls());
    tasks.spawn(async move {
        let mut connections = JoinSet::new();
        while let Ok((stream, _)) = listener.accept().await {
            let (tls, seen_by_server) = (tls.clone(), seen_by_server.clone());
            connections.spawn(async move {
                let Ok(stream) = tls.accept(stream).await else { return };
                // Of several concurrent connections the client uses one.
                let is_used = AtomicBool::new(false);
                let service = service_fn(move |request| {
                    if !is_used.swap(true, Ordering::SeqCst) {
                        seen_by_server.send_modify(|seen| seen.connections += 1);
                    }
                    let answered = answer(&seen_by_server, &request);
                    async move { Ok::<_, Infallible>(answered) }
                });
                let mut http = http2::Builder::new(TokioExecutor::new());
                http.max_concurrent_streams(STREAMS);
                drop(http.serve_connection(TokioIo::new(stream), service).await);
            });
        }
    });
    Server { seen, address, _tasks: tasks }
}

async fn cluster(server: &Server, rate: Rate) -> Cluster {
    let mut file = tempfile::NamedTempFile::new().unwrap();
    let text = format!(
        "apiVersion: v1\nkind: Config\ncurrent-context: c\n\
         contexts: [{{name: c, context: {{cluster: c, user: u}}}}]\n\
         clusters: [{{name: c, cluster: {{server: \"{}\", insecure-skip-tls-verify: true}}}}]\n\
         users: [{{name: u, user: {{token: t}}}}]\n",
        server.address
    );
    file.write_all(text.as_bytes()).unwrap();
    let connection = Connection::find(Some(file.path().to_owned()), None, "test/1").await.unwrap();
    Cluster::new(connection, rate, Exclusion::default(), Source::default())
}

#[derive(Debug)]
struct NoopSink;

impl Sink<DataObject, ()> for NoopSink {
    fn receive(&self, _: Change<DataObject, ()>) {}
}

// behaviour: NODE-38
#[tokio::test]
async fn ordinary_node_uses_one_connection() {
    let server = start().await;
    let cluster = cluster(&server, Rate::UNLIMITED).await;
    // Concurrent first calls may create their own connections.
    cluster.node_lease("n").await.unwrap();
    let mut watches = JoinSet::new();
    for number in 0..40 {
        let cluster = cluster.clone();
        let name = format!("settings-{number}");
        watches.spawn(async move {
            cluster.follow_object(&ObjectKey::config_map("ns", &name), &NoopSink).await;
        });
    }
    let mut seen = server.seen.clone();
    let all = timeout(PATIENCE, seen.wait_for(|seen| seen.watches == 40)).await;
    drop(all.expect("all are followed").unwrap());
    for _ in 0..3 {
        cluster.node_lease("n").await.unwrap();
        cluster.patch_node_status("n", "{}".to_owned()).await.unwrap();
        cluster.patch_status(&PodName::new("ns", "a"), "{}".to_owned()).await.unwrap();
    }
    assert_eq!(seen.borrow().connections, 1);
}

// behaviour: NODE-38, OBJ-28
#[tokio::test]
async fn many_watches_delay_neither_one_another_nor_calls() {
    let server = start().await;
    let cluster = cluster(&server, Rate::UNLIMITED).await;
    let mut watches = JoinSet::new();
    for number in 0..250 {
        let cluster = cluster.clone();
        watches.spawn(async move {
            let name = format!("settings-{number}");
            let key = ObjectKey::config_map("ns", &name);
            cluster.follow_object(&key, &NoopSink).await;
        });
    }
    let mut seen = server.seen.clone();
    let all = timeout(PATIENCE, seen.wait_for(|seen| seen.watches == 250)).await;
    let connections = all.expect("all are followed").unwrap().connections;
    assert!(connections <= 6, "{connections}");
    let calls = async {
        cluster.node_lease("n").await.unwrap();
        cluster.own_node("n").await.unwrap();
        cluster.patch_status(&PodName::new("ns", "a"), "{}".to_owned()).await.unwrap();
    };
    timeout(PATIENCE, calls).await.expect("calls are answered");
}

// behaviour: NODE-38
#[tokio::test]
async fn queued_status_writes_do_not_delay_the_lease() {
    let server = start().await;
    let cluster = cluster(&server, Rate { per_second: 1.0, burst: 1 }).await;
    let mut statuses = JoinSet::new();
    for number in 0..50 {
        let cluster = cluster.clone();
        let pod = PodName::new("ns", format!("pod-{number}"));
        statuses.spawn(async move { cluster.patch_status(&pod, "{}".to_owned()).await.map(drop) });
    }
    let mut seen = server.seen.clone();
    let first = timeout(PATIENCE, seen.wait_for(|seen| seen.patches > 0)).await;
    drop(first.expect("the first is there").unwrap());
    let urgent = async {
        for _ in 0..10 {
            cluster.node_lease("n").await.unwrap();
            cluster.patch_node_status("n", "{}".to_owned()).await.unwrap();
        }
    };
    timeout(PATIENCE, urgent).await.expect("urgent calls do not wait for status writes");
    let patches = seen.borrow().patches;
    assert!(patches < 45, "{patches}");
}

// behaviour: NODE-38
#[tokio::test]
async fn hanging_calls_do_not_delay_the_lease() {
    let server = start().await;
    let cluster = cluster(&server, Rate::UNLIMITED).await;
    cluster.node_lease("n").await.unwrap();
    let mut statuses = JoinSet::new();
    for number in 0..2 * STREAMS {
        let cluster = cluster.clone();
        let pod = PodName::new("ns", format!("stuck-{number}"));
        statuses.spawn(async move { cluster.patch_status(&pod, "{}".to_owned()).await.map(drop) });
    }
    let mut seen = server.seen.clone();
    let full = |seen: &ServerCounts| seen.patches >= STREAMS as usize;
    let all = timeout(PATIENCE, seen.wait_for(full)).await;
    drop(all.expect("the connection is full").unwrap());
    timeout(PATIENCE / 3, cluster.node_lease("n")).await.expect("it does not wait").unwrap();
    assert_eq!(seen.borrow().connections, 2, "the shared one and the urgent one");
}
