//! Metrics under upstream's names.

use std::time::Duration;

use prometheus::{
    Gauge, GaugeVec, HistogramOpts, HistogramVec, IntCounterVec, IntGauge, Opts, Registry,
};

/// Upstream's buckets, in seconds.
const PLUGIN_BUCKETS: [f64; 11] = [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0];

/// The result of the check of a present image.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CheckResult {
    ByPolicy,
    ByRecord,
    MustPull,
    Error,
}

/// Counts checks of present images, records, and runs of plugins.
#[derive(Debug, Clone)]
pub struct AccessMetrics {
    checks: IntCounterVec,
    intents: StoreGauges,
    records: StoreGauges,
    plugin_errors: IntCounterVec,
    plugin_durations: HistogramVec,
    provider_config: GaugeVec,
}

/// The files of a store, and the use of its cache.
#[derive(Debug, Clone)]
struct StoreGauges {
    files: IntGauge,
    memory: Gauge,
}

impl StoreGauges {
    fn new(registry: &Registry, name: &str) -> prometheus::Result<Self> {
        let files = IntGauge::new(
            format!("kubelet_imagemanager_ondisk_{name}"),
            "Number of these files of the image manager on disk.",
        )?;
        let memory = Gauge::new(
            format!("kubelet_imagemanager_inmemory_{name}_usage_percent"),
            "Use of the cache of these files of the image manager in percent.",
        )?;
        registry.register(Box::new(files.clone()))?;
        registry.register(Box::new(memory.clone()))?;
        Ok(Self { files, memory })
    }

    fn set(&self, usage: StoreUsage) {
        self.files.set(usage.on_disk());
        self.memory.set(usage.percent());
    }
}

fn counter(registry: &Registry, opts: Opts, label: &str) -> prometheus::Result<IntCounterVec> {
    let counter = IntCounterVec::new(opts, &[label])?;
    registry.register(Box::new(counter.clone()))?;
    Ok(counter)
}

impl AccessMetrics {
    /// Metrics in a registry.
    pub fn new(registry: &Registry) -> prometheus::Result<Self> {
        let checks = Opts::new(
            "kubelet_imagemanager_image_mustpull_checks_total",
            "Checks whether a pod may use a present image, by result.",
        );
        let plugin_errors = Opts::new(
            "kubelet_credential_provider_plugin_errors_total",
            "Runs of credential provider plugins that failed.",
        );
        let plugin_durations = HistogramOpts::new(
            "kubelet_credential_provider_plugin_duration",
            "Duration of runs of credential provider plugins in seconds.",
        );
        let plugin_durations = plugin_durations.buckets(PLUGIN_BUCKETS.to_vec());
        let plugin_durations = HistogramVec::new(plugin_durations, &["plugin_name"])?;
        let provider_config = Opts::new(
            "kubelet_credential_provider_config_info",
            "The hash of the configuration of credential providers.",
        );
        let provider_config = GaugeVec::new(provider_config, &["hash"])?;
        registry.register(Box::new(plugin_durations.clone()))?;
        registry.register(Box::new(provider_config.clone()))?;
        Ok(Self {
            checks: counter(registry, checks, "result")?,
            intents: StoreGauges::new(registry, "pullintents")?,
            records: StoreGauges::new(registry, "pulledrecords")?,
            plugin_errors: counter(registry, plugin_errors, "plugin_name")?,
            plugin_durations,
            provider_config,
        })
    }

    pub(crate) fn checked(&self, result: CheckResult) {
        let result = match result {
            CheckResult::ByPolicy => "credentialPolicyAllowed",
            CheckResult::ByRecord => "credentialRecordFound",
            CheckResult::MustPull => "mustAuthenticate",
            CheckResult::Error => "error",
        };
        self.checks.with_label_values(&[result]).inc();
    }

    pub(crate) fn set_intents(&self, usage: StoreUsage) {
        self.intents.set(usage);
    }

    pub(crate) fn set_records(&self, usage: StoreUsage) {
        self.records.set(usage);
    }

    pub(crate) fn plugin_ran(&self, plugin: &str, took: Duration, succeeded: bool) {
        self.plugin_durations.with_label_values(&[plugin]).observe(took.as_secs_f64());
        if !succeeded {
            self.plugin_errors.with_label_values(&[plugin]).inc();
        }
    }

    pub(crate) fn set_provider_config(&self, hash: &str) {
        self.provider_config.with_label_values(&[hash]).set(1.0);
    }
}

/// How many files a store has, and how many of them are in memory.
#[derive(Debug, Clone, Copy)]
pub(crate) struct StoreUsage {
    pub(crate) files: usize,
    pub(crate) cached: usize,
    pub(crate) most_cached: usize,
}

impl StoreUsage {
    fn on_disk(self) -> i64 {
        i64::try_from(self.files).unwrap_or(i64::MAX)
    }

    fn percent(self) -> f64 {
        let number = |count: usize| f64::from(u32::try_from(count).unwrap_or(u32::MAX));
        100.0 * number(self.cached) / number(self.most_cached.max(1))
    }
}
