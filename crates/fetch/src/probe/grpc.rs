//! gRPC probes: `grpc.health.v1.Health/Check`.

use std::time::Duration;

use hyper::client::conn::http2;
use hyper::header::{HeaderValue, USER_AGENT};
use hyper::{Request, Uri};
use hyper_util::rt::TokioIo;
use model::chain::Chain;
use model::go_duration;
use model::ports::probes::{self, GrpcProbe};
use model::probe::ProbeOutput;
use tokio::time::{Instant, sleep, timeout_at};
use tonic::body::Body;
use tonic::client::Grpc;
use tonic::codegen::http::uri::PathAndQuery;
use tonic::{Code, Status};
use tonic_prost::ProstCodec;
use tower::service_fn;

use super::close::ProbeStream;
use super::dial::Dialer;
use super::first_bytes::{FirstBytes, Recorded};
use super::http_connection::Tasks;
use super::text::host_port;
use super::{failure, success};

const CHECK: &str = "/grpc.health.v1.Health/Check";

/// The first pause between two attempts to connect, as in grpc-go.
const FIRST_PAUSE: Duration = Duration::from_secs(1);

/// `grpc.health.v1.HealthCheckRequest`
#[derive(Clone, PartialEq, Eq, prost::Message)]
struct HealthCheckRequest {
    #[prost(string, tag = "1")]
    service: String,
}

/// `grpc.health.v1.HealthCheckResponse`
#[derive(Clone, Copy, PartialEq, Eq, prost::Message)]
struct HealthCheckResponse {
    #[prost(int32, tag = "1")]
    status: i32,
}

/// The name of a serving status.
fn serving_status(status: i32) -> String {
    match status {
        0 => "UNKNOWN".to_owned(),
        1 => "SERVING".to_owned(),
        2 => "NOT_SERVING".to_owned(),
        3 => "SERVICE_UNKNOWN".to_owned(),
        other => other.to_string(),
    }
}

/// Calls the health service. The deadline is for the connection and the call together.
pub(super) async fn probe(dialer: &Dialer, probe: &GrpcProbe, timeout: Duration) -> ProbeOutput {
    let deadline = Instant::now() + timeout;
    let first = FirstBytes::default();
    match timeout_at(deadline, check(dialer, probe, deadline, &first)).await {
        Ok(result) => verdict(result, timeout),
        Err(_) if is_settings(&first.get()) => verdict(Err(Status::deadline_exceeded("")), timeout),
        Err(_) => {
            let address = host_port(&probe.host, probe.port);
            let limit = go_duration::milliseconds(timeout);
            failure(format!(
                "timeout: failed to connect service \"{address}\" within {limit}: context deadline exceeded"
            ))
        }
    }
}

/// Whether a server began with an HTTP/2 SETTINGS frame. Until then grpc-go does not count as connected.
fn is_settings(first: &[u8]) -> bool {
    const FRAME_TYPE: usize = 3;
    const SETTINGS: u8 = 4;
    first.get(FRAME_TYPE) == Some(&SETTINGS)
}

/// The result of the call. Like grpc-go it connects again and again until a server speaks HTTP/2, and calls once.
async fn check(
    dialer: &Dialer,
    probe: &GrpcProbe,
    deadline: Instant,
    first: &FirstBytes,
) -> Result<i32, Status> {
    let mut pause = FIRST_PAUSE;
    loop {
        first.clear();
        if let Ok(stream) = dialer.dial(&probe.host, probe.port, deadline).await {
            let left = deadline.saturating_duration_since(Instant::now());
            let result = call(Recorded::new(stream, first.clone()), probe, left).await;
            if is_settings(&first.get()) {
                return result;
            }
        }
        sleep(pause).await;
        pause = pause.mul_f32(1.6);
    }
}

async fn call(
    stream: Recorded<ProbeStream>,
    probe: &GrpcProbe,
    left: Duration,
) -> Result<i32, Status> {
    let unavailable = |error: hyper::Error| Status::unavailable(Chain(&error).to_string());
    let tasks = Tasks::default();
    let handshake = http2::handshake(tasks.spawner(), TokioIo::new(stream)).await;
    let (sender, connection) = handshake.map_err(unavailable)?;
    tasks.spawn(async move {
        connection.await.ok();
    });
    let service = service_fn(move |mut request: Request<Body>| {
        let mut sender = sender.clone();
        request.headers_mut().insert(USER_AGENT, HeaderValue::from_static(probes::USER_AGENT));
        async move { sender.send_request(request).await.map_err(unavailable) }
    });
    let authority = host_port(&probe.host, probe.port);
    let origin = Uri::builder().scheme("http").authority(authority).path_and_query("/").build();
    let origin = origin.map_err(|error| Status::internal(error.to_string()))?;
    let mut request = tonic::Request::new(HealthCheckRequest { service: probe.service.clone() });
    request.set_timeout(left);
    let codec = ProstCodec::<HealthCheckRequest, HealthCheckResponse>::default();
    let mut client = Grpc::with_origin(service, origin);
    let response = client.unary(request, PathAndQuery::from_static(CHECK), codec).await?;
    Ok(response.into_inner().status)
}

fn verdict(result: Result<i32, Status>, timeout: Duration) -> ProbeOutput {
    const SERVING: i32 = 1;
    match result {
        Ok(SERVING) => success("service healthy"),
        Ok(status) => {
            let status = serving_status(status);
            failure(format!("service unhealthy (responded with \"{status}\")"))
        }
        Err(status) if status.code() == Code::Unimplemented => failure(format!(
            "error: this server does not implement the grpc health protocol (grpc.health.v1.Health): {}",
            status.message()
        )),
        Err(status) if status.code() == Code::DeadlineExceeded => failure(format!(
            "timeout: health rpc did not complete within {}",
            go_duration::milliseconds(timeout)
        )),
        Err(status) => failure(format!(
            "error: health rpc probe failed: rpc error: code = {} desc = {}",
            code_name(status.code()),
            status.message()
        )),
    }
}

/// The name of a code in Go.
fn code_name(code: Code) -> String {
    match code {
        Code::Ok => "OK".to_owned(),
        Code::Cancelled => "Canceled".to_owned(),
        code => format!("{code:?}"),
    }
}

#[cfg(test)]
mod tests {
    use model::probe::ProbeVerdict;

    use super::*;

    #[test]
    fn verdicts_have_the_texts_of_upstream() {
        let limit = Duration::from_secs(1);
        assert_eq!(verdict(Ok(1), limit), success("service healthy"));
        let rows = [
            (Ok(0), "service unhealthy (responded with \"UNKNOWN\")"),
            (Ok(2), "service unhealthy (responded with \"NOT_SERVING\")"),
            (Ok(3), "service unhealthy (responded with \"SERVICE_UNKNOWN\")"),
            (Ok(7), "service unhealthy (responded with \"7\")"),
            (
                Err(Status::unimplemented("unknown service")),
                "error: this server does not implement the grpc health protocol \
                 (grpc.health.v1.Health): unknown service",
            ),
            (
                Err(Status::deadline_exceeded("late")),
                "timeout: health rpc did not complete within 1s",
            ),
            (
                Err(Status::not_found("unknown service")),
                "error: health rpc probe failed: rpc error: code = NotFound desc = unknown service",
            ),
            (
                Err(Status::cancelled("x")),
                "error: health rpc probe failed: rpc error: code = Canceled desc = x",
            ),
        ];
        for (result, expected) in rows {
            let output = verdict(result, limit);
            assert_eq!(output.verdict, ProbeVerdict::Failure);
            assert_eq!(output.output, expected);
        }
    }
}
