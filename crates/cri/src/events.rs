//! The container event stream.

use std::future::ready;

use futures_util::future::BoxFuture;
use futures_util::{FutureExt, StreamExt, TryStreamExt, stream};
use model::ports::runtime::{ContainerEvents, RuntimeError};
use proto::runtime_v1 as cri;
use proto::runtime_v1::runtime_service_client::RuntimeServiceClient;
use tonic::transport::Channel;
use tonic::{Response, Status, Streaming};

use crate::client::ALL;
use crate::error::on;
use crate::from_cri;
use crate::service::Service;

type EventAnswers = Streaming<cri::ContainerEventResponse>;

/// Opens the stream. It has no deadline, but opening it has.
///
/// A Go server sends nothing before the first event, so an open stream on a quiet node looks like a hanging
/// runtime. A concurrent call that every runtime answers at once distinguishes the two.
pub(crate) async fn open(
    service: &Service<RuntimeServiceClient<Channel>>,
) -> Result<ContainerEvents, RuntimeError> {
    let call = on("GetContainerEvents", ALL);
    let mut opening = open_stream(service.client.clone());
    let request = cri::VersionRequest { version: "v1".to_owned() };
    let sign_of_life = service.call(call, request, RuntimeServiceClient::version);
    let opening = tokio::select! {
        // Biased: a refusal of the stream takes precedence over the other call.
        biased;
        answer = &mut opening => {
            let stream = answer.map_err(|status| call.failed(&status, &service.endpoint))?;
            ready(Ok(stream)).boxed()
        }
        alive = sign_of_life => {
            alive?;
            opening
        }
    };
    let answers = stream::once(opening).try_flatten().boxed();
    // Ends with the first error, which the transport would repeat forever.
    let events = stream::try_unfold(answers, |mut answers| async move {
        while let Some(answer) = answers.try_next().await? {
            if let Some(event) = from_cri::container_event(answer) {
                return Ok(Some((event, answers)));
            }
        }
        Ok(None)
    });
    let endpoint = service.endpoint.clone();
    let events = events.map_err(move |status| call.failed(&status, &endpoint));
    Ok(events.boxed())
}

fn open_stream(
    mut client: RuntimeServiceClient<Channel>,
) -> BoxFuture<'static, Result<EventAnswers, Status>> {
    async move {
        let answer = client.get_container_events(cri::GetEventsRequest {}).await;
        answer.map(Response::into_inner)
    }
    .boxed()
}
