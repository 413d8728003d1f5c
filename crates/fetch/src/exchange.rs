//! One request and its response.

use std::net::SocketAddr;
use std::time::Duration;

use blocking::Resolver;
use http_body_util::{BodyExt as _, Empty};
use hyper::body::{Bytes, Incoming};
use hyper::client::conn::http1;
use hyper::header::{AUTHORIZATION, CONNECTION, HOST, HeaderValue, LOCATION};
use hyper::rt::{Read, Write};
use hyper::{HeaderMap, Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use model::ports::http::{Answer, HttpError};
use tokio::net::TcpStream;
use tokio::task::JoinSet;

use crate::target::Target;
use crate::tls::{Tls, is_plain};

/// The timeout of a name lookup.
const LOOKUP: Duration = Duration::from_secs(10);

/// The response of a server.
#[derive(Debug)]
pub(crate) enum Outcome {
    Answer(Answer),
    /// A redirect to this location, with this status.
    Redirect(String, u16),
}

/// Sends one request.
pub(crate) async fn exchange(
    target: &Target,
    headers: &HeaderMap,
    limit: u64,
    tls: &Tls,
    names: &Resolver,
) -> Result<Outcome, HttpError> {
    let request = request(target, headers)?;
    let found = names.resolve(&target.host, LOOKUP).await;
    let found = found.map_err(|source| failed("connect to", target, source))?;
    let addresses: Vec<_> = found.into_iter().map(|ip| SocketAddr::new(ip, target.port)).collect();
    let stream = TcpStream::connect(&*addresses).await;
    let stream = stream.map_err(|source| failed("connect to", target, source))?;
    if !target.is_secure {
        return send_request(TokioIo::new(stream), request, limit, target).await;
    }
    let stream = match tls.secure(stream, &target.host).await {
        Ok(stream) => stream,
        Err(failure) if is_plain(&failure) => return Err(HttpError::NotSecure),
        Err(failure) => return Err(failed("make a secure connection to", target, failure)),
    };
    send_request(TokioIo::new(stream), request, limit, target).await
}

fn failed<E>(step: &'static str, target: &Target, source: E) -> HttpError
where
    E: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    HttpError::Failed { step, server: target.server(), source: source.into() }
}

fn request(target: &Target, headers: &HeaderMap) -> Result<Request<Empty<Bytes>>, HttpError> {
    let mut request = Request::new(Empty::new());
    *request.uri_mut() =
        target.path.parse().map_err(|_| HttpError::Url("its path cannot be asked for"))?;
    *request.headers_mut() = headers.clone();
    let host = HeaderValue::from_str(&target.authority);
    let host = host.map_err(|_| HttpError::Url("its host cannot be named"))?;
    request.headers_mut().insert(HOST, host);
    request.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
    if let Some(authorization) = &target.authorization {
        request.headers_mut().entry(AUTHORIZATION).or_insert_with(|| authorization.clone());
    }
    Ok(request)
}

async fn send_request(
    stream: impl Read + Write + Unpin + Send + 'static,
    request: Request<Empty<Bytes>>,
    limit: u64,
    target: &Target,
) -> Result<Outcome, HttpError> {
    let handshake = http1::handshake(stream).await;
    let (mut sender, connection) = handshake.map_err(|source| failed("talk to", target, source))?;
    // Ends with the request, which receives its errors.
    let mut driver = JoinSet::new();
    driver.spawn(async move { connection.await.ok() });
    let response = sender.send_request(request).await;
    let response = response.map_err(|source| failed("request", target, source))?;
    match redirect(&response) {
        Some(location) => Ok(Outcome::Redirect(location, response.status().as_u16())),
        None => read(response, limit, target).await.map(Outcome::Answer),
    }
}

/// The location of a redirect. A redirect without one is an ordinary response.
fn redirect(response: &Response<Incoming>) -> Option<String> {
    let is_redirect = matches!(
        response.status(),
        StatusCode::MOVED_PERMANENTLY
            | StatusCode::FOUND
            | StatusCode::SEE_OTHER
            | StatusCode::TEMPORARY_REDIRECT
            | StatusCode::PERMANENT_REDIRECT
    );
    let location = response.headers().get(LOCATION).filter(|_| is_redirect)?;
    location.to_str().ok().filter(|location| !location.is_empty()).map(str::to_owned)
}

async fn read(
    response: Response<Incoming>,
    limit: u64,
    target: &Target,
) -> Result<Answer, HttpError> {
    let status = response.status().as_u16();
    let mut incoming = response.into_body();
    let mut body = Vec::new();
    while let Some(frame) = incoming.frame().await {
        let frame = frame.map_err(|source| HttpError::CutOff {
            server: target.server(),
            source: source.into(),
        })?;
        // Trailers are ignored.
        let Ok(data) = frame.into_data() else { continue };
        if (body.len() + data.len()) as u64 > limit {
            return Err(HttpError::TooLarge(limit));
        }
        body.extend_from_slice(&data);
    }
    Ok(Answer { status, body })
}
