//! Compares `docs/metrics.md` with the metrics that the agent registers.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use journal::{DiskJournal, Ledger, SMALLEST};
use model::cgroup::CgroupDriver;
use model::machine;
use prometheus::proto::MetricFamily;
use prometheus::{Error, IntGauge, Registry};
use testkit::cgroups::MemoryCgroups;
use testkit::clock::VirtualClock;
use testkit::events::KeptEvents;
use testkit::segments::MemorySegments;

use crate::cgroup_metrics::{TimedCgroups, register_cgroup_version};
use crate::feature_metrics::{register_features, register_losing_support};
use crate::panic_reports::panic_guard;
use crate::stuck_calls::StuckCalls;
use crate::sync_metrics::{SyncMetrics, register_node_name};

const PAGE: &str = include_str!("../../../docs/metrics.md");

/// Registered with the first log that is shown.
const LATER: &str = "kubelet_container_log_filesystem_used_bytes";
/// Metrics of collectors with several, without the first of each.
const FURTHER: [&str; 6] = [
    "ferrolet_overdue_operations_total",
    "kubelet_volume_stats_available_bytes",
    "kubelet_volume_stats_used_bytes",
    "kubelet_volume_stats_inodes",
    "kubelet_volume_stats_inodes_free",
    "kubelet_volume_stats_inodes_used",
];

/// A metric in the reference.
#[derive(Debug, PartialEq, Eq)]
struct Row {
    kind: String,
    labels: BTreeSet<String>,
    meaning: String,
    origin: String,
}

/// The rows of a section, by name.
fn rows(section: &str) -> BTreeMap<String, Row> {
    let sections = PAGE.split("\n## ");
    let text = sections.filter_map(|text| text.strip_prefix(&format!("{section}\n")));
    let lines = text.flat_map(str::lines).filter(|line| line.starts_with("| `"));
    let row = |line: &str| {
        let cells: Vec<&str> = line.trim_matches('|').split('|').map(str::trim).collect();
        let [name, kind, labels, meaning, origin] = cells[..] else { panic!("cells: {line}") };
        let labels = labels.split(", ").filter(|label| *label != "-");
        let row = Row {
            kind: kind.to_owned(),
            labels: labels.map(|label| label.trim_matches('`').to_owned()).collect(),
            meaning: meaning.to_owned(),
            origin: origin.to_owned(),
        };
        (name.trim_matches('`').to_owned(), row)
    };
    lines.map(row).collect()
}

fn is_registered(registry: &Registry, name: &str) -> bool {
    let gauge = IntGauge::new(name, "for the test").unwrap();
    match registry.register(Box::new(gauge.clone())) {
        Err(Error::AlreadyReg) => true,
        result => {
            result.unwrap();
            registry.unregister(Box::new(gauge)).unwrap();
            false
        }
    }
}

/// The number of collectors, which only the debug output has: `RegistryCore (12 collectors)`.
fn collectors(registry: &Registry) -> usize {
    let text = format!("{registry:?}");
    let (before, _) = text.split_once(" collectors").unwrap();
    before.rsplit('(').next().unwrap().parse().unwrap()
}

/// A family with values, as the reference has it.
fn as_row(family: &MetricFamily) -> Row {
    let labels = family.get_metric()[0].get_label();
    let labels = labels.iter().map(|label| label.name().to_owned()).collect();
    let meaning = family.help().trim_start_matches("[ALPHA] ").to_owned();
    let is_ours = family.name().starts_with("ferrolet_");
    Row {
        kind: format!("{:?}", family.get_field_type()).to_lowercase(),
        labels,
        meaning,
        origin: if is_ours { "ours" } else { "upstream" }.to_owned(),
    }
}

fn compare(registry: &Registry, section: &str, skipped: &[&str]) {
    let rows = rows(section);
    for name in rows.keys().filter(|name| !skipped.contains(&name.as_str())) {
        assert!(is_registered(registry, name), "{section}: {name} is not registered");
    }
    let families = registry.gather();
    for family in &families {
        assert_eq!(rows.get(family.name()), Some(&as_row(family)), "{}", family.name());
    }
    let further = FURTHER.iter().filter(|name| rows.contains_key(**name)).count();
    let expected = rows.len() - skipped.len() - further;
    assert_eq!(collectors(registry), expected, "{section}: a metric is not in docs/metrics.md");
}

/// All metrics of the agent's `/metrics`.
fn agents_metrics() -> Registry {
    let registry = Registry::new();
    let config = config::KubeletConfiguration::default();
    register_features(&registry, &config).unwrap();
    register_losing_support(&registry).unwrap();
    register_node_name(&registry, "n1").unwrap();
    register_cgroup_version(&registry, machine::Cgroups::V2).unwrap();
    let cgroups = Arc::new(MemoryCgroups::new(CgroupDriver::Cgroupfs));
    drop(TimedCgroups::new(cgroups, &registry).unwrap());
    drop(SyncMetrics::new(&registry).unwrap());
    drop(StuckCalls::new(Vec::new(), &registry).unwrap());
    drop(panic_guard(&registry, Arc::<KeptEvents>::default()).unwrap());
    drop(cri::Operations::new(&registry).unwrap());
    drop(volumes::Metrics::new(&registry).unwrap());
    drop(node::Metrics::new(&registry).unwrap());
    drop(runtime::Metrics::new(&registry).unwrap());
    drop(events::Metrics::new(&registry).unwrap());
    drop(eviction::EvictionMetrics::new(&registry).unwrap());
    drop(logs::LogMetrics::new(&registry).unwrap());
    drop(allocation::ResizeMetrics::new(&registry).unwrap());
    drop(allocation::AdmissionMetrics::new(&registry).unwrap());
    drop(pleg::Metrics::new(&registry).unwrap());
    drop(status::Metrics::new(&registry).unwrap());
    drop(status::PodMetrics::new(&registry).unwrap());
    drop(pods::Metrics::new(&registry).unwrap());
    drop(gc::images::ImageGcMetrics::new(&registry).unwrap());
    drop(server::pod_resources::Metrics::new(&registry).unwrap());
    drop(server::node_api::HttpMetrics::new(&registry).unwrap());
    stats::VolumeMetrics::register(stats::VolumeUsage::default(), &registry).unwrap();
    registry
}

#[tokio::test]
async fn reference_lists_every_metric_of_the_agent() {
    let registry = agents_metrics();
    let (segments, clock) = (Arc::<MemorySegments>::default(), Arc::new(VirtualClock::new()));
    let journal = Arc::new(DiskJournal::new(segments, clock, "0.1.0", SMALLEST));
    drop(Ledger::new(journal, &registry).unwrap());
    compare(&registry, "Agent", &[LATER]);
}

#[test]
fn reference_lists_every_metric_of_probes() {
    let registry = Registry::new();
    drop(probes::Metrics::new(&registry).unwrap());
    compare(&registry, "Probes", &[]);
}
