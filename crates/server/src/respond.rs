//! Responses.

use std::convert::Infallible;
use std::error::Error;

use futures_util::{Stream, TryStreamExt as _};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt as _, Empty, Full, StreamBody};
use hyper::body::{Bytes, Frame};
use hyper::header::{CONTENT_TYPE, HeaderValue};
use hyper::{Response, StatusCode};
use serde::Serialize;

use crate::wire::Problem;

/// Why a response is cut off.
pub type BrokenOff = Box<dyn Error + Send + Sync>;

/// A response.
pub type Answer = Response<UnsyncBoxBody<Bytes, BrokenOff>>;

/// Prometheus metrics as text.
pub(crate) const METRICS: HeaderValue =
    HeaderValue::from_static("text/plain; version=0.0.4; charset=utf-8");
/// Text for people.
pub(crate) const TEXT: HeaderValue = HeaderValue::from_static("text/plain; charset=utf-8");
pub(crate) const JSON: HeaderValue = HeaderValue::from_static("application/json");

pub(crate) fn answer(
    status: StatusCode,
    content_type: HeaderValue,
    body: UnsyncBoxBody<Bytes, BrokenOff>,
) -> Answer {
    let mut answer = Response::new(body);
    *answer.status_mut() = status;
    answer.headers_mut().insert(CONTENT_TYPE, content_type);
    answer
}

/// A body without content.
pub(crate) fn empty() -> UnsyncBoxBody<Bytes, BrokenOff> {
    Empty::new().map_err(|never: Infallible| match never {}).boxed_unsync()
}

pub(crate) fn whole(content: impl Into<Bytes>) -> UnsyncBoxBody<Bytes, BrokenOff> {
    Full::new(content.into()).map_err(|never: Infallible| match never {}).boxed_unsync()
}

pub(crate) fn text(status: StatusCode, content_type: HeaderValue, text: String) -> Answer {
    answer(status, content_type, whole(text))
}

pub(crate) fn json(status: StatusCode, content: &impl Serialize) -> Answer {
    match serde_json::to_vec(content) {
        Ok(bytes) => answer(status, JSON, whole(bytes)),
        Err(error) => problem(StatusCode::INTERNAL_SERVER_ERROR, error.to_string()),
    }
}

/// A JSON error.
pub(crate) fn problem(status: StatusCode, message: impl Into<String>) -> Answer {
    let problem = Problem { message: message.into() };
    let bytes = serde_json::to_vec(&problem).expect("a text is always JSON");
    answer(status, JSON, whole(bytes))
}

/// A plain text error, as in upstream's API.
pub(crate) fn error_text(status: StatusCode, message: impl Into<String>) -> Answer {
    text(status, TEXT, message.into())
}

/// A stream of JSON lines. The next ones are requested when the reader has room.
pub(crate) fn json_lines(
    lines: impl Stream<Item = Result<Vec<u8>, BrokenOff>> + Send + 'static,
) -> Answer {
    let frames = lines.map_ok(|bytes| Frame::data(Bytes::from(bytes)));
    answer(StatusCode::OK, JSON, StreamBody::new(frames).boxed_unsync())
}

/// A stream of text.
pub(crate) fn text_stream(
    pieces: impl Stream<Item = Result<Vec<u8>, BrokenOff>> + Send + 'static,
) -> Answer {
    let frames = pieces.map_ok(|bytes| Frame::data(Bytes::from(bytes)));
    answer(StatusCode::OK, TEXT, StreamBody::new(frames).boxed_unsync())
}
