//! A gRPC service behind a socket: connections and calls.

use hyper_util::rt::TokioIo;
use model::ports::runtime::RuntimeError;
use tokio::net::UnixStream;
use tokio::time::Instant;
use tonic::transport::{Channel, Uri};
use tonic::{IntoRequest, Request, Response, Status};
use tower::service_fn;

use crate::deadline::{self, Deadlines};
use crate::endpoint::Endpoint;
use crate::error::Call;
use crate::operations::Operations;

/// A generated client with the inputs of calls.
#[derive(Debug, Clone)]
pub(crate) struct Service<C> {
    pub(crate) client: C,
    pub(crate) endpoint: Endpoint,
    pub(crate) deadlines: Deadlines,
    /// The call metrics, if calls are counted.
    pub(crate) operations: Option<Operations>,
}

impl<C: Clone> Service<C> {
    /// Makes a call with the deadline of its class.
    pub(crate) async fn call<M, A>(
        &self,
        call: Call<'_>,
        message: M,
        method: impl AsyncFnOnce(&mut C, Request<M>) -> Result<Response<A>, Status>,
    ) -> Result<A, RuntimeError> {
        let mut client = self.client.clone();
        let mut request = message.into_request();
        let failed = |status| call.failed(&status, &self.endpoint);
        let deadline = self.deadlines.of(call.class);
        request.set_timeout(deadline::sent(deadline));
        let start = Instant::now();
        let answer = match tokio::time::timeout(deadline, method(&mut client, request)).await {
            Ok(Ok(answer)) => Ok(answer.into_inner()),
            // After the deadline the timer should have fired, but the process was delayed. The errors of late
            // calls by the runtime and the transport vary, so they are replaced.
            Ok(Err(status)) if start.elapsed() < deadline => Err(failed(status)),
            Ok(Err(_)) | Err(_) => Err(call.too_slow()),
        };
        if let Some(operations) = &self.operations {
            operations.done(call.method, answer.is_err(), start.elapsed());
        }
        answer
    }
}

/// Connects on first use, and again after a broken connection.
pub(crate) fn channel(endpoint: &Endpoint) -> Channel {
    let path = endpoint.path().to_owned();
    // Unused: the connector connects to the socket.
    let address = Uri::from_static("http://localhost");
    Channel::builder(address).connect_with_connector_lazy(service_fn(move |_: Uri| {
        let path = path.clone();
        async move { UnixStream::connect(path).await.map(TokioIo::new) }
    }))
}
