//! Full lists of any length.

use model::fingerprint::Fingerprint;
use model::observed::{Container, Sandbox};
use model::ports::runtime::{ContainerFilter, ImageUse, RuntimeError, SandboxFilter};
use prost::Message;
use proto::runtime_v1 as cri;
use tonic::client::Grpc;
use tonic::codegen::http::Response as HttpResponse;
use tonic::codegen::http::uri::PathAndQuery;
use tonic::transport::Channel;
use tonic::{Request, Response, Status};
use tonic_prost::ProstCodec;
use tower::ServiceExt as _;
use tower::util::MapResponse;

use crate::client::MESSAGE_LIMIT;
use crate::error::{Call, on};
use crate::list_fingerprint::{ContainerList, FingerprintDigest, FingerprintMessage, SandboxList};
use crate::listed::{ListedContainers, ListedSandboxes, NoText, Texts};
use crate::service::Service;
use crate::split_body::{Digest, PassThrough, SplitBody, split_response};
use crate::to_cri;

/// A client whose responses arrive in parts.
type SplitClient =
    MapResponse<Channel, fn(HttpResponse<tonic::body::Body>) -> HttpResponse<SplitBody>>;

/// Lists the objects of a runtime.
#[derive(Debug, Clone)]
pub(crate) struct Lister(pub(crate) Channel);

impl Lister {
    /// A client whose responses are processed by this digest.
    fn reading<D: Digest + Default + 'static>(&self) -> Grpc<SplitClient> {
        let channel = self.0.clone().map_response(split_response::<D> as fn(_) -> _);
        Grpc::new(channel).max_decoding_message_size(MESSAGE_LIMIT)
    }
}

/// The result of the parts of a list.
pub(crate) trait ListResult: Default + Send {
    /// How the list is processed.
    type Digest: Digest + Default + 'static;
    type Part: Message + Default + 'static;

    fn take(&mut self, part: Self::Part) -> Result<(), NoText>;
}

/// The result, and the number of parts.
struct Counted<C> {
    collected: C,
    parts: usize,
}

/// Calls a method whose response is a list, or consists of several parts.
async fn collect<M: Message + 'static, C: ListResult>(
    lister: &Lister,
    request: Request<M>,
    path: &'static str,
) -> Result<Response<Counted<C>>, Status> {
    let mut lister = lister.reading::<C::Digest>();
    lister
        .ready()
        .await
        .map_err(|error| Status::unknown(format!("Service was not ready: {error}")))?;
    let codec = ProstCodec::<M, C::Part>::default();
    let answer = lister.server_streaming(request, PathAndQuery::from_static(path), codec).await?;
    let (mut stream, mut collected, mut parts) = (answer.into_inner(), C::default(), 0);
    while let Some(part) = stream.message().await? {
        let no_text = |NoText| Status::data_loss("the runtime's answer has a text that is none");
        collected.take(part).map_err(no_text)?;
        parts += 1;
    }
    Ok(Response::new(Counted { collected, parts }))
}

/// Calls a list method whose response is one message. No message at all is an error.
async fn whole<M: Message + 'static, C: ListResult>(
    service: &Service<Lister>,
    call: Call<'_>,
    request: M,
    path: &'static str,
) -> Result<C, RuntimeError> {
    let method = async |lister: &mut Lister, request| {
        let answer = collect(lister, request, path).await?.into_inner();
        let Counted { collected, parts: 1.. } = answer else {
            return Err(Status::internal("the answer has no message"));
        };
        Ok(Response::new(collected))
    };
    service.call(call, request, method).await
}

