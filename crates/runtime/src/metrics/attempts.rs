//! Metrics of attempts and their results.

use std::time::Duration;

use prometheus::{
    DEFAULT_BUCKETS, HistogramOpts, HistogramVec, IntCounter, IntCounterVec, Registry,
};

use super::{counter, counters};

/// The metrics, by their upstream names.
#[derive(Debug, Clone)]
pub(crate) struct Attempts {
    sandboxes: HistogramVec,
    sandbox_errors: IntCounterVec,
    own_users: IntCounter,
    own_users_errors: IntCounter,
    images: IntCounterVec,
    hooks_without_tls: IntCounter,
    sleeps_broken_off: IntCounter,
}

impl Attempts {
    /// Metrics in a registry.
    pub(crate) fn new(registry: &Registry) -> prometheus::Result<Self> {
        let counter = |name: &str, help: &str| counter(registry, name, help);
        let counters =
            |name: &str, help: &str, labels: &[&str]| counters(registry, name, help, labels);
        let name = "kubelet_run_podsandbox_duration_seconds";
        let help = "Time of the runtime to create a sandbox, by runtime handler.";
        let sandboxes = HistogramOpts::new(name, help).buckets(DEFAULT_BUCKETS.to_vec());
        let sandboxes = HistogramVec::new(sandboxes, &["runtime_handler"])?;
        registry.register(Box::new(sandboxes.clone()))?;
        Ok(Self {
            sandboxes,
            sandbox_errors: counters(
                "kubelet_run_podsandbox_errors_total",
                "Number of failed sandbox creations, by runtime handler.",
                &["runtime_handler"],
            )?,
            own_users: counter(
                "kubelet_started_user_namespaced_pods_total",
                "Number of attempts to create a pod with a user namespace.",
            )?,
            own_users_errors: counter(
                "kubelet_started_user_namespaced_pods_errors_total",
                "Number of failed attempts to create a pod with a user namespace.",
            )?,
            images: counters(
                "kubelet_image_manager_ensure_image_requests_total",
                "Number of image requests of containers, by presence of the image.",
                &["pull_policy", "present_locally", "pull_required"],
            )?,
            hooks_without_tls: counter(
                "kubelet_lifecycle_handler_http_fallbacks_total",
                "Number of HTTPS lifecycle hooks that fell back to HTTP.",
            )?,
            sleeps_broken_off: counter(
                "kubelet_lifecycle_handler_sleep_terminated_total",
                "Number of containers that exited before their sleep hook was over.",
            )?,
        })
    }

    /// The creation of a sandbox took this long.
    pub(crate) fn sandbox_requested(&self, handler: &str, took: Duration, failed: bool) {
        self.sandboxes.with_label_values(&[handler]).observe(took.as_secs_f64());
        if failed {
            self.sandbox_errors.with_label_values(&[handler]).inc();
        }
    }

    /// A pod with a user namespace is about to be created.
    pub(crate) fn pod_with_own_users_starts(&self) {
        self.own_users.inc();
    }

    /// A pod with a user namespace was not created, or not completely started.
    pub(crate) fn pod_with_own_users_did_not_start(&self) {
        self.own_users_errors.inc();
    }

    /// A container needs its image: whether it is present and must be pulled, if known.
    pub(crate) fn image_requested(&self, policy: &str, present: Option<bool>, pull: Option<bool>) {
        let word = |known: Option<bool>| match known {
            Some(true) => "true",
            Some(false) => "false",
            None => "unknown",
        };
        let policy = policy.to_ascii_lowercase();
        self.images.with_label_values(&[policy.as_str(), word(present), word(pull)]).inc();
    }

    /// A hook over HTTPS fell back to HTTP.
    pub(crate) fn hook_without_tls(&self) {
        self.hooks_without_tls.inc();
    }

    /// A container exited before its sleep hook was over.
    pub(crate) fn sleep_broken_off(&self) {
        self.sleeps_broken_off.inc();
    }
}
