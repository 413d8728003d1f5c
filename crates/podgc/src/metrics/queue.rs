//! Upstream's workqueue metrics, for node names that pods have and the cache lacks.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use prometheus::core::{Collector, Desc};
use prometheus::proto::MetricFamily;
use prometheus::{
    Gauge, GaugeVec, Histogram, HistogramOpts, HistogramVec, IntCounter, IntCounterVec, IntGauge,
    IntGaugeVec, Opts, Registry,
};
use tokio::time::Instant;

use super::registered;

/// The name of the queue.
const QUEUE: &str = "orphaned_pods_nodes";

/// The metrics.
#[derive(Debug, Clone)]
pub(crate) struct QueueMetrics {
    depth: IntGauge,
    adds: IntCounter,
    retries: IntCounter,
    waited: Histogram,
    worked: Histogram,
    under_way: CurrentName,
}

/// The name that is being processed, at most one: its duration so far is measured at each scrape.
#[derive(Debug, Clone)]
struct CurrentName {
    /// Written by the cycle, read by scrapes. Never held across an await.
    since: Arc<Mutex<Option<Instant>>>,
    unfinished: GaugeVec,
    longest: GaugeVec,
}

/// The processing of a name, until it is dropped.
#[derive(Debug)]
pub(crate) struct ProcessingGuard<'a> {
    queue: &'a QueueMetrics,
    since: Instant,
}

impl QueueMetrics {
    pub(crate) fn new(registry: &Registry) -> Result<Self, prometheus::Error> {
        let count = |name: &str, help: &str| {
            let counters = IntCounterVec::new(Opts::new(name, help), &["name"]);
            Ok::<_, prometheus::Error>(registered(registry, counters)?.with_label_values(&[QUEUE]))
        };
        let time = |name: &str, help: &str| {
            // Upstream's buckets: ten nanoseconds times powers of ten.
            let buckets = prometheus::exponential_buckets(1e-8, 10.0, 10)?;
            let opts = HistogramOpts::new(name, help).buckets(buckets);
            let times = registered(registry, HistogramVec::new(opts, &["name"]))?;
            Ok::<_, prometheus::Error>(times.with_label_values(&[QUEUE]))
        };
        let depth = Opts::new("workqueue_depth", "Names that are due and wait in a queue.");
        let depth = registered(registry, IntGaugeVec::new(depth, &["name"]))?;
        Ok(Self {
            depth: depth.with_label_values(&[QUEUE]),
            adds: count("workqueue_adds_total", "Names that became due in a queue.")?,
            retries: count(
                "workqueue_retries_total",
                "Number of delayed additions of a name to a queue.",
            )?,
            waited: time(
                "workqueue_queue_duration_seconds",
                "How long names were due before they were processed.",
            )?,
            worked: time(
                "workqueue_work_duration_seconds",
                "How long the processing of a name took.",
            )?,
            under_way: registered(registry, CurrentName::new())?,
        })
    }

    /// Counts pods whose node is to be read later.
    pub(crate) fn delayed(&self, pods: usize) {
        self.retries.inc_by(pods as u64);
    }

    /// Names are to be processed, which were due for these durations.
    pub(crate) fn due(&self, due_for: impl Iterator<Item = Duration>) {
        let mut count = 0;
        for time in due_for {
            self.waited.observe(time.as_secs_f64());
            count += 1;
        }
        self.adds.inc_by(count);
        self.depth.set(i64::try_from(count).unwrap_or(i64::MAX));
    }

    /// Processing of one of them starts.
    pub(crate) fn looking(&self) -> ProcessingGuard<'_> {
        let since = Instant::now();
        self.depth.dec();
        self.under_way.set(Some(since));
        ProcessingGuard { queue: self, since }
    }
}

impl Drop for ProcessingGuard<'_> {
    fn drop(&mut self) {
        self.queue.under_way.set(None);
        self.queue.worked.observe(self.since.elapsed().as_secs_f64());
    }
}

impl CurrentName {
    fn new() -> Result<Self, prometheus::Error> {
        let gauge = |name: &str, help: &str| GaugeVec::new(Opts::new(name, help), &["name"]);
        Ok(Self {
            since: Arc::default(),
            unfinished: gauge(
                "workqueue_unfinished_work_seconds",
                "Seconds of work in progress that is not yet counted in work_duration.",
            )?,
            longest: gauge(
                "workqueue_longest_running_processor_seconds",
                "Seconds that the longest running work is in progress.",
            )?,
        })
    }

    fn set(&self, since: Option<Instant>) {
        *self.since.lock().unwrap_or_else(PoisonError::into_inner) = since;
    }

    fn gauges(&self) -> [&GaugeVec; 2] {
        [&self.unfinished, &self.longest]
    }
}

impl Collector for CurrentName {
    fn desc(&self) -> Vec<&Desc> {
        self.gauges().into_iter().flat_map(Collector::desc).collect()
    }

    fn collect(&self) -> Vec<MetricFamily> {
        let since = *self.since.lock().unwrap_or_else(PoisonError::into_inner);
        let took = since.map_or(Duration::ZERO, |since| since.elapsed());
        self.gauges()
            .into_iter()
            .flat_map(|gauges| {
                let gauge: Gauge = gauges.with_label_values(&[QUEUE]);
                gauge.set(took.as_secs_f64());
                gauges.collect()
            })
            .collect()
    }
}
