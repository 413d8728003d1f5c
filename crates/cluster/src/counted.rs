//! Calls, counted under the names that upstream's client gives them.

use prometheus::{IntCounterVec, Opts, Registry};

/// What is counted instead of a status when there was no answer.
const NO_ANSWER: &str = "<error>";

/// The metrics of calls to one server.
#[derive(Debug)]
pub(crate) struct Counted {
    requests: IntCounterVec,
    host: String,
}

impl Counted {
    /// In the given registry, for the server at an address.
    pub(crate) fn new(registry: &Registry, address: &str) -> Result<Self, prometheus::Error> {
        let opts = Opts::new("rest_client_requests_total", "Calls to the API server.");
        let requests = IntCounterVec::new(opts, &["code", "host", "method"])?;
        registry.register(Box::new(requests.clone()))?;
        let host = address.parse::<http::Uri>().ok();
        let host = host.and_then(|uri| uri.authority().map(ToString::to_string));
        Ok(Self { requests, host: host.unwrap_or_default() })
    }

    /// One call; with which status it was answered, if it was.
    pub(crate) fn call(&self, method: &http::Method, status: Option<http::StatusCode>) {
        let code = status.as_ref().map_or(NO_ANSWER, http::StatusCode::as_str);
        self.requests.with_label_values(&[code, &self.host, method.as_str()]).inc();
    }
}
