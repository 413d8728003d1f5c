//! Getting things over HTTP.

use std::fmt;
use std::time::Duration;

use async_trait::async_trait;

/// The headers of a request, by name, each with its values. They may hold secrets, so they print as
/// their names alone.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Headers(pub Vec<(String, Vec<String>)>);

impl fmt::Debug for Headers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.0.iter().map(|(name, _)| name)).finish()
    }
}

/// What to get.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Get {
    /// From where: `http://` or `https://`.
    pub url: String,
    /// Headers to send.
    pub headers: Headers,
    /// The largest body to accept.
    pub limit: u64,
    /// The longest time it may take, from the first step to the last byte.
    pub timeout: Duration,
}

/// What a server said, redirects followed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Answer {
    /// The status code.
    pub status: u16,
    /// The body.
    pub body: Vec<u8>,
}

/// Why there is no answer.
#[derive(Debug, thiserror::Error)]
pub enum HttpError {
    /// It cannot be asked for.
    #[error("unusable URL: {0}")]
    Url(&'static str),
    /// A header cannot be sent; its value stays unsaid.
    #[error("unusable header {0:?}")]
    Header(String),
    /// The server was asked over TLS and answered without.
    #[error("server gave HTTP response to HTTPS client")]
    NotSecure,
    /// It took too long.
    #[error("no answer within {0:?}")]
    TooSlow(Duration),
    /// The body has too many bytes.
    #[error("the answer is larger than {0} bytes")]
    TooLarge(u64),
    /// It began to answer, and did not come to an end.
    #[error("the answer of {server} breaks off")]
    CutOff {
        /// Whose: host and port.
        server: String,
        /// Why.
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// A redirect leads from https to http.
    #[error("redirect from https to http://{0} refused")]
    Downgrade(String),
    /// The server sends us in circles.
    #[error("more than {0} redirects")]
    TooManyRedirects(usize),
    /// A step failed.
    #[error("{step} {server}")]
    Failed {
        /// What was tried: `connect to`, `ask`, …
        step: &'static str,
        /// Whom: host and port.
        server: String,
        /// Why it failed.
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
}

/// Asks servers.
#[async_trait]
pub trait HttpGet: fmt::Debug + Send + Sync {
    /// Gets what a URL gives. An answer of any status is one.
    async fn get(&self, request: &Get) -> Result<Answer, HttpError>;
}

#[cfg(test)]
mod tests {
    use super::Headers;

    #[test]
    fn headers_print_without_their_values() {
        let headers = Headers(vec![("authorization".into(), vec!["secret".into()])]);
        assert_eq!(format!("{headers:?}"), r#"{"authorization"}"#);
    }
}
