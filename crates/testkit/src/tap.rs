//! `tap`: a CRI socket in front of a runtime's, through which every call passes unchanged.
//!
//! Purpose: to know what a node agent asks of a runtime, and when, without trusting either of them.
//!
//! Inputs: the runtime's socket, and the methods whose calls are to be noted one by one. Outputs: per
//! method the number of calls and the bytes of their messages, and the times of the noted calls.
//!
//! Invariants:
//! - messages, headers, trailers and errors pass as they are: nothing is decoded;
//! - a call is counted when it arrives, an answer when its last byte has passed;
//! - nothing grows with the number of calls: of those noted, only the latest are kept.

mod record;

use std::convert::Infallible;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context, Result};
use http_body_util::BodyExt;
use hyper_util::rt::TokioIo;
use tokio::net::{UnixListener, UnixStream};
use tokio_stream::wrappers::UnixListenerStream;
use tonic::Status;
use tonic::body::Body;
use tonic::codegen::{Bytes, http};
use tonic::transport::{Channel, Endpoint, Server, Uri};
use tower::{ServiceExt as _, service_fn};

use record::Record;
pub use record::{Counts, NotedCall, Passed};

/// Lists of thousands of pods must not wait for flow control on this side.
const WINDOW: u32 = 8 << 20;

/// How a runtime says that a call went well.
const WELL: &[u8] = b"0";

/// A tap. Clones are the same one.
#[derive(Debug, Clone)]
pub struct Tap {
    channel: Channel,
    record: Arc<Record>,
}

impl Tap {
    /// A tap on the runtime at a socket, which notes the calls of some methods. Connects when first
    /// used. Must be called inside a tokio runtime.
    pub fn on(socket: &Path, noted: &[&str]) -> Self {
        Self { channel: channel(socket.to_owned()), record: Arc::new(Record::noting(noted)) }
    }

    /// What passed so far.
    pub fn counts(&self) -> Counts {
        self.record.counts()
    }

    /// The latest of the noted calls, in the order of their arrival.
    pub fn noted(&self) -> Vec<NotedCall> {
        self.record.noted()
    }

    /// Passes calls on for ever. Dropped, it takes no more connections.
    pub async fn serve(self, listener: UnixListener) -> Result<()> {
        let service = service_fn(move |request| {
            let tap = self.clone();
            async move { Ok::<_, Infallible>(tap.pass(request).await) }
        });
        Server::builder()
            .serve_with_incoming(service, UnixListenerStream::new(listener))
            .await
            .context("pass calls on")
    }

    async fn pass(self, request: http::Request<Body>) -> http::Response<Body> {
        let method = request.uri().path().rsplit('/').next().unwrap_or_default().to_owned();
        let call = self.record.arrived(&method);
        let sent = call.clone();
        let request = request.map(|body| {
            Body::new(body.map_frame(move |frame| {
                sent.sent(frame.data_ref().map_or(0, Bytes::len));
                frame
            }))
        });
        let response = match self.channel.oneshot(request).await {
            Ok(response) => response,
            // The call could not be passed on at all, which to the agent is a runtime that is away.
            Err(error) => return Status::unavailable(format!("tap: {error}")).into_http(),
        };
        // An answer without a message has its status among the headers.
        if let Some(status) = response.headers().get(Status::GRPC_STATUS) {
            call.answered(status.as_bytes() == WELL);
        }
        response.map(|body| {
            Body::new(body.map_frame(move |frame| {
                call.received(frame.data_ref().map_or(0, Bytes::len));
                if let Some(status) = frame.trailers_ref().and_then(|t| t.get(Status::GRPC_STATUS))
                {
                    call.answered(status.as_bytes() == WELL);
                }
                frame
            }))
        })
    }
}

fn channel(socket: PathBuf) -> Channel {
    // The address is never used: the connector dials the socket.
    Endpoint::from(Uri::from_static("http://localhost"))
        .initial_stream_window_size(WINDOW)
        .initial_connection_window_size(WINDOW)
        .connect_with_connector_lazy(service_fn(move |_: Uri| {
            let socket = socket.clone();
            async move { UnixStream::connect(socket).await.map(TokioIo::new) }
        }))
}
