//! The proxy of upgraded connections: the runtime's streaming server speaks the protocol, the agent copies bytes.
//!
//! ```text
//!  client ──request──> agent ──request──> streaming server
//!         <────101──── agent <────101────                     bytes both ways until either side ends
//!         <──≥ 400──── agent <──≥ 400────                     both connections are closed
//!         <───500───── agent <── 2xx, 3xx                     the same: nothing was upgraded, no redirect is followed
//! ```

use std::net::IpAddr;
use std::time::Duration;

use http_body_util::{BodyExt as _, Collected, Empty, Limited};
use hyper::body::{Bytes, Incoming};
use hyper::client::conn::http1;
use hyper::header::{CONNECTION, HeaderValue, X_CONTENT_TYPE_OPTIONS};
use hyper::http::uri::PathAndQuery;
use hyper::upgrade::{OnUpgrade, Upgraded};
use hyper::{HeaderMap, Request, Response, StatusCode, Uri};
use hyper_util::rt::TokioIo;
use tokio::time::timeout;
use tokio_util::task::TaskTracker;
use tracing::debug;

use super::copy::copy_both;
use super::dial::{DialError, StreamTls, StreamUrl, dial};
use super::headers;
use crate::respond::{Answer, empty, error_text, whole};

/// How long the streaming server may take to accept a connection and to answer.
const PATIENCE: Duration = Duration::from_secs(30);

/// The time and size limits of a refusal's body.
const REFUSAL_PATIENCE: Duration = Duration::from_secs(10);
const LONGEST_REFUSAL: usize = 64 * 1024;

/// Why a stream was not opened.
#[derive(Debug, thiserror::Error)]
enum ProxyError {
    #[error(transparent)]
    Dial(#[from] DialError),
    #[error("the streaming server did not answer in time")]
    TooSlow,
    #[error("request to the streaming server: {0}")]
    Http(#[from] hyper::Error),
    #[error("invalid upgrade response: status code {0}")]
    NotUpgraded(u16),
}

/// Proxies upgraded connections. Their bytes are copied in tasks that outlive the request.
#[derive(Debug, Clone, Default)]
pub(crate) struct Proxy {
    tasks: TaskTracker,
}

impl Proxy {
    /// Opens the stream of a URL for the client of an upgrade request without body.
    pub(crate) async fn open(
        &self,
        url: &str,
        tls: &dyn StreamTls,
        mut request: Request<Incoming>,
        client: Option<IpAddr>,
    ) -> Answer {
        let upgrading = hyper::upgrade::on(&mut request);
        match self.request(url, tls, &request, client).await {
            Ok(answer) if answer.status() == StatusCode::SWITCHING_PROTOCOLS => {
                self.upgraded(upgrading, answer)
            }
            Ok(answer) => refusal(answer).await,
            Err(error) => refused(&error.to_string()),
        }
    }

    /// Sends the request to the streaming server: 101 or an error is returned.
    async fn request(
        &self,
        url: &str,
        tls: &dyn StreamTls,
        request: &Request<Incoming>,
        client: Option<IpAddr>,
    ) -> Result<Response<Incoming>, ProxyError> {
        let url = StreamUrl::parse(url)?;
        let bad = || DialError::BadUrl(url.path().to_owned());
        let host = HeaderValue::from_str(url.authority()).map_err(|_| bad())?;
        let mut forwarded = Request::new(Empty::<Bytes>::new());
        *forwarded.method_mut() = request.method().clone();
        *forwarded.uri_mut() = Uri::from(url.path().parse::<PathAndQuery>().map_err(|_| bad())?);
        *forwarded.headers_mut() = headers::forwarded(request.headers(), host, client);
        let answer = async {
            let stream = dial(&url, tls).await?;
            let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await?;
            // It ends with the upgrade, or when the response and the sender are dropped.
            self.tasks.spawn(async move {
                if let Err(error) = connection.with_upgrades().await {
                    debug!(%error, "Connection to the streaming server failed");
                }
            });
            Ok::<_, ProxyError>(sender.send_request(forwarded).await?)
        };
        let answer = timeout(PATIENCE, answer).await.map_err(|_| ProxyError::TooSlow)??;
        match answer.status() {
            StatusCode::SWITCHING_PROTOCOLS => Ok(answer),
            status if status.as_u16() >= 400 => Ok(answer),
            status => Err(ProxyError::NotUpgraded(status.as_u16())),
        }
    }

    /// Forwards the 101; the bytes follow once the client has received it.
    fn upgraded(&self, client: OnUpgrade, mut answer: Response<Incoming>) -> Answer {
        let runtime = hyper::upgrade::on(&mut answer);
        self.tasks.spawn(async move {
            match tokio::try_join!(client, runtime) {
                Ok((client, runtime)) => copy(client, runtime).await,
                Err(error) => debug!(%error, "Upgrade of a stream failed"),
            }
        });
        let mut forwarded = Response::new(empty());
        *forwarded.status_mut() = answer.status();
        *forwarded.headers_mut() = std::mem::take(answer.headers_mut());
        forwarded
    }
}

async fn copy(client: Upgraded, runtime: Upgraded) {
    copy_both(TokioIo::new(client), TokioIo::new(runtime)).await;
}

/// Forwards the error of the streaming server, with as much of its body as arrives in time.
async fn refusal(answer: Response<Incoming>) -> Answer {
    let (parts, body) = answer.into_parts();
    let body = timeout(REFUSAL_PATIENCE, Limited::new(body, LONGEST_REFUSAL).collect()).await;
    let body = body.ok().and_then(Result::ok).map(Collected::to_bytes);
    let mut forwarded = Response::new(whole(body.unwrap_or_default()));
    *forwarded.status_mut() = parts.status;
    *forwarded.headers_mut() = headers::of_refusal(parts.headers);
    forwarded
}

/// The response to a request without an upgrade, or with a body.
pub(crate) fn not_an_upgrade(headers: &HeaderMap) -> Option<Answer> {
    if !headers::is_upgrade(headers) {
        return Some(refused("Upgrade request required"));
    }
    let message = "an upgrade request has no body\n";
    headers::has_body(headers).then(|| closing(error_text(StatusCode::BAD_REQUEST, message)))
}

/// A stream that was not opened: the connection is closed, so that no request follows on it.
fn refused(message: &str) -> Answer {
    debug!(error = message, "Error while proxying request");
    let mut answer = error_text(StatusCode::INTERNAL_SERVER_ERROR, format!("{message}\n"));
    answer.headers_mut().insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    closing(answer)
}

fn closing(mut answer: Answer) -> Answer {
    answer.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
    answer
}
