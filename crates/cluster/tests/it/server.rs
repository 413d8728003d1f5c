//! An HTTP server that answers requests from a script, and then no more.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::io::Write as _;
use std::sync::{Arc, Mutex};

use cluster::{Cluster, Connection, Exclusion, Rate, Rates, Source};
use http_body_util::{BodyExt as _, Full};
use hyper::body::{Bytes, Incoming};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::task::JoinSet;

/// The API server of a kubeconfig with further fields in its cluster and user.
pub(crate) async fn by_kubeconfig(server: &str, cluster: &str, user: &str) -> Cluster {
    let mut file = tempfile::NamedTempFile::new().unwrap();
    let text = format!(
        "apiVersion: v1\nkind: Config\ncurrent-context: c\n\
         contexts: [{{name: c, context: {{cluster: c, user: u}}}}]\n\
         clusters: [{{name: c, cluster: {{server: \"{server}\"{cluster}}}}}]\n\
         users: [{{name: u, user: {{{user}}}}}]\n"
    );
    file.write_all(text.as_bytes()).unwrap();
    let connection = Connection::find(Some(file.path().to_owned()), None, "test/1").await.unwrap();
    Cluster::new(connection, Rate::UNLIMITED, Exclusion::default(), Source::default())
}

/// A received request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ReceivedRequest {
    pub(crate) method: String,
    /// With the query, without its random parts.
    pub(crate) path: String,
    pub(crate) content_type: String,
    pub(crate) user_agent: String,
    /// The `Authorization` header, if there is one.
    pub(crate) authorization: String,
    pub(crate) body: String,
}

/// A response.
#[derive(Debug, Clone)]
pub(crate) struct Answer {
    status: u16,
    retry_after: Option<&'static str>,
    body: String,
}

pub(crate) fn ok(body: impl Into<String>) -> Answer {
    Answer { status: 200, retry_after: None, body: body.into() }
}

pub(crate) fn refused(status: u16, message: &str) -> Answer {
    let body =
        format!(r#"{{"kind":"Status","status":"Failure","message":"{message}","code":{status}}}"#);
    Answer { status, retry_after: None, body }
}

/// The response of an API server for a missing object.
pub(crate) fn missing(kind: &str, name: &str) -> Answer {
    text(
        404,
        &format!(
            r#"{{"kind":"Status","status":"Failure","reason":"NotFound","message":"{kind} {name} not found","details":{{"name":"{name}","kind":"{kind}"}},"code":404}}"#
        ),
    )
}

/// The response of a proxy.
pub(crate) fn text(status: u16, body: &str) -> Answer {
    Answer { status, retry_after: None, body: body.to_owned() }
}

pub(crate) fn busy(status: u16, retry_after: &'static str) -> Answer {
    Answer { retry_after: Some(retry_after), ..refused(status, "busy") }
}

/// Lines as a body.
pub(crate) fn lines(lines: &[&str]) -> Answer {
    ok(lines.iter().flat_map(|line| [*line, "\n"]).collect::<String>())
}

#[derive(Debug)]
struct State {
    script: Mutex<VecDeque<Answer>>,
    requested: watch::Sender<Vec<ReceivedRequest>>,
}

#[derive(Debug)]
pub(crate) struct Server {
    state: Arc<State>,
    address: String,
    _tasks: JoinSet<()>,
}

impl Server {
    pub(crate) async fn start(script: impl IntoIterator<Item = Answer>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = format!("http://{}", listener.local_addr().unwrap());
        let script = Mutex::new(script.into_iter().collect());
        let state = Arc::new(State { script, requested: watch::Sender::new(Vec::new()) });
        let mut tasks = JoinSet::new();
        let shared = Arc::clone(&state);
        tasks.spawn(async move {
            let mut connections = JoinSet::new();
            while let Ok((stream, _)) = listener.accept().await {
                let state = Arc::clone(&shared);
                connections.spawn(async move {
                    let service = service_fn(move |request| answer(Arc::clone(&state), request));
                    drop(
                        http1::Builder::new().serve_connection(TokioIo::new(stream), service).await,
                    );
                });
            }
        });
        Self { state, address, _tasks: tasks }
    }

    pub(crate) fn address(&self) -> &str {
        &self.address
    }

    pub(crate) async fn cluster(&self) -> Cluster {
        self.cluster_at(Rate::UNLIMITED).await
    }

    /// A client with this rate of events.
    pub(crate) async fn cluster_at(&self, events: Rate) -> Cluster {
        self.cluster_with(Rates { calls: Rate::UNLIMITED, events }).await
    }

    /// A client with these rates.
    pub(crate) async fn cluster_with(&self, rates: Rates) -> Cluster {
        let connection = Connection::find(None, Some(&self.address), "test/1").await.unwrap();
        let source = Source { component: "test", host: "host".to_owned() };
        Cluster::new(connection, rates, Exclusion::default(), source)
    }

    pub(crate) fn requested(&self) -> Vec<ReceivedRequest> {
        self.state.requested.borrow().clone()
    }

    /// The paths of the first `count` requests.
    pub(crate) async fn paths(&self, count: usize) -> Vec<String> {
        let mut requested = self.state.requested.subscribe();
        let enough = requested.wait_for(|requested| requested.len() >= count).await.unwrap();
        enough.iter().map(|one| one.path.clone()).collect()
    }
}

async fn answer(
    state: Arc<State>,
    request: Request<Incoming>,
) -> Result<Response<Full<Bytes>>, Infallible> {
    let (parts, body) = request.into_parts();
    let body = body.collect().await.unwrap().to_bytes();
    let path = parts.uri.path_and_query().unwrap().as_str();
    let path: Vec<&str> =
        path.split('&').filter(|part| !part.starts_with("timeoutSeconds")).collect();
    let header = |name: &str| {
        let value = parts.headers.get(name);
        value.map(|value| value.to_str().unwrap().to_owned()).unwrap_or_default()
    };
    let requested = ReceivedRequest {
        user_agent: header("user-agent"),
        authorization: header("authorization"),
        method: parts.method.to_string(),
        path: path.join("&"),
        content_type: parts.headers["content-type"].to_str().unwrap().to_owned(),
        body: String::from_utf8(body.to_vec()).unwrap(),
    };
    let next = state.script.lock().unwrap().pop_front();
    state.requested.send_modify(|all| all.push(requested));
    let Some(Answer { status, retry_after, body }) = next else {
        return std::future::pending().await;
    };
    let mut answer = Response::builder().status(status);
    if let Some(seconds) = retry_after {
        answer = answer.header("retry-after", seconds);
    }
    Ok(answer.body(Full::new(body.into())).unwrap())
}
