//! `kubelet_http_*`: requests, their duration, and those in progress.

use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use http_body_util::BodyExt as _;
use http_body_util::combinators::UnsyncBoxBody;
use hyper::body::{Body, Bytes, Frame, SizeHint};
use prometheus::{
    DEFAULT_BUCKETS, HistogramOpts, HistogramVec, IntCounterVec, IntGaugeVec, Opts, Registry,
};
use tokio::time::{Instant, Sleep, sleep};

use crate::decide::RequestLabels;
use crate::respond::{Answer, BrokenOff};

/// The time limit of an answer. Connections that were upgraded have none.
const LONGEST: Duration = Duration::from_hours(4);

const LABELS: [&str; 4] = ["method", "path", "server_type", "long_running"];

/// The metrics of all ports.
#[derive(Debug, Clone)]
pub struct HttpMetrics {
    requests: IntCounterVec,
    durations: HistogramVec,
    in_progress: IntGaugeVec,
}

impl HttpMetrics {
    /// Registers the metrics.
    pub fn new(registry: &Registry) -> prometheus::Result<Self> {
        let requests = IntCounterVec::new(
            Opts::new(
                "kubelet_http_requests_total",
                "[ALPHA] Number of the http requests received since the server started",
            ),
            &LABELS,
        )?;
        let durations = HistogramVec::new(
            HistogramOpts::new(
                "kubelet_http_requests_duration_seconds",
                "[ALPHA] Duration in seconds to serve http requests",
            )
            .buckets(DEFAULT_BUCKETS.to_vec()),
            &LABELS,
        )?;
        let in_progress = IntGaugeVec::new(
            Opts::new(
                "kubelet_http_inflight_requests",
                "[ALPHA] Number of the inflight http requests",
            ),
            &LABELS,
        )?;
        registry.register(Box::new(requests.clone()))?;
        registry.register(Box::new(durations.clone()))?;
        registry.register(Box::new(in_progress.clone()))?;
        Ok(Self { requests, durations, in_progress })
    }

    /// Counts a request and measures it until the result is dropped.
    pub(super) fn begin(&self, labels: RequestLabels, server: &'static str) -> Measured {
        let values = [labels.method, labels.path, server, labels.long_running];
        self.requests.with_label_values(&values).inc();
        self.in_progress.with_label_values(&values).inc();
        Measured { metrics: self.clone(), values, began: Instant::now() }
    }
}

/// A request in progress.
#[derive(Debug)]
pub(super) struct Measured {
    metrics: HttpMetrics,
    values: [&'static str; 4],
    began: Instant,
}

impl Drop for Measured {
    fn drop(&mut self) {
        self.metrics.in_progress.with_label_values(&self.values).dec();
        let took = self.began.elapsed().as_secs_f64();
        self.metrics.durations.with_label_values(&self.values).observe(took);
    }
}

/// An answer that is measured until its body was sent, and that ends at its time limit.
pub(super) fn measured(answer: Answer, measured: Measured) -> Answer {
    with_guard(answer, (measured, ()))
        .map(|body| Timed { body, end: Box::pin(sleep(LONGEST)) }.boxed_unsync())
}

/// An answer with a value that is dropped when its body was sent.
pub(super) fn with_guard<G: Send + Unpin + 'static>(answer: Answer, guard: G) -> Answer {
    answer.map(|body| Guarded { body, _guard: guard }.boxed_unsync())
}

type AnswerBody = UnsyncBoxBody<Bytes, BrokenOff>;

/// A body with a value that is dropped with it.
struct Guarded<G> {
    body: AnswerBody,
    _guard: G,
}

impl<G: Unpin> Body for Guarded<G> {
    type Data = Bytes;
    type Error = BrokenOff;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BrokenOff>>> {
        Pin::new(&mut self.body).poll_frame(context)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

/// A body that ends at a time limit.
struct Timed {
    body: AnswerBody,
    end: Pin<Box<Sleep>>,
}

impl Body for Timed {
    type Data = Bytes;
    type Error = BrokenOff;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BrokenOff>>> {
        if let Poll::Ready(frame) = Pin::new(&mut self.body).poll_frame(context) {
            return Poll::Ready(frame);
        }
        self.end.as_mut().poll(context).map(|()| Some(Err("the answer took too long".into())))
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
