//! Calls to containerd's own API, over one connection for each socket.

use std::collections::BTreeMap;
use std::error::Error as _;
use std::path::{Path, PathBuf};
use std::sync::mpsc;
use std::sync::{LazyLock, Mutex, PoisonError};
use std::time::Duration;

use anyhow::{Context, Result};
use hyper_util::rt::TokioIo;
use prost::Message;
use tokio::net::UnixStream;
use tokio::runtime::{Builder, Runtime};
use tonic::client::Grpc;
use tonic::codegen::http::uri::PathAndQuery;
use tonic::metadata::MetadataValue;
use tonic::transport::{Channel, Uri};
use tonic::{Request, Status};
use tonic_prost::ProstCodec;
use tower::service_fn;

/// The namespace in which the CRI plugin keeps its containers and images.
const NAMESPACE: &str = "k8s.io";
/// How long a call may take.
const DEADLINE: Duration = Duration::from_mins(1);
/// The longest message that containerd sends.
const LONGEST_MESSAGE: usize = 16 << 20;

/// Drives all connections on its own thread, so that a call may block anywhere, even in another runtime.
static RUNTIME: LazyLock<Runtime> = LazyLock::new(|| {
    let runtime = Builder::new_multi_thread().worker_threads(1).enable_all().build();
    runtime.expect("a runtime starts")
});

static CHANNELS: Mutex<BTreeMap<PathBuf, Channel>> = Mutex::new(BTreeMap::new());

/// Makes a call without side effects. Fails while containerd is down.
pub(super) fn call<Q, A>(socket: &Path, method: &'static str, request: Q) -> Result<A>
where
    Q: Message + Clone + 'static,
    A: Message + Default + 'static,
{
    let (sender, receiver) = mpsc::sync_channel(1);
    let path = socket.to_owned();
    RUNTIME.spawn(async move {
        let channel = channel(path);
        let answer = tokio::time::timeout(DEADLINE, retried(channel, method, request)).await;
        // The receiver waits for it.
        sender.send(answer).ok();
    });
    let answer = receiver.recv().context("the call ended without an answer")?;
    answer
        .with_context(|| format!("{method}: no answer within {DEADLINE:?}"))?
        .with_context(|| format!("{method} on {}", socket.display()))
}

/// The connection to a socket. It dials at first use, and again when it broke: containerd may be restarted, or another
/// instance may have the socket.
fn channel(socket: PathBuf) -> Channel {
    let mut channels = CHANNELS.lock().unwrap_or_else(PoisonError::into_inner);
    let dial = |socket: PathBuf| {
        // The address is never used: the connector dials the socket.
        Channel::builder(Uri::from_static("http://localhost")).connect_with_connector_lazy(
            service_fn(move |_: Uri| {
                let socket = socket.clone();
                async move { UnixStream::connect(socket).await.map(TokioIo::new) }
            }),
        )
    };
    channels.entry(socket.clone()).or_insert_with(|| dial(socket)).clone()
}

/// Calls again if the connection broke under the first call.
async fn retried<Q, A>(channel: Channel, method: &'static str, request: Q) -> Result<A, Status>
where
    Q: Message + Clone + 'static,
    A: Message + Default + 'static,
{
    match unary(channel.clone(), method, request.clone()).await {
        // An error that containerd itself returned has no source.
        Err(status) if status.source().is_some() => unary(channel, method, request).await,
        answer => answer,
    }
}

async fn unary<Q, A>(channel: Channel, method: &'static str, message: Q) -> Result<A, Status>
where
    Q: Message + 'static,
    A: Message + Default + 'static,
{
    let mut client = Grpc::new(channel).max_decoding_message_size(LONGEST_MESSAGE);
    client.ready().await.map_err(|error| Status::from_error(error.into()))?;
    let mut request = Request::new(message);
    request.metadata_mut().insert("containerd-namespace", MetadataValue::from_static(NAMESPACE));
    let codec = ProstCodec::<Q, A>::default();
    let answer = client.unary(request, PathAndQuery::from_static(method), codec).await?;
    Ok(answer.into_inner())
}
