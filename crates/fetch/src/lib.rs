//! Getting things over HTTP: the real side of the port.
//!
//! Input: URLs and headers from the configuration. Output: what the server says.
//!
//! Invariants:
//! - no answer takes longer or is larger than asked for;
//! - at most nine redirects are followed, as Go's client does, but never from https to http, and the headers of the
//!   configuration go to the configured host alone; requests to pods follow redirects to the same host only, and
//!   any other is their answer;
//! - each request has a connection of its own, which is gone when the answer is there.
//!
//! [`ProbeDialer`] sends the network probes of containers, by rules of their own.

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

/// The request that would come after this many is not made.
const MOST_REQUESTS: usize = 10;

/// Headers that are ours to send, whatever the configuration says.
const NOT_TO_SET: [&str; 5] =
    ["host", "content-length", "transfer-encoding", "trailer", "connection"];

/// Headers that hold secrets.
const SECRETS: [HeaderName; 5] =
    [AUTHORIZATION, COOKIE, PROXY_AUTHENTICATE, PROXY_AUTHORIZATION, WWW_AUTHENTICATE];

/// Asks servers on the network.
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

    /// One that trusts these authorities alone, as DER certificates.
    pub fn trusting(user_agent: &'static str, authorities: Vec<Vec<u8>>) -> Self {
        Self::with(user_agent, Tls::trusting(authorities))
    }

    /// One that does not ask who vouches for a server: for the containers of this node's own pods,
    /// whose certificates are mostly their own. They send it to no other host: it can reach what they cannot.
    pub fn trusting_anybody(user_agent: &'static str) -> Self {
        Self { stays: true, ..Self::with(user_agent, Tls::trusting_anybody()) }
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
                // Any host on the way could have written what is served in plain text.
                (false, _) if is_downgrade => return Err(HttpError::Downgrade(next.server())),
                // For good: the way may lead back, and then it is not ours any more.
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
