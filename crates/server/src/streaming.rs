//! Streams into containers: exec, attach, port-forward, and run.
//!
//! ```text
//!  request ──> query ──> pod ──> running container, ready sandbox ──> URL of the runtime ──> proxy
//!              400       404     500                                  404, 429, 500
//! ```
//!
//! The caller has authenticated and authorised the request. The connection must allow upgrades
//! (`serve_connection(…).with_upgrades()`).

mod checkpoint;
mod copy;
mod dial;
mod headers;
mod proxy;

use std::fmt::Debug;
use std::net::IpAddr;
use std::sync::Arc;

use async_trait::async_trait;
use hyper::body::Incoming;
use hyper::header::{HeaderValue, RETRY_AFTER};
use hyper::{HeaderMap, Request, StatusCode};
use k8s_openapi::api::core::v1::Pod;
use model::ids::{ContainerId, ObjectId, PodName, PodUid};
use model::observed::{Container, Sandbox};
use model::ports::runtime::{Code, ExecOutput, RuntimeError};
use model::ports::streaming::{
    AttachRequest, ExecRequest, PortForwardRequest, Session, SessionKind, SessionRecord, Streaming,
};
use podspec::view;

use crate::decide::{
    container_tty, exec_command, is_requested_pod, ports, ready_sandbox, run_command,
    running_container, std_streams,
};
use crate::parts::PodView;
use crate::pod_lookup::find_pod;
use crate::respond::{Answer, JSON, answer, error_text, whole};

pub use checkpoint::Checkpoints;
pub use dial::StreamTls;
use proxy::{Proxy, not_an_upgrade};
pub use rustls::ClientConfig;

/// The delay for a client when the runtime has prepared too many streams: as long as it keeps one.
const RETRY: HeaderValue = HeaderValue::from_static("60");

/// The current containers and sandboxes of pods in the runtime.
#[async_trait]
pub trait StreamTargets: Debug + Send + Sync {
    /// The running containers of a pod.
    async fn running_containers(&self, pod: &PodUid) -> Result<Vec<Container>, RuntimeError>;

    /// The ready sandboxes of a pod.
    async fn ready_sandboxes(&self, pod: &PodUid) -> Result<Vec<Sandbox>, RuntimeError>;

    /// Runs a command in a container without time limit.
    async fn exec_sync(
        &self,
        container: &ContainerId,
        command: &[String],
    ) -> Result<ExecOutput, RuntimeError>;

    /// The static pod whose mirror pod has this UID.
    fn mirrored(&self, mirror: &PodUid) -> Option<PodUid>;
}

/// The pod and the container in the path of a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StreamPath {
    /// The pod.
    pub pod: PodName,
    /// Its UID, if the path has one.
    pub uid: Option<PodUid>,
    /// The container; empty for ports of the pod.
    pub container: String,
}

/// The client of a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StreamCaller {
    /// The user name.
    pub user: String,
    /// The address of the peer; `None` on a local socket.
    pub address: Option<IpAddr>,
}

/// Streams into the containers of this node.
#[derive(Debug)]
pub struct Streams {
    /// The pods.
    pub pods: Arc<dyn PodView>,
    /// Their containers and sandboxes.
    pub targets: Arc<dyn StreamTargets>,
    /// Prepares streams.
    pub runtime: Arc<dyn Streaming>,
    /// Records them.
    pub sessions: Arc<dyn SessionRecord>,
    /// The TLS settings for the runtime's streaming server.
    pub tls: Arc<dyn StreamTls>,
    /// Copies their bytes.
    pub proxy: StreamProxy,
}

/// Copies the bytes of streams.
#[derive(Debug, Clone, Default)]
pub struct StreamProxy(Proxy);

/// A pod, and the target container or sandbox of a stream.
#[derive(Debug)]
struct Target {
    pod: Arc<Pod>,
    uid: PodUid,
    object: ObjectId,
}

/// A request without its connection.
#[derive(Debug)]
struct StreamRequest<'a> {
    path: &'a StreamPath,
    query: Option<&'a str>,
    headers: &'a HeaderMap,
    caller: &'a StreamCaller,
}

/// A response other than a stream.
#[derive(Debug)]
struct Refused(Box<Answer>);

impl Streams {
    /// Runs a command in a container, with streams.
    pub async fn exec(
        &self,
        path: &StreamPath,
        request: Request<Incoming>,
        caller: &StreamCaller,
    ) -> Answer {
        let url = self.exec_url(&stream_request(path, &request, caller)).await;
        self.open(url, request, caller).await
    }

