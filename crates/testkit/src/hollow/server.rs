//! The server: both services on one Unix socket, behind the gate.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result};
use proto::runtime_v1::image_service_server::{ImageServiceServer, SERVICE_NAME as IMAGE};
use proto::runtime_v1::runtime_service_server::{RuntimeServiceServer, SERVICE_NAME as RUNTIME};
use tokio::net::UnixListener;
use tokio_stream::wrappers::UnixListenerStream;
use tonic::Status;
use tonic::body::Body;
use tonic::codegen::{Service as _, http};
use tonic::transport::Server;
use tower::service_fn;

use super::Hollow;

/// The message limit of upstream's runtimes.
const MESSAGE_LIMIT: usize = 16 << 20;

/// Answers calls. Never ends. When it is dropped, it accepts no more connections; open ones end with the async
/// runtime.
pub async fn serve(hollow: Hollow, listener: UnixListener) -> Result<()> {
    let service = service_fn(move |request| {
        let hollow = hollow.clone();
        async move { Ok::<_, Infallible>(hollow.answer(request).await) }
    });
    Server::builder()
        .serve_with_incoming(service, UnixListenerStream::new(listener))
        .await
        .context("serve the CRI")
}

impl Hollow {
    async fn answer(mut self, request: http::Request<Body>) -> http::Response<Body> {
        let path = request.uri().path().to_owned();
        let mut parts = path.trim_start_matches('/').split('/');
        let (service, method) =
            (parts.next().unwrap_or_default(), parts.next().unwrap_or_default());
        match self.gate.enter(method).await {
            Ok(Duration::ZERO) => {}
            Ok(delay) => self.runtime = Arc::new(self.runtime.slower(delay)),
            Err(status) => return status.into_http(),
        }
        let answered = match service {
            RUNTIME => {
                let service = RuntimeServiceServer::new(self);
                service.max_decoding_message_size(MESSAGE_LIMIT).call(request).await
            }
            IMAGE => {
                let service = ImageServiceServer::new(self);
                service.max_decoding_message_size(MESSAGE_LIMIT).call(request).await
            }
            _ => return Status::unimplemented(format!("no service {service}")).into_http(),
        };
        match answered {
            Ok(answer) => answer,
            Err(impossible) => match impossible {},
        }
    }
}
