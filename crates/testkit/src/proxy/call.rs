//! Handles a call.

use std::sync::Arc;
use std::time::Duration;

use http_body_util::{BodyExt, Empty, Full};
use hyper::body::{Frame, Incoming};
use hyper::header::{CONTENT_TYPE, HeaderMap, HeaderValue};
use hyper::{Request, Response};
use jiff::Timestamp;
use tokio::sync::watch;
use tonic::Code;

use super::Script;
use super::count::Count;
use super::fault::Kind;
use super::relay::{AgentConnection, Body};
use super::script::RegisteredCall;
use crate::methods::of_path;

/// The trailer with the status of a call.
const STATUS: &str = "grpc-status";

/// The header with the deadline of the client.
const DEADLINE: &str = "grpc-timeout";

impl AgentConnection {
    /// Forwards a call, or applies the fault of the script.
    pub(super) async fn answer(
        self,
        request: Request<Incoming>,
    ) -> Result<Response<Body>, hyper::Error> {
        let arrived = self.script.arrived(of_path(request.uri().path()), now());
        let RegisteredCall { method, fault, mut cleared } = arrived;
        let Some(fault) = fault else { return self.pass(method, request).await };
        if fault.kind == Kind::Late {
            self.forward_detached(method, request, fault.after).await?;
            changed(&mut cleared).await;
            return Ok(refusal(Code::Unavailable, method));
        }
        if !fault.after.is_zero() {
            tokio::time::sleep(fault.after).await;
        }
        match fault.kind {
            Kind::Unavailable => Ok(refusal(Code::Unavailable, method)),
            Kind::NotFound => Ok(refusal(Code::NotFound, method)),
            Kind::Deadline => Ok(refusal(Code::DeadlineExceeded, method)),
            Kind::TooLarge => Ok(refusal(Code::ResourceExhausted, method)),
            Kind::Hang | Kind::Late => {
                changed(&mut cleared).await;
                self.pass(method, request).await
            }
        }
    }

    /// Forwards a call and its response unchanged. Dropping the future cancels the call, as the agent would
    /// have done itself.
    async fn pass(
        mut self,
        method: &'static str,
        request: Request<Incoming>,
    ) -> Result<Response<Body>, hyper::Error> {
        let script = Arc::clone(&self.script);
        let request = request.map(|body| counted(body, &script, method, |c| &mut c.request_bytes));
        let answer = self.runtime.send_request(request).await?;
        // A response without a message has its status in the headers.
        note(&script, method, answer.headers());
        Ok(answer.map(|body| counted(body, &script, method, |c| &mut c.answer_bytes)))
    }

    /// Forwards a call so that it is finished even if its client disconnects, and drops the response.
    async fn forward_detached(
        &self,
        method: &'static str,
        request: Request<Incoming>,
        after: Duration,
    ) -> Result<(), hyper::Error> {
        let (mut head, body) = request.into_parts();
        head.headers.remove(DEADLINE);
        let body = body.collect().await?.to_bytes();
        self.script.count(method, |count| count.request_bytes += body.len() as u64);
        let request =
            Request::from_parts(head, Full::new(body).map_err(|never| match never {}).boxed());
        let under_way = LateCallGuard::begin(&self.script);
        let mut runtime = self.runtime.clone();
        self.finish(async move {
            let _under_way = under_way;
            tokio::time::sleep(after).await;
            // The response headers arrive when the runtime is done.
            drop(runtime.send_request(request).await);
        });
        Ok(())
    }
}

/// A late call in progress.
#[derive(Debug)]
struct LateCallGuard(Arc<Script>);

impl LateCallGuard {
    fn begin(script: &Arc<Script>) -> Self {
        script.late_begins();
        Self(Arc::clone(script))
    }
}

impl Drop for LateCallGuard {
    fn drop(&mut self) {
        self.0.late_ends();
    }
}

#[allow(clippy::disallowed_methods, reason = "others compare its times with their own clock")]
fn now() -> Timestamp {
    Timestamp::now()
}

/// Waits until the faults are cleared; for ever if the control socket is gone.
async fn changed(cleared: &mut watch::Receiver<u64>) {
    if cleared.changed().await.is_err() {
        std::future::pending::<()>().await;
    }
}

/// A body whose bytes are counted while they are forwarded.
fn counted(
    body: Incoming,
    script: &Arc<Script>,
    method: &'static str,
    bytes: fn(&mut Count) -> &mut u64,
) -> Body {
    let script = Arc::clone(script);
    let count = move |frame: Frame<_>| {
        let length = frame.data_ref().map_or(0, |data: &hyper::body::Bytes| data.len() as u64);
        script.count(method, |count| *bytes(count) += length);
        if let Some(trailers) = frame.trailers_ref() {
            note(&script, method, trailers);
        }
        frame
    };
    body.map_frame(count).boxed()
}

/// Records the status of a response, if these headers have it.
fn note(script: &Script, method: &'static str, headers: &HeaderMap) {
    if headers.get(STATUS).is_some_and(|status| status == "0") {
        script.is_done(method, now());
    }
}

/// A failure in gRPC's form: a response with headers only.
fn refusal(code: Code, method: &'static str) -> Response<Body> {
    let mut answer = Response::new(Empty::new().map_err(|never| match never {}).boxed());
    let message = format!("cri-proxy injected a failure of {method}");
    let message = HeaderValue::from_str(&message).expect("names of methods are plain letters");
    let headers = answer.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/grpc"));
    headers.insert(STATUS, HeaderValue::from(i32::from(code)));
    headers.insert("grpc-message", message);
    answer
}