    /// Connects to the main process of a container.
    pub async fn attach(
        &self,
        path: &StreamPath,
        request: Request<Incoming>,
        caller: &StreamCaller,
    ) -> Answer {
        let url = self.attach_url(&stream_request(path, &request, caller)).await;
        self.open(url, request, caller).await
    }

    /// Connects to ports of a pod.
    pub async fn port_forward(
        &self,
        path: &StreamPath,
        request: Request<Incoming>,
        caller: &StreamCaller,
    ) -> Answer {
        let url = self.port_forward_url(&stream_request(path, &request, caller)).await;
        self.open(url, request, caller).await
    }

    /// Runs a command in a container and returns its output once it has ended: standard output, then standard error.
    pub async fn run(
        &self,
        path: &StreamPath,
        query: Option<&str>,
        caller: &StreamCaller,
    ) -> Answer {
        let stream_request = StreamRequest { path, query, headers: &HeaderMap::new(), caller };
        match self.output_of(&stream_request).await {
            Ok(output) => answer(StatusCode::OK, JSON, whole(output)),
            Err(refused) => *refused.0,
        }
    }

    async fn open(
        &self,
        url: Result<String, Refused>,
        request: Request<Incoming>,
        caller: &StreamCaller,
    ) -> Answer {
        match url {
            Ok(url) => self.proxy.0.open(&url, &*self.tls, request, caller.address).await,
            Err(refused) => *refused.0,
        }
    }

    async fn exec_url(&self, stream_request: &StreamRequest<'_>) -> Result<String, Refused> {
        let streams =
            std_streams(stream_request.query).map_err(|bad| bad_request(bad.to_string()))?;
        let not_found = format!("container not found ({:?})", stream_request.path.container);
        let (target, container) = self.container(stream_request.path, &not_found).await?;
        stream_request.check_upgrade()?;
        let command = exec_command(stream_request.query);
        let program = command.first().cloned();
        let url = self.runtime.exec(&ExecRequest { container, command, streams }).await;
        let session = target.session(SessionKind::Exec, stream_request, program, Vec::new());
        self.recorded(session, url)
    }

    async fn attach_url(&self, stream_request: &StreamRequest<'_>) -> Result<String, Refused> {
        let mut streams =
            std_streams(stream_request.query).map_err(|bad| bad_request(bad.to_string()))?;
        let PodName { namespace, name } = &stream_request.path.pod;
        let not_found = format!(
            "container {} not found in pod {name}_{namespace}",
            stream_request.path.container
        );
        let (target, container) = self.container(stream_request.path, &not_found).await?;
        let Some(tty) = container_tty(&target.pod, &stream_request.path.container) else {
            return Err(internal(not_found));
        };
        streams.tty = tty;
        stream_request.check_upgrade()?;
        let url = self.runtime.attach(&AttachRequest { container, streams }).await;
        self.recorded(target.session(SessionKind::Attach, stream_request, None, Vec::new()), url)
    }

    async fn port_forward_url(
        &self,
        stream_request: &StreamRequest<'_>,
    ) -> Result<String, Refused> {
        let ports = ports(stream_request.query, headers::is_websocket(stream_request.headers));
        let ports = ports.map_err(|bad| bad_request(bad.to_string()))?;
        let (pod, uid) = self.pod(stream_request.path)?;
        let sandboxes = self.targets.ready_sandboxes(&uid).await.map_err(|error| failed(&error))?;
        let Some(sandbox) = ready_sandbox(&sandboxes) else {
            let PodName { namespace, name } = &stream_request.path.pod;
            return Err(internal(format!("pod not found ({:?})", format!("{name}_{namespace}"))));
        };
        stream_request.check_upgrade()?;
        let target = Target { pod, uid, object: ObjectId::Sandbox(sandbox.clone()) };
        let request = PortForwardRequest { sandbox, ports: ports.clone() };
        let url = self.runtime.port_forward(&request).await;
        self.recorded(target.session(SessionKind::PortForward, stream_request, None, ports), url)
    }

