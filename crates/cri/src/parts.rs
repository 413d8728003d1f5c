//! Lists that are too large for one message, in parts.

use model::ports::runtime::RuntimeError;
use tonic::{Request, Response, Status, Streaming};

use crate::error::Call;
use crate::service::Service;

/// All parts of a streamed answer, which must be whole before the deadline of the call.
pub(crate) async fn parts<C: Clone, M, P>(
    service: &Service<C>,
    call: Call<'_>,
    request: M,
    method: impl AsyncFnOnce(&mut C, Request<M>) -> Result<Response<Streaming<P>>, Status>,
) -> Result<Vec<P>, RuntimeError> {
    let deadline = service.deadlines.of(call.class);
    let reading = async {
        let mut stream = service.call(call, request, method).await?;
        let mut parts = Vec::new();
        loop {
            match stream.message().await {
                Ok(Some(part)) => parts.push(part),
                Ok(None) => return Ok(parts),
                Err(status) => return Err(call.failed(&status, &service.endpoint)),
            }
        }
    };
    let read = tokio::time::timeout(deadline, reading).await;
    read.unwrap_or_else(|_| Err(call.too_slow(deadline)))
}
