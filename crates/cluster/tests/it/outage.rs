//! A server that is away for hours, while a node follows its objects.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use cluster::{Cluster, Connection, Exclusion, Rate, Source};
use futures_util::future::BoxFuture;
use hyper::body::{Body, Bytes, Frame, Incoming};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use model::objects::ObjectKey;
use model::ports::cluster::{Change, Sink};
use model::ports::node_api::NodeApi as _;
use model::ports::objects::{ObjectReads as _, RuntimeClassFeed as _, ServiceFeed as _};
use model::ports::pod_api::PodApi as _;
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::{Instant, pause, resume, sleep, timeout};

const AWAY: Duration = Duration::from_hours(3);
/// Longer than any step takes.
const PATIENCE: Duration = Duration::from_secs(30);
/// The number of feeds.
const FEEDS: usize = 5;

/// The end of a streaming list, at a version.
const END: &str = "{\"type\":\"BOOKMARK\",\"object\":{\"metadata\":{\"resourceVersion\":\"5\",\
    \"annotations\":{\"k8s.io/initial-events-end\":\"true\"}}}}\n";
/// A list at that version.
const LIST: &str = "{\"metadata\":{\"resourceVersion\":\"5\"},\"items\":[]}";

/// The requests to the server.
#[derive(Debug, Default, Clone, Copy)]
struct ServerCounts {
    /// Connections while it was away.
    in_vain: usize,
    requests: usize,
    watches: usize,
}

/// A text, after which a body may stay open.
struct ScriptedBody {
    text: Option<&'static str>,
    is_over: bool,
}

impl Body for ScriptedBody {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        match self.text.take() {
            Some(text) => Poll::Ready(Some(Ok(Frame::data(Bytes::from_static(text.as_bytes()))))),
            None if self.is_over => Poll::Ready(None),
            None => Poll::Pending,
        }
    }
}

fn answer(
    seen: &watch::Sender<ServerCounts>,
    request: &Request<Incoming>,
) -> Response<ScriptedBody> {
    let query = request.uri().query().unwrap_or_default();
    let is_watch = query.contains("watch=true");
    seen.send_modify(|seen| {
        seen.requests += 1;
        seen.watches += usize::from(is_watch);
    });
    let is_list = query.contains("sendInitialEvents=true");
    let text = if is_list { Some(END) } else { Some(LIST).filter(|_| !is_watch) };
    Response::new(ScriptedBody { text, is_over: !is_watch })
}

/// A server that closes every connection while it is away.
struct Server {
    address: SocketAddr,
    seen: watch::Sender<ServerCounts>,
    is_away: watch::Sender<bool>,
    _tasks: JoinSet<()>,
}

impl Server {
    async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (seen, is_away) =
            (watch::Sender::new(ServerCounts::default()), watch::Sender::new(false));
        let (seen_by_task, mut away, mut tasks) =
            (seen.clone(), is_away.subscribe(), JoinSet::new());
        tasks.spawn(async move {
            let mut connections = JoinSet::new();
            loop {
                // Biased: a server that is away answers no request.
                let accepted = tokio::select! {
                    biased;
                    Ok(()) = away.changed() => {
                        connections.shutdown().await;
                        continue;
                    }
                    accepted = listener.accept() => accepted,
                };
                let (stream, _) = accepted.unwrap();
                if *away.borrow() {
                    seen_by_task.send_modify(|seen| seen.in_vain += 1);
                    continue;
                }
                let seen_by_task = seen_by_task.clone();
                connections.spawn(async move {
                    let service = service_fn(move |request| {
                        let answer = answer(&seen_by_task, &request);
                        async move { Ok::<_, Infallible>(answer) }
                    });
                    let http = http1::Builder::new();
                    drop(http.serve_connection(TokioIo::new(stream), service).await);
                });
            }
        });
        Self { address, seen, is_away, _tasks: tasks }
    }

    /// Waits for a state of the requests.
    async fn wait(&self, what: &str, wanted: impl Fn(&ServerCounts) -> bool) -> ServerCounts {
        let mut seen = self.seen.subscribe();
        let found = timeout(PATIENCE, seen.wait_for(|seen| wanted(seen))).await;
        *found.unwrap_or_else(|_| panic!("{what}: {:?}", self.seen.borrow())).unwrap()
    }
}

#[derive(Debug)]
struct NoopSink;

impl<T, K> Sink<T, K> for NoopSink {
    fn receive(&self, _: Change<T, K>) {}
}

/// Follows the objects that a node follows.
fn follow(cluster: &Arc<Cluster>) -> JoinSet<()> {
    let mut feeds = JoinSet::new();
    let all: [fn(Arc<Cluster>) -> BoxFuture<'static, ()>; FEEDS] = [
        |cluster| Box::pin(async move { cluster.follow_own_node("n", &NoopSink).await }),
        |cluster| Box::pin(async move { cluster.follow_pods_of("n", &NoopSink).await }),
        |cluster| Box::pin(async move { cluster.follow_services(&NoopSink).await }),
        |cluster| Box::pin(async move { cluster.follow_runtime_classes(&NoopSink).await }),
        |cluster| {
            Box::pin(async move {
                cluster.follow_object(&ObjectKey::config_map("ns", "a"), &NoopSink).await;
            })
        },
    ];
    for one in all {
        feeds.spawn(one(Arc::clone(cluster)));
    }
    feeds
}

// behaviour: API-30, API-33
#[tokio::test]
async fn feeds_back_off_during_an_outage_and_resume_once() {
    let server = Server::start().await;
    let address = format!("http://{}", server.address);
    let connection = Connection::find(None, Some(&address), "test/1").await.unwrap();
    let cluster =
        Cluster::new(connection, Rate::UNLIMITED, Exclusion::default(), Source::default());
    let _feeds = follow(&Arc::new(cluster));
    server.wait("all is followed", |seen| seen.watches == FEEDS).await;

    server.is_away.send_replace(true);
    // Only timers make progress.
    pause();
    sleep(AWAY).await;
    let tries = server.seen.borrow().in_vain;
    println!("{tries} connections in vain in {AWAY:?}, by {FEEDS} feeds");
    // The delay of each watch grows to a value between 30 s and a minute.
    let seconds = usize::try_from(AWAY.as_secs()).unwrap();
    assert!(tries <= FEEDS * (seconds / 30 + 15), "{tries}");
    assert!(tries >= FEEDS * (seconds / 60), "no feed gave up: {tries}");

    let before = *server.seen.borrow();
    server.is_away.send_replace(false);
    let mut seen = server.seen.subscribe();
    let back = timeout(4 * PATIENCE, seen.wait_for(|seen| seen.requests > before.requests)).await;
    drop(back.expect("a feed tries").unwrap());
    resume();
    let begun = Instant::now();
    let after = server.wait("all is followed again", |seen| seen.watches == 2 * FEEDS).await;
    println!("all is followed again after {:?}", begun.elapsed());
    // The feed reads the server's version, then resumes the watch.
    let requested = after.requests - before.requests;
    assert!(requested <= 2 * FEEDS + 2, "{requested}");
}