    async fn output_of(&self, stream_request: &StreamRequest<'_>) -> Result<Vec<u8>, Refused> {
        let not_found = format!("container not found ({:?})", stream_request.path.container);
        let (target, container) = self.container(stream_request.path, &not_found).await?;
        let command = run_command(stream_request.query);
        let output = self.targets.exec_sync(&container, &command).await;
        let session =
            target.session(SessionKind::Run, stream_request, command.first().cloned(), Vec::new());
        let ExecOutput { mut stdout, stderr, exit_code } = match output {
            Ok(output) => {
                self.sessions.record_session(&session);
                output
            }
            Err(error) => {
                self.record_refusal(session, &error);
                return Err(internal(error.rpc_text()));
            }
        };
        if exit_code != 0 {
            let (command, stderr) = (command.join(" "), String::from_utf8_lossy(&stderr));
            let message = format!("command '{command}' exited with {exit_code}: {stderr}");
            return Err(internal(message));
        }
        stdout.extend_from_slice(&stderr);
        Ok(stdout)
    }

    /// The pod of a path.
    fn pod(&self, path: &StreamPath) -> Result<(Arc<Pod>, PodUid), Refused> {
        let found = find_pod(&*self.pods, &path.pod.namespace, &path.pod.name);
        let found = found.ok_or_else(|| not_found("pod does not exist"))?;
        let uid = view::uid(&found.pod);
        let requested = path.uid.as_ref();
        let mirrored = requested.and_then(|requested| self.targets.mirrored(requested));
        if is_requested_pod(&uid, requested, mirrored.as_ref()) {
            Ok((found.pod, uid))
        } else {
            Err(not_found("pod not found"))
        }
    }

    /// The running container of a path.
    async fn container(
        &self,
        path: &StreamPath,
        not_found: &str,
    ) -> Result<(Target, ContainerId), Refused> {
        let (pod, uid) = self.pod(path)?;
        let containers = self.targets.running_containers(&uid).await;
        let containers = containers.map_err(|error| failed(&error))?;
        let Some(id) = running_container(&containers, &path.container) else {
            return Err(internal(not_found.to_owned()));
        };
        Ok((Target { pod, uid, object: ObjectId::Container(id.clone()) }, id))
    }

    /// Records a session that the runtime has prepared or refused.
    fn recorded(
        &self,
        session: Session,
        url: Result<String, RuntimeError>,
    ) -> Result<String, Refused> {
        match url {
            Ok(url) => {
                self.sessions.record_session(&session);
                Ok(url)
            }
            Err(error) => {
                self.record_refusal(session, &error);
                Err(failed(&error))
            }
        }
    }

    fn record_refusal(&self, session: Session, error: &RuntimeError) {
        let refusal = Some(error.to_string());
        self.sessions.record_session(&Session { refusal, ..session });
    }
}

impl StreamRequest<'_> {
    /// Refuses a request without an upgrade, before the runtime prepares a stream.
    fn check_upgrade(&self) -> Result<(), Refused> {
        not_an_upgrade(self.headers).map_or(Ok(()), |answer| Err(refused(answer)))
    }
}

impl Target {
    fn session(
        &self,
        kind: SessionKind,
        stream_request: &StreamRequest<'_>,
        program: Option<String>,
        ports: Vec<u16>,
    ) -> Session {
        Session {
            kind,
            pod: stream_request.path.pod.clone(),
            uid: self.uid.clone(),
            container: stream_request.path.container.clone(),
            object: self.object.clone(),
            user: stream_request.caller.user.clone(),
            address: stream_request.caller.address,
            program,
            ports,
            refusal: None,
        }
    }
}

fn stream_request<'a>(
    path: &'a StreamPath,
    request: &'a Request<Incoming>,
    caller: &'a StreamCaller,
) -> StreamRequest<'a> {
    StreamRequest { path, query: request.uri().query(), headers: request.headers(), caller }
}

fn refused(answer: Answer) -> Refused {
    Refused(Box::new(answer))
}

fn bad_request(message: String) -> Refused {
    refused(error_text(StatusCode::BAD_REQUEST, message))
}

fn not_found(message: &str) -> Refused {
    refused(error_text(StatusCode::NOT_FOUND, message.to_owned()))
}

fn internal(message: String) -> Refused {
    refused(error_text(StatusCode::INTERNAL_SERVER_ERROR, message))
}

/// The response to a runtime error, by its gRPC code.
fn failed(error: &RuntimeError) -> Refused {
    let status = match error.code {
        Code::NotFound => StatusCode::NOT_FOUND,
        Code::ResourceExhausted => StatusCode::TOO_MANY_REQUESTS,
        _ => StatusCode::INTERNAL_SERVER_ERROR,
    };
    let mut answer = error_text(status, error.rpc_text());
    if status == StatusCode::TOO_MANY_REQUESTS {
        answer.headers_mut().insert(RETRY_AFTER, RETRY);
    }
    refused(answer)
}

#[cfg(test)]
#[path = "streaming/streaming_tests.rs"]
mod tests;
