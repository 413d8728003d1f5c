//! The client of a running agent's socket.

use std::io;
use std::marker::PhantomData;
use std::path::{Path, PathBuf};

use http_body_util::{BodyExt as _, Empty};
use hyper::body::{Bytes, Incoming};
use hyper::client::conn::http1;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use k8s_openapi::api::core::v1::Pod;
use model::ids::PodName;
use serde::de::DeserializeOwned;
use server::wire::{
    EventItem, EventItems, EvictPlan, GcLine, GcPlan, PodItems, Problem, SOCKET, Version,
    WatchLine, WhyAnswer,
};
use tokio::net::UnixStream;
use tokio::task::JoinSet;

/// Why a request to the agent failed.
#[derive(Debug, thiserror::Error)]
pub enum AgentError {
    /// No process listens.
    #[error(
        "no agent answers at {}: is it running, and with this root directory?", .0.display()
    )]
    NoAgent(PathBuf),
    /// The socket belongs to another user.
    #[error("not allowed to connect to the agent at {}: only the user who runs it may use its socket", .0.display())]
    NotAllowed(PathBuf),
    /// The connection could not be made.
    #[error("connect to the agent at {}", socket.display())]
    Connect {
        /// The socket.
        socket: PathBuf,
        /// The I/O error.
        #[source]
        source: io::Error,
    },
    /// The connection ended early. The exact error does not help the user.
    #[error("the agent closed the connection early; is it being restarted?")]
    BrokenOff(hyper::Error),
    /// The response is malformed; the agent may have another version.
    #[error("read the response of the agent to {path}")]
    Answer {
        /// The request path.
        path: String,
        /// The decode error.
        #[source]
        source: serde_json::Error,
    },
    /// The agent returned an error.
    #[error("{0}")]
    Refused(String),
}

/// A client of the agent of a root directory.
#[derive(Debug, Clone)]
pub struct AgentClient {
    socket: PathBuf,
}

impl AgentClient {
    /// The client for the agent of a root directory.
    pub fn new(root_dir: &Path) -> Self {
        Self { socket: root_dir.join(SOCKET) }
    }

    /// All pods, and the refused manifests.
    pub async fn pods(&self) -> Result<PodItems<Pod>, AgentError> {
        self.json("/pods").await
    }

    /// The events of a pod, the latest last.
    pub async fn events(&self, pod: &PodName) -> Result<Vec<EventItem>, AgentError> {
        Ok(self.json::<EventItems>(&format!("/events?pod={pod}")).await?.items)
    }

    /// The events of all pods and of the node, the latest last.
    pub async fn all_events(&self) -> Result<Vec<EventItem>, AgentError> {
        Ok(self.json::<EventItems>("/events").await?.items)
    }

    /// The version of the agent.
    pub async fn version(&self) -> Result<Version, AgentError> {
        self.json("/version").await
    }

    /// The health checks with their results, as text. It is complete also if a check fails.
    pub async fn health(&self) -> Result<String, AgentError> {
        let (response, connection) = self.send(Method::GET, "/healthz?verbose").await?;
        let mut text = Text { body: response.into_body(), _connection: connection };
        Ok(String::from_utf8_lossy(&text.rest().await?).into_owned())
    }

    /// The metrics, in the text format of Prometheus.
    pub async fn metrics(&self) -> Result<String, AgentError> {
        let text = self.get("/metrics").await?.rest().await?;
        Ok(String::from_utf8_lossy(&text).into_owned())
    }

    /// All pods, followed by changes.
    pub async fn watch(&self) -> Result<Watch, AgentError> {
        let path = "/pods?watch=true";
        Ok(Lines::new(path, self.get(path).await?))
    }

    /// What the next pass of garbage collection would remove and keep.
    pub async fn gc_plan(&self) -> Result<GcPlan, AgentError> {
        self.json("/gc/plan").await
    }

    /// The eviction signals now, and which pods would be evicted.
    pub async fn evict_plan(&self) -> Result<EvictPlan, AgentError> {
        self.json("/evict/plan").await
    }

    /// The removals of that name or id, the newest first.
    pub async fn gc_why(&self, what: &str, limit: usize) -> Result<WhyAnswer, AgentError> {
        let what: String = form_urlencoded::byte_serialize(what.as_bytes()).collect();
        self.json(&format!("/gc/why?what={what}&limit={limit}")).await
    }

    /// The incidents and removals of that pod or container, the newest first.
    pub async fn why(&self, what: &str, limit: usize) -> Result<WhyAnswer, AgentError> {
        let what: String = form_urlencoded::byte_serialize(what.as_bytes()).collect();
        self.json(&format!("/why?what={what}&limit={limit}")).await
    }