/// Lists containers. A list that is too large for one message is requested in parts.
pub(crate) async fn containers<C: ListResult>(
    service: &Service<Lister>,
    object: &str,
    filter: &ContainerFilter,
) -> Result<C, RuntimeError> {
    let filter = Some(to_cri::container_filter(filter));
    let request = cri::ListContainersRequest { filter: filter.clone() };
    let path = "/runtime.v1.RuntimeService/ListContainers";
    match whole(service, on("ListContainers", object), request, path).await {
        Err(error) if error.is_too_large() => {
            let request = cri::StreamContainersRequest { filter };
            let path = "/runtime.v1.RuntimeService/StreamContainers";
            let method = async |lister: &mut Lister, request| collect(lister, request, path).await;
            let streamed = service.call(on("StreamContainers", object), request, method).await;
            // Returns the error of the original request.
            streamed.map(|streamed: Counted<C>| streamed.collected).map_err(|_| error)
        }
        answer => answer,
    }
}

/// Lists sandboxes. A list that is too large for one message is requested in parts.
pub(crate) async fn sandboxes<C: ListResult>(
    service: &Service<Lister>,
    object: &str,
    filter: &SandboxFilter,
) -> Result<C, RuntimeError> {
    let filter = Some(to_cri::sandbox_filter(filter));
    let request = cri::ListPodSandboxRequest { filter: filter.clone() };
    let path = "/runtime.v1.RuntimeService/ListPodSandbox";
    match whole(service, on("ListPodSandbox", object), request, path).await {
        Err(error) if error.is_too_large() => {
            let request = cri::StreamPodSandboxesRequest { filter };
            let path = "/runtime.v1.RuntimeService/StreamPodSandboxes";
            let method = async |lister: &mut Lister, request| collect(lister, request, path).await;
            let streamed = service.call(on("StreamPodSandboxes", object), request, method).await;
            // Returns the error of the original request.
            streamed.map(|streamed: Counted<C>| streamed.collected).map_err(|_| error)
        }
        answer => answer,
    }
}

/// The fingerprint of a list of sandboxes, including malformed ones.
#[derive(Debug, Default)]
pub(crate) struct SandboxFingerprint(pub(crate) Fingerprint);

impl ListResult for SandboxFingerprint {
    type Digest = FingerprintDigest<SandboxList>;
    type Part = FingerprintMessage;

    fn take(&mut self, part: FingerprintMessage) -> Result<(), NoText> {
        self.0 = self.0.and(part.fingerprint());
        Ok(())
    }
}

/// The fingerprint of a list of containers.
#[derive(Debug, Default)]
pub(crate) struct ContainerFingerprint(pub(crate) Fingerprint);

impl ListResult for ContainerFingerprint {
    type Digest = FingerprintDigest<ContainerList>;
    type Part = FingerprintMessage;

    fn take(&mut self, part: FingerprintMessage) -> Result<(), NoText> {
        self.0 = self.0.and(part.fingerprint());
        Ok(())
    }
}

/// All entries of a sandbox list.
#[derive(Debug, Default)]
pub(crate) struct Sandboxes {
    texts: Texts,
    pub(crate) list: Vec<Sandbox>,
}

impl ListResult for Sandboxes {
    type Digest = PassThrough;
    type Part = ListedSandboxes;

    fn take(&mut self, part: ListedSandboxes) -> Result<(), NoText> {
        for entry in &part.items {
            self.list.extend(entry.sandbox(&mut self.texts)?);
        }
        Ok(())
    }
}

/// All entries of a container list.
#[derive(Debug, Default)]
pub(crate) struct Containers {
    texts: Texts,
    pub(crate) list: Vec<Container>,
}

impl ListResult for Containers {
    type Digest = PassThrough;
    type Part = ListedContainers;

    fn take(&mut self, part: ListedContainers) -> Result<(), NoText> {
        for entry in &part.items {
            self.list.extend(entry.container(&mut self.texts)?);
        }
        Ok(())
    }
}

/// The images of all entries of a container list.
#[derive(Debug, Default)]
pub(crate) struct ImageUses {
    texts: Texts,
    pub(crate) list: Vec<ImageUse>,
}

impl ListResult for ImageUses {
    type Digest = PassThrough;
    type Part = ListedContainers;

    fn take(&mut self, part: ListedContainers) -> Result<(), NoText> {
        for entry in &part.items {
            self.list.extend(entry.image_use(&mut self.texts)?);
        }
        Ok(())
    }
}
