//! HTTP requests: the implementation of the port.
//!
//! Inputs: URLs and headers from the configuration. Outputs: responses.
//!
//! Invariants:
//! - time and size of a response are limited by the request;
//! - at most nine redirects are followed, as in Go's client, but never from https to http, and configured
//!   headers are sent only to the configured host; requests to pods follow redirects only within the host, and
//!   any other redirect is their response;
//! - each request has its own connection, which is closed after the response.
//!
//! [`ProbeDialer`] sends network probes of containers, with different rules.

mod exchange;
mod probe;
mod target;
mod tls;

use async_trait::async_trait;
use blocking::Resolver;
use hyper::HeaderMap;
use hyper::header::{
    AUTHORIZATION, COOKIE, HeaderName, HeaderValue, PROXY_AUTHENTICATE, PROXY_AUTHORIZATION,
    USER_AGENT, WWW_AUTHENTICATE,
};
use model::ports::http::{Answer, Get, Headers, HttpError, HttpGet};
use tokio::time::timeout;

use exchange::{Outcome, exchange};
pub use probe::ProbeDialer;
use target::Target;
pub use tls::SystemTls;
use tls::Tls;

/// The limit of requests in a redirect chain.
const MOST_REQUESTS: usize = 10;

/// Headers that cannot be configured.
const NOT_TO_SET: [&str; 5] =
    ["host", "content-length", "transfer-encoding", "trailer", "connection"];

/// Headers with secrets.
const SECRETS: [HeaderName; 5] =
    [AUTHORIZATION, COOKIE, PROXY_AUTHENTICATE, PROXY_AUTHORIZATION, WWW_AUTHENTICATE];

/// Sends requests.
#[derive(Debug)]
pub struct Fetcher {
    user_agent: HeaderValue,
    tls: Tls,
    /// Whether redirects to other hosts are refused.
    stays: bool,
    names: Resolver,
}

impl Fetcher {
    /// A fetcher with this user agent, which trusts the authorities of the system.
    pub fn new(user_agent: &'static str) -> Self {
        Self::with(user_agent, Tls::default())
    }

    /// A fetcher that trusts only these authorities, as DER certificates.
    pub fn trusting(user_agent: &'static str, authorities: Vec<Vec<u8>>) -> Self {
        Self::with(user_agent, Tls::trusting(authorities))
    }

    /// A fetcher that accepts any certificate: for containers of this node's pods, which mostly have
    /// self-signed ones. It follows no redirect to another host, because the node may reach hosts
    /// that pods cannot.
    pub fn trusting_any_server(user_agent: &'static str) -> Self {
        Self { stays: true, ..Self::with(user_agent, Tls::trusting_any_server()) }
    }

    fn with(user_agent: &'static str, tls: Tls) -> Self {
        Self {
            user_agent: HeaderValue::from_static(user_agent),
            tls,
            stays: false,
            names: Resolver::default(),
        }
    }

    async fn follow(&self, request: &Get) -> Result<Answer, HttpError> {
        let first = Target::parse(&request.url)?;
        let mut headers = self.headers(&request.headers)?;
        let mut target = first.clone();
        for _ in 0..MOST_REQUESTS {
            let answer = exchange(&target, &headers, request.limit, &self.tls, &self.names).await?;
            let (next, status) = match answer {
                Outcome::Answer(answer) => return Ok(answer),
                Outcome::Redirect(location, status) => (target.join(&location)?, status),
            };
            let is_downgrade = target.is_secure && !next.is_secure;
            match (self.stays, next.has_host_of(&first)) {
                (true, false) => return Ok(Answer { status, body: Vec::new() }),
                // Any host between client and server can change a response in plain text.
                (false, _) if is_downgrade => return Err(HttpError::Downgrade(next.server())),
                // Permanently: a later redirect may lead back to the first host, but was chosen by
                // another host.
                (false, false) => headers = self.headers(&Headers::default())?,
                (true, true) if is_downgrade => SECRETS.iter().for_each(|name| {
                    headers.remove(name);
                }),
                _ => {}
            }
            target = next;
        }
        Err(HttpError::TooManyRedirects(MOST_REQUESTS))
    }

    fn headers(&self, wanted: &Headers) -> Result<HeaderMap, HttpError> {
        let mut headers = HeaderMap::new();
        for (name, values) in &wanted.0 {
            let refused = || HttpError::Header(name.clone());
            if NOT_TO_SET.iter().any(|ours| name.eq_ignore_ascii_case(ours)) {
                continue;
            }
            let key = HeaderName::from_bytes(name.as_bytes()).map_err(|_| refused())?;
            for value in values {
                let mut value = HeaderValue::from_str(value).map_err(|_| refused())?;
                value.set_sensitive(true);
                headers.append(key.clone(), value);
            }
        }
        headers.entry(USER_AGENT).or_insert_with(|| self.user_agent.clone());
        Ok(headers)
    }
}

#[async_trait]
impl HttpGet for Fetcher {
    async fn get(&self, request: &Get) -> Result<Answer, HttpError> {
        let answer = timeout(request.timeout, self.follow(request)).await;
        answer.unwrap_or(Err(HttpError::TooSlow(request.timeout)))
    }
}
