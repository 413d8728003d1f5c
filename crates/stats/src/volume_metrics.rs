//! The metrics of volumes with claims, in `/metrics`.

use model::stats::FsStats;
use prometheus::core::{Collector, Desc};
use prometheus::proto::MetricFamily;
use prometheus::{GaugeVec, Opts, Registry};

use crate::volume_walks::VolumeUsage;

const LABELS: [&str; 2] = ["namespace", "persistentvolumeclaim"];

type Value = fn(&FsStats) -> Option<u64>;

const METRICS: [(&str, &str, Value); 6] = [
    ("kubelet_volume_stats_capacity_bytes", "Capacity of the volume in bytes.", |fs| {
        fs.capacity_bytes
    }),
    ("kubelet_volume_stats_available_bytes", "Available bytes of the volume.", |fs| {
        fs.available_bytes
    }),
    ("kubelet_volume_stats_used_bytes", "Used bytes of the volume.", |fs| fs.used_bytes),
    ("kubelet_volume_stats_inodes", "Inodes of the volume.", |fs| fs.inodes),
    ("kubelet_volume_stats_inodes_free", "Free inodes of the volume.", |fs| fs.inodes_free),
    ("kubelet_volume_stats_inodes_used", "Used inodes of the volume.", |fs| fs.inodes_used),
];

/// The usage of volumes with claims, as it is when the metrics are read.
#[derive(Debug)]
pub struct VolumeMetrics {
    usage: VolumeUsage,
    gauges: Vec<(GaugeVec, Value)>,
}

impl VolumeMetrics {
    /// Registers the metrics.
    pub fn register(usage: VolumeUsage, registry: &Registry) -> prometheus::Result<()> {
        let gauges = METRICS.iter().map(|(name, help, value)| {
            Ok::<_, prometheus::Error>((GaugeVec::new(Opts::new(*name, *help), &LABELS)?, *value))
        });
        let gauges = gauges.collect::<Result<_, _>>()?;
        registry.register(Box::new(Self { usage, gauges }))
    }
}

impl Collector for VolumeMetrics {
    fn desc(&self) -> Vec<&Desc> {
        self.gauges.iter().flat_map(|(gauge, _)| gauge.desc()).collect()
    }

    fn collect(&self) -> Vec<MetricFamily> {
        let claims = self.usage.of_claims();
        for (gauge, value) in &self.gauges {
            gauge.reset();
            for (claim, fs) in &claims {
                // Like upstream, 0 where the file system has no number.
                #[expect(clippy::cast_precision_loss, reason = "gauges are floating-point numbers")]
                let value = value(fs).unwrap_or_default() as f64;
                gauge.with_label_values(&[&claim.namespace, &claim.name]).set(value);
            }
        }
        self.gauges.iter().flat_map(|(gauge, _)| gauge.collect()).collect()
    }
}

#[cfg(test)]
mod tests {
    use model::stats::{ClaimReference, VolumeStats};
    use prometheus::TextEncoder;

    use super::*;
    use crate::decide::storage::PodVolumes;

    fn volumes(used: u64, claim: Option<&str>) -> PodVolumes {
        let fs = FsStats { used_bytes: Some(used), ..FsStats::default() };
        let pvc_ref = claim
            .map(|name| ClaimReference { name: name.to_owned(), namespace: "shop".to_owned() });
        let others = vec![VolumeStats { fs, name: "v".to_owned(), pvc_ref }];
        PodVolumes { ephemeral: Vec::new(), others }
    }

    // behaviour: STA-18
    #[test]
    fn each_claim_has_metrics_while_a_pod_uses_it() {
        let (registry, usage) = (Registry::new(), VolumeUsage::default());
        VolumeMetrics::register(usage.clone(), &registry).unwrap();
        usage.set("u1", volumes(7, Some("data")));
        usage.set("u2", volumes(9, None));
        let text = || TextEncoder::new().encode_to_string(&registry.gather()).unwrap();
        let line =
            r#"kubelet_volume_stats_used_bytes{namespace="shop",persistentvolumeclaim="data"} 7"#;
        assert!(text().contains(line), "{}", text());
        assert_eq!(text().matches("persistentvolumeclaim=").count(), METRICS.len());
        usage.set("u1", volumes(7, None));
        assert_eq!(text(), "", "the claim is not used any more");
    }
}
