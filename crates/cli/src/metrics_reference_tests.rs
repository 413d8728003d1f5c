//! Compares `docs/metrics.md` with the metrics that the Pod GC controller registers.

use prometheus::{Error, IntGauge, Registry};

const PAGE: &str = include_str!("../../../docs/metrics.md");
/// The second metric of a collector with two.
const SECOND: &str = "workqueue_longest_running_processor_seconds";

#[test]
fn reference_lists_every_metric_of_the_pod_gc_controller() {
    let registry = Registry::new();
    drop(podgc::metrics::Metrics::new(&registry).unwrap());
    let (_, section) = PAGE.split_once("\n## Pod GC controller\n").unwrap();
    let names: Vec<&str> =
        section.lines().filter_map(|line| line.strip_prefix("| `")?.split('`').next()).collect();
    for name in &names {
        let gauge = IntGauge::new(*name, "for the test").unwrap();
        let registered = registry.register(Box::new(gauge));
        assert!(matches!(registered, Err(Error::AlreadyReg)), "{name}: {registered:?}");
    }
    assert!(names.contains(&SECOND));
    let expected = format!("({} collectors)", names.len() - 1);
    assert!(format!("{registry:?}").contains(&expected), "{registry:?} instead of {expected}");
}
