//! A CRI server with scripted answers that records requests.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::os::unix::net::UnixListener;
use std::path::PathBuf;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use cri::{CriRuntime, Deadlines, Endpoint};
use prost::Message;
use prost::bytes::Bytes;
use tempfile::TempDir;
use tokio::sync::{oneshot, watch};
use tokio_stream::wrappers::UnixListenerStream;
use tonic::body::Body;
use tonic::codegen::http;
use tonic::server::Grpc;
use tonic::{Code, Request, Response, Status};
use tower::service_fn;

use crate::raw::Raw;
use crate::tape::{self, Tape};

/// Longer than any step takes on a busy machine.
pub(crate) const LONG: Duration = Duration::from_mins(1);

/// The behaviour of the server for a method.
#[derive(Debug, Clone)]
enum Answer {
    Message(Bytes),
    Failure(Code, String),
    /// None until the script changes.
    Hang,
    /// A stream that the test writes.
    Stream(Tape),
}

/// A received call.
#[derive(Debug, Clone)]
pub(crate) struct Call {
    pub(crate) path: String,
    /// The header `grpc-timeout`.
    pub(crate) timeout: Option<String>,
    message: Bytes,
}

/// The log of the server.
#[derive(Debug, Default)]
pub(crate) struct Log {
    pub(crate) calls: Vec<Call>,
    /// Methods of calls that the client cancelled.
    pub(crate) cancelled: Vec<String>,
}

/// The tests write the script, the server's thread writes the log.
#[derive(Debug, Default)]
struct Shared {
    script: watch::Sender<BTreeMap<String, Answer>>,
    log: watch::Sender<Log>,
}

/// A server on a socket in its own directory, with its own thread and async runtime: it ends like a killed
/// process, including its connections.
pub(crate) struct Server {
    directory: TempDir,
    shared: Arc<Shared>,
    running: Option<(oneshot::Sender<()>, JoinHandle<()>)>,
}

impl Server {
    pub(crate) fn running() -> Self {
        let mut server = Self::absent();
        server.start();
        server
    }

    /// A server that does not run yet: there is no socket.
    pub(crate) fn absent() -> Self {
        let directory = tempfile::tempdir().unwrap();
        Self { directory, shared: Arc::default(), running: None }
    }

    pub(crate) fn socket(&self) -> PathBuf {
        self.directory.path().join("cri.sock")
    }

    pub(crate) fn endpoint(&self) -> Endpoint {
        Endpoint::parse(&format!("unix://{}", self.socket().display())).unwrap()
    }

    /// A client with long timeouts.
    pub(crate) fn client(&self) -> CriRuntime {
        self.client_within(LONG)
    }

    pub(crate) fn client_within(&self, request: Duration) -> CriRuntime {
        CriRuntime::new(
            &self.endpoint(),
            &self.endpoint(),
            Deadlines { request, ..Deadlines::default() },
        )
    }

    pub(crate) fn start(&mut self) {
        if self.socket().exists() {
            std::fs::remove_file(self.socket()).unwrap();
        }
        let listener = UnixListener::bind(self.socket()).unwrap();
        listener.set_nonblocking(true).unwrap();
        let shared = self.shared.clone();
        let (stop, stopped) = oneshot::channel();
        let thread = std::thread::spawn(move || serve(listener, &shared, stopped));
        self.running = Some((stop, thread));
    }

    /// Stops it. The socket file remains and refuses connections.
    pub(crate) fn stop(&mut self) {
        if let Some((stop, thread)) = self.running.take() {
            drop(stop);
            thread.join().unwrap();
        }
    }

    pub(crate) fn answer(&self, method: &str, message: &impl Message) {
        self.answer_bytes(method, message.encode_to_vec());
    }

    pub(crate) fn answer_bytes(&self, method: &str, message: Vec<u8>) {
        self.script(method, Answer::Message(message.into()));
    }

    pub(crate) fn fail(&self, method: &str, code: Code, message: &str) {
        self.script(method, Answer::Failure(code, message.to_owned()));
    }

    pub(crate) fn hang(&self, method: &str) {
        self.script(method, Answer::Hang);
    }

    /// Makes a method answer with a stream that the test writes.
    pub(crate) fn stream(&self, method: &str) -> Tape {
        let tape = Tape::default();
        self.script(method, Answer::Stream(tape.clone()));
        tape
    }