    /// Runs a pass of garbage collection, and streams its progress.
    pub async fn gc_run(&self) -> Result<Lines<GcLine>, AgentError> {
        let path = "/gc/run";
        Ok(Lines::new(path, self.text_of(Method::POST, path).await?))
    }

    /// A streamed response. The path must be valid in a request line.
    pub async fn get(&self, path: &str) -> Result<Text, AgentError> {
        self.text_of(Method::GET, path).await
    }

    async fn text_of(&self, method: Method, path: &str) -> Result<Text, AgentError> {
        let (response, connection) = self.send(method, path).await?;
        let status = response.status();
        let mut text = Text { body: response.into_body(), _connection: connection };
        if status == StatusCode::OK {
            return Ok(text);
        }
        let content = text.rest().await?;
        let problem = serde_json::from_slice::<Problem>(&content).map(|problem| problem.message);
        Err(AgentError::Refused(
            problem.unwrap_or_else(|_| format!("the agent returns {status} for {path}")),
        ))
    }

    async fn json<T: DeserializeOwned>(&self, path: &str) -> Result<T, AgentError> {
        let content = self.get(path).await?.rest().await?;
        serde_json::from_slice(&content)
            .map_err(|source| AgentError::Answer { path: path.to_owned(), source })
    }

    /// Connects to the agent's socket.
    pub(crate) async fn connect(&self) -> Result<UnixStream, AgentError> {
        let socket = self.socket.clone();
        UnixStream::connect(&socket).await.map_err(|source| match source.kind() {
            io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused => {
                AgentError::NoAgent(socket)
            }
            io::ErrorKind::PermissionDenied => AgentError::NotAllowed(socket),
            _ => AgentError::Connect { socket, source },
        })
    }

    async fn send(
        &self,
        method: Method,
        path: &str,
    ) -> Result<(Response<Incoming>, JoinSet<()>), AgentError> {
        let stream = self.connect().await?;
        let (mut sender, connection) =
            http1::handshake(TokioIo::new(stream)).await.map_err(AgentError::BrokenOff)?;
        let mut task = JoinSet::new();
        // An error of the connection shows in the response.
        task.spawn(async move { drop(connection.await) });
        let request = Request::builder().method(method).uri(path).header("host", "agent");
        let request = request.body(Empty::<Bytes>::new());
        let request = request.expect("a path is made of names that the API allows");
        let response = sender.send_request(request).await.map_err(AgentError::BrokenOff)?;
        Ok((response, task))
    }
}

/// A response that is being read.
#[derive(Debug)]
pub struct Text {
    body: Incoming,
    /// Drives the connection; aborted with the response.
    _connection: JoinSet<()>,
}

impl Text {
    /// The next piece; `None` at the end.
    pub async fn next(&mut self) -> Result<Option<Bytes>, AgentError> {
        loop {
            let Some(frame) = self.body.frame().await else { return Ok(None) };
            if let Ok(data) = frame.map_err(AgentError::BrokenOff)?.into_data() {
                return Ok(Some(data));
            }
        }
    }

    async fn rest(&mut self) -> Result<Vec<u8>, AgentError> {
        let mut content = Vec::new();
        while let Some(piece) = self.next().await? {
            content.extend_from_slice(&piece);
        }
        Ok(content)
    }
}

/// A watch of the agent's pods.
pub type Watch = Lines<WatchLine<Pod>>;

/// A response in lines of JSON.
#[derive(Debug)]
pub struct Lines<T> {
    path: &'static str,
    text: Text,
    buffer: Vec<u8>,
    line: PhantomData<fn() -> T>,
}

impl<T: DeserializeOwned> Lines<T> {
    fn new(path: &'static str, text: Text) -> Self {
        Self { path, text, buffer: Vec::new(), line: PhantomData }
    }

    /// The next line; `None` when the agent ended. Cancel safe.
    pub async fn next(&mut self) -> Result<Option<T>, AgentError> {
        loop {
            if let Some(end) = self.buffer.iter().position(|byte| *byte == b'\n') {
                let line: Vec<u8> = self.buffer.drain(..=end).collect();
                let line = serde_json::from_slice(&line);
                let path = self.path.to_owned();
                return line.map(Some).map_err(|source| AgentError::Answer { path, source });
            }
            let Some(piece) = self.text.next().await? else { return Ok(None) };
            self.buffer.extend_from_slice(&piece);
        }
    }
}
