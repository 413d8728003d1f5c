//! Whether a runtime has just what is known, seen without making sense of all that it says.
//!
//! A list of everything is large, and what is new in it is mostly nothing. Of an answer only ids and
//! states are read; the rest is skipped, and decoded only if something changed.

use std::marker::PhantomData;

use model::fingerprint::{Fingerprint, Mark};
use model::observed::{ContainerState, SandboxState};
use model::ports::runtime::{Lists, RuntimeError};
use prost::Message;
use prost::bytes::{Buf as _, Bytes};
use proto::runtime_v1 as cri;
use tonic::client::Grpc;
use tonic::codec::{Codec, DecodeBuf, Decoder};
use tonic::codegen::http::uri::PathAndQuery;
use tonic::transport::Channel;
use tonic::{Request, Response, Status};
use tonic_prost::ProstEncoder;

use crate::error::{Call, on};
use crate::from_cri;
use crate::service::Service;

/// `ListPodSandboxResponse`, as far as it is needed.
#[derive(Clone, PartialEq, Message)]
struct Sandboxes {
    #[prost(message, repeated, tag = "1")]
    items: Vec<Sandbox>,
}

/// `PodSandbox`.
#[derive(Clone, PartialEq, Message)]
struct Sandbox {
    #[prost(bytes = "bytes", tag = "1")]
    id: Bytes,
    #[prost(enumeration = "cri::PodSandboxState", tag = "3")]
    state: i32,
}

/// `ListContainersResponse`.
#[derive(Clone, PartialEq, Message)]
struct Containers {
    #[prost(message, repeated, tag = "1")]
    items: Vec<Container>,
}

/// `Container`.
#[derive(Clone, PartialEq, Message)]
struct Container {
    #[prost(bytes = "bytes", tag = "1")]
    id: Bytes,
    #[prost(enumeration = "cri::ContainerState", tag = "6")]
    state: i32,
}

/// Lists everything, and decodes it unless `known` stands for it.
pub(crate) async fn list_if_changed(
    service: &Service<Grpc<Channel>>,
    known: &Fingerprint,
) -> Result<Option<Lists>, RuntimeError> {
    const OBJECT: &str = "of all pods";
    let calls = (on("ListPodSandbox", OBJECT), on("ListContainers", OBJECT));
    let request = cri::ListPodSandboxRequest { filter: Some(cri::PodSandboxFilter::default()) };
    let path = "/runtime.v1.RuntimeService/ListPodSandbox";
    let sandboxes =
        service.call(calls.0, request, async |grpc, request| undecoded(grpc, request, path).await);
    let request = cri::ListContainersRequest { filter: Some(cri::ContainerFilter::default()) };
    let path = "/runtime.v1.RuntimeService/ListContainers";
    let containers =
        service.call(calls.1, request, async |grpc, request| undecoded(grpc, request, path).await);
    let (sandboxes, containers) = futures_util::future::join(sandboxes, containers).await;
    let (sandboxes, containers) = (sandboxes?, containers?);
    let some = (decode(calls.0, &sandboxes)?, decode(calls.1, &containers)?);
    if known.vouches_for(&fingerprint(&some.0, &some.1)) {
        return Ok(None);
    }
    let all: cri::ListPodSandboxResponse = decode(calls.0, &sandboxes)?;
    let sandboxes = all.items.into_iter().filter_map(from_cri::sandbox).collect();
    let all: cri::ListContainersResponse = decode(calls.1, &containers)?;
    let containers = all.containers.into_iter().filter_map(from_cri::container).collect();
    Ok(Some((sandboxes, containers)))
}

fn decode<M: Message + Default>(call: Call<'_>, answer: &Bytes) -> Result<M, RuntimeError> {
    M::decode(answer.clone()).map_err(|error| call.malformed(&format!("a fault: {error}")))
}

/// An object that belongs to no pod counts too, though the lists leave it out: with one of those the
/// lists are always decoded.
fn fingerprint(sandboxes: &Sandboxes, containers: &Containers) -> Fingerprint {
    let mut fingerprint = Fingerprint::default();
    for sandbox in &sandboxes.items {
        let state: SandboxState = from_cri::sandbox_state(sandbox.state());
        fingerprint.add(&sandbox.id, Mark::from(state));
    }
    for container in &containers.items {
        let state: ContainerState = from_cri::container_state(container.state());
        fingerprint.add(&container.id, Mark::from(state));
    }
    fingerprint
}

async fn undecoded<M: Message + 'static>(
    grpc: &mut Grpc<Channel>,
    request: Request<M>,
    path: &'static str,
) -> Result<Response<Bytes>, Status> {
    grpc.ready()
        .await
        .map_err(|error| Status::unknown(format!("Service was not ready: {error}")))?;
    grpc.unary(request, PathAndQuery::from_static(path), Undecoded(PhantomData)).await
}

/// Sends a message, and leaves the answer as it came.
#[derive(Debug)]
struct Undecoded<M>(PhantomData<M>);

impl<M: Message + 'static> Codec for Undecoded<M> {
    type Encode = M;
    type Decode = Bytes;
    type Encoder = ProstEncoder<M>;
    type Decoder = AsItCame;

    fn encoder(&mut self) -> Self::Encoder {
        ProstEncoder::default()
    }

    fn decoder(&mut self) -> Self::Decoder {
        AsItCame
    }
}

#[derive(Debug)]
struct AsItCame;

impl Decoder for AsItCame {
    type Item = Bytes;
    type Error = Status;

    fn decode(&mut self, source: &mut DecodeBuf<'_>) -> Result<Option<Bytes>, Status> {
        Ok(Some(source.copy_to_bytes(source.remaining())))
    }
}