    fn script(&self, method: &str, answer: Answer) {
        self.shared.script.send_modify(|script| {
            script.insert(method.to_owned(), answer);
        });
    }

    pub(crate) fn calls(&self) -> Vec<Call> {
        self.shared.log.borrow().calls.clone()
    }

    /// The request of the only call so far, which must be of this method.
    pub(crate) fn only_request<M: Message + Default>(&self, method: &str) -> M {
        let calls = self.calls();
        let [call] = calls.as_slice() else { panic!("not one call: {calls:?}") };
        assert_eq!(call.path.rsplit('/').next(), Some(method));
        M::decode(call.message.clone()).unwrap()
    }

    /// Waits for a state of the log.
    pub(crate) async fn until(&self, what: &str, is_so: impl FnMut(&Log) -> bool) {
        let mut log = self.shared.log.subscribe();
        let result = tokio::time::timeout(LONG, log.wait_for(is_so)).await;
        assert!(result.is_ok(), "not seen: {what}; {:?}", self.shared.log.borrow());
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // The panic of the thread is printed already; the test fails for its own reason.
        if let Some((stop, thread)) = self.running.take() {
            drop(stop);
            drop(thread.join());
        }
    }
}

fn serve(listener: UnixListener, shared: &Arc<Shared>, stopped: oneshot::Receiver<()>) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let listener = tokio::net::UnixListener::from_std(listener).unwrap();
        let shared = shared.clone();
        let service = service_fn(move |request| {
            let shared = shared.clone();
            async move { Ok::<_, Infallible>(handle(&shared, request).await) }
        });
        let serving = tonic::transport::Server::builder()
            .serve_with_incoming(service, UnixListenerStream::new(listener));
        // Biased: the stop comes first.
        tokio::select! {
            biased;
            _ = stopped => {}
            result = serving => panic!("the server ended: {result:?}"),
        }
    });
}

async fn handle(shared: &Arc<Shared>, request: http::Request<Body>) -> http::Response<Body> {
    let path = request.uri().path().to_owned();
    let method = path.rsplit('/').next().unwrap_or_default().to_owned();
    let answer = shared.script.borrow().get(&method).cloned();
    if let Some(Answer::Stream(tape)) = answer {
        let handler = service_fn(move |request| {
            let handling = arrival(shared, &path, request);
            tape::play(tape.clone(), handling)
        });
        return Grpc::new(Raw).server_streaming(handler, request).await;
    }
    let handler = service_fn(move |request| {
        let handling = arrival(shared, &path, request);
        reply(shared.clone(), method.clone(), handling)
    });
    Grpc::new(Raw).unary(handler, request).await
}

/// Logs a call.
fn arrival(shared: &Arc<Shared>, path: &str, request: Request<Bytes>) -> Handling {
    let timeout = request.metadata().get("grpc-timeout");
    let timeout = timeout.map(|timeout| timeout.to_str().unwrap().to_owned());
    let call = Call { path: path.to_owned(), timeout, message: request.into_inner() };
    shared.log.send_modify(|log| log.calls.push(call));
    let method = path.rsplit('/').next().unwrap_or_default().to_owned();
    Handling { shared: shared.clone(), method: Some(method) }
}

async fn reply(
    shared: Arc<Shared>,
    method: String,
    handling: Handling,
) -> Result<Response<Bytes>, Status> {
    let mut script = shared.script.subscribe();
    let answer = script
        .wait_for(|script| !matches!(script.get(&method), Some(Answer::Hang)))
        .await
        .expect("the script lives as long as the server")
        .get(&method)
        .cloned();
    handling.done();
    match answer {
        Some(Answer::Message(message)) => Ok(Response::new(message)),
        Some(Answer::Failure(code, message)) => Err(Status::new(code, message)),
        Some(Answer::Hang | Answer::Stream(_)) | None => {
            Err(Status::unimplemented(format!("unknown method {method}")))
        }
    }
}

/// Logs a call that is cancelled.
pub(crate) struct Handling {
    shared: Arc<Shared>,
    method: Option<String>,
}

impl Handling {
    pub(crate) fn done(mut self) {
        self.method = None;
    }
}

impl Drop for Handling {
    fn drop(&mut self) {
        if let Some(method) = self.method.take() {
            self.shared.log.send_modify(|log| log.cancelled.push(method));
        }
    }
}
