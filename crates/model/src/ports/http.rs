//! HTTP requests.

use std::fmt;
use std::time::Duration;

use async_trait::async_trait;

/// The headers of a request, by name, each with its values. They may contain secrets, so only
/// their names are printed.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Headers(pub Vec<(String, Vec<String>)>);

impl fmt::Debug for Headers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.0.iter().map(|(name, _)| name)).finish()
    }
}

/// A request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Get {
    /// The URL: `http://` or `https://`.
    pub url: String,
    /// Headers to send.
    pub headers: Headers,
    /// The largest body to accept.
    pub limit: u64,
    /// The timeout, from the first step to the last byte.
    pub timeout: Duration,
}

/// A response, redirects followed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Answer {
    /// The status code.
    pub status: u16,
    /// The body.
    pub body: Vec<u8>,
}

/// Why there is no response.
#[derive(Debug, thiserror::Error)]
pub enum HttpError {
    /// The URL is not usable.
    #[error("unusable URL: {0}")]
    Url(&'static str),
    /// A header cannot be sent; the error does not contain its value.
    #[error("unusable header {0:?}")]
    Header(String),
    /// The server responded to TLS without TLS.
    #[error("server gave HTTP response to HTTPS client")]
    NotSecure,
    /// The request timed out.
    #[error("no response within {0:?}")]
    TooSlow(Duration),
    /// The body is too large.
    #[error("the response is larger than {0} bytes")]
    TooLarge(u64),
    /// The response is incomplete.
    #[error("the response of {server} is incomplete")]
    CutOff {
        /// Host and port.
        server: String,
        /// Why.
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// A redirect leads from https to http.
    #[error("redirect from https to http://{0} refused")]
    Downgrade(String),
    /// The server redirects too often.
    #[error("more than {0} redirects")]
    TooManyRedirects(usize),
    /// A step failed.
    #[error("{step} {server}")]
    Failed {
        /// The step: `connect to`, `request`, …
        step: &'static str,
        /// Host and port.
        server: String,
        /// Why it failed.
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
}

/// Sends HTTP requests.
#[async_trait]
pub trait HttpGet: fmt::Debug + Send + Sync {
    /// Gets a URL. A response of any status is a success.
    async fn get(&self, request: &Get) -> Result<Answer, HttpError>;
}

#[cfg(test)]
mod tests {
    use super::Headers;

    #[test]
    fn debug_output_of_headers_has_no_values() {
        let headers = Headers(vec![("authorization".into(), vec!["secret".into()])]);
        assert_eq!(format!("{headers:?}"), r#"{"authorization"}"#);
    }
}
