//! Metrics under upstream's names.

use std::sync::Arc;

use jiff::Timestamp;
use model::ports::clock::WallClock;
use prometheus::core::{Collector, Desc};
use prometheus::proto::MetricFamily;
use prometheus::{Gauge, Histogram, HistogramOpts, IntCounter, Registry};
use tokio::sync::watch;

use crate::decide::{CertificateFacts, Role};
use crate::task::NodeCertificate;

/// Upstream's buckets, from a minute to four years.
const AGES: [f64; 10] = [
    60.0,
    3600.0,
    14_400.0,
    86_400.0,
    604_800.0,
    2_592_000.0,
    7_776_000.0,
    15_552_000.0,
    31_104_000.0,
    124_416_000.0,
];

/// The metrics of one certificate.
#[derive(Debug, Clone)]
pub struct CertificateMetrics {
    failures: IntCounter,
    /// The ages of rotated certificates; `None` for the client certificate, for which upstream has
    /// no such metric.
    ages: Option<Histogram>,
}

impl CertificateMetrics {
    /// Creates metrics and registers them.
    pub fn new(
        registry: &Registry,
        role: Role,
        certificate: &NodeCertificate,
        clock: Arc<dyn WallClock>,
    ) -> prometheus::Result<Self> {
        let (failures, ttl, whose) = match role {
            Role::Client => (
                "kubelet_certificate_manager_client_expiration_renew_errors",
                "kubelet_certificate_manager_client_ttl_seconds",
                "client",
            ),
            Role::Serving => (
                "kubelet_server_expiration_renew_errors",
                "kubelet_certificate_manager_server_ttl_seconds",
                "serving",
            ),
        };
        let failures = IntCounter::new(failures, "Counter of certificate renewal errors.")?;
        registry.register(Box::new(failures.clone()))?;
        let help = format!(
            "Seconds until the {whose} certificate of the node expires; negative once it has, +Inf without one."
        );
        let gauge = Gauge::new(ttl, help)?;
        registry.register(Box::new(Ttl { gauge, clock, certificate: certificate.facts() }))?;
        let ages = match role {
            Role::Client => None,
            Role::Serving => {
                let name = "kubelet_certificate_manager_server_rotation_seconds";
                let help = "Seconds that the previous serving certificate was in use.";
                let options = HistogramOpts::new(name, help).buckets(AGES.to_vec());
                let ages = Histogram::with_opts(options)?;
                registry.register(Box::new(ages.clone()))?;
                Some(ages)
            }
        };
        Ok(Self { failures, ages })
    }

    pub(crate) fn failed(&self) {
        self.failures.inc();
    }

    /// A certificate that was valid since `not_before` was replaced.
    #[expect(clippy::cast_precision_loss, reason = "seconds")]
    pub(crate) fn rotated(&self, not_before: Timestamp, now: Timestamp) {
        if let Some(ages) = &self.ages {
            ages.observe(now.duration_since(not_before).as_secs() as f64);
        }
    }
}

/// The time to live, computed when it is read.
#[derive(Debug)]
struct Ttl {
    gauge: Gauge,
    clock: Arc<dyn WallClock>,
    certificate: watch::Receiver<Option<Arc<CertificateFacts>>>,
}

impl Collector for Ttl {
    fn desc(&self) -> Vec<&Desc> {
        self.gauge.desc()
    }

    #[expect(clippy::cast_precision_loss, reason = "seconds")]
    fn collect(&self) -> Vec<MetricFamily> {
        let now = self.clock.now();
        // Like upstream, an expired certificate counts as missing.
        let end = self.certificate.borrow().as_ref().map(|facts| facts.not_after);
        let left = end.filter(|end| now <= *end).map(|end| end.duration_since(now).as_secs());
        self.gauge.set(left.map_or(f64::INFINITY, |left| left as f64));
        self.gauge.collect()
    }
}
