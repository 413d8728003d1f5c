//! Counts and times calls, with the metric names of upstream's client.

use std::time::Duration;

use prometheus::core::Collector;
use prometheus::{HistogramOpts, HistogramVec, IntCounterVec, Opts, Registry};

/// The label that replaces the status code of a call without a response.
const NO_ANSWER: &str = "<error>";
/// Upstream's buckets, in seconds.
const TIMES: [f64; 12] = [0.005, 0.025, 0.1, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 15.0, 30.0, 60.0];

/// The metrics of calls to one server.
#[derive(Debug)]
pub(crate) struct Counted {
    requests: IntCounterVec,
    times: HistogramVec,
    host: String,
}

impl Counted {
    /// Registers the metrics, for the server at `address`.
    pub(crate) fn new(registry: &Registry, address: &str) -> Result<Self, prometheus::Error> {
        let opts = Opts::new("rest_client_requests_total", "Calls to the API server.");
        let requests = IntCounterVec::new(opts, &["code", "host", "method"])?;
        let name = "rest_client_request_duration_seconds";
        let opts = HistogramOpts::new(name, "How long the API server took to answer calls.");
        let times = HistogramVec::new(opts.buckets(TIMES.to_vec()), &["host", "verb"])?;
        let metrics: [Box<dyn Collector>; 2] =
            [Box::new(requests.clone()), Box::new(times.clone())];
        for metric in metrics {
            registry.register(metric)?;
        }
        let host = address.parse::<http::Uri>().ok();
        let host = host.and_then(|uri| uri.authority().map(ToString::to_string));
        Ok(Self { requests, times, host: host.unwrap_or_default() })
    }

    /// Records a call: its status, if it got a response, and the time until the response began, without the
    /// wait for the rate limit.
    pub(crate) fn call(
        &self,
        method: &http::Method,
        status: Option<http::StatusCode>,
        took: Duration,
    ) {
        let code = status.as_ref().map_or(NO_ANSWER, http::StatusCode::as_str);
        let (host, method) = (&*self.host, method.as_str());
        self.requests.with_label_values(&[code, host, method]).inc();
        self.times.with_label_values(&[host, method]).observe(took.as_secs_f64());
    }
}
