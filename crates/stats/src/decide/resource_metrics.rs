//! `/metrics/resource`: CPU and memory of the node, of pods and of containers, from which metrics-server computes rates.

use jiff::Timestamp;
use model::stats::{ContainerStats, CpuStats, MemoryStats, PodStats, Summary, SwapStats};

use super::text::{Kind, Labels, Metric, Page, seconds};

/// The metrics of the node, of pods or of containers.
struct Set {
    cpu: Metric,
    memory: Metric,
    swap: Metric,
}

const fn counter(name: &'static str, help: &'static str) -> Metric {
    Metric { name, kind: Kind::Counter, help }
}

const fn gauge(name: &'static str, help: &'static str) -> Metric {
    Metric { name, kind: Kind::Gauge, help }
}

const NODE: Set = Set {
    cpu: counter("node_cpu_usage_seconds_total", "CPU time that the node has used."),
    memory: gauge("node_memory_working_set_bytes", "Working set of the node."),
    swap: gauge("node_swap_usage_bytes", "Swap that the node uses."),
};
const POD: Set = Set {
    cpu: counter("pod_cpu_usage_seconds_total", "CPU time that the pod has used."),
    memory: gauge("pod_memory_working_set_bytes", "Working set of the pod."),
    swap: gauge("pod_swap_usage_bytes", "Swap that the pod uses."),
};
const CONTAINER: Set = Set {
    cpu: counter("container_cpu_usage_seconds_total", "CPU time that the container has used."),
    memory: gauge("container_memory_working_set_bytes", "Working set of the container."),
    swap: gauge("container_swap_usage_bytes", "Swap that the container uses."),
};
const SWAP_LIMIT: Metric = gauge("container_swap_limit_bytes", "Swap that the container may use.");
const STARTED: Metric =
    gauge("container_start_time_seconds", "Start of the container in Unix time.");
const ERROR: Metric =
    gauge("resource_scrape_error", "Whether the usage could not be measured: 1 or 0.");

/// The page; without a summary it reports an error.
pub fn page(summary: Option<&Summary>) -> String {
    let mut page = Page::default();
    if let Some(summary) = summary {
        let node = &summary.node;
        let (cpu, memory, swap) = (node.cpu.as_ref(), node.memory.as_ref(), node.swap.as_ref());
        add(&mut page, &NODE, &[], Measured { cpu, memory, swap });
        for pod in &summary.pods {
            add_pod(&mut page, pod);
        }
    }
    page.add(ERROR, &[], u64::from(summary.is_none()), None);
    page.text()
}

/// What was measured of the node, a pod or a container.
#[derive(Clone, Copy)]
struct Measured<'a> {
    cpu: Option<&'a CpuStats>,
    memory: Option<&'a MemoryStats>,
    swap: Option<&'a SwapStats>,
}

fn add(page: &mut Page, set: &Set, labels: &Labels<'_>, measured: Measured<'_>) {
    let Measured { cpu, memory, swap } = measured;
    if let Some(cpu) = cpu
        && let Some(used) = cpu.usage_core_nano_seconds
    {
        page.add_number(set.cpu, labels, seconds(used), Some(cpu.time));
    }
    if let Some(memory) = memory
        && let Some(used) = memory.working_set_bytes
    {
        page.add(set.memory, labels, used, Some(memory.time));
    }
    if let Some(swap) = swap
        && let Some(used) = swap.swap_usage_bytes
    {
        page.add(set.swap, labels, used, Some(swap.time));
    }
}

fn add_pod(page: &mut Page, pod: &PodStats) {
    let name = &pod.pod_ref.name;
    let labels = [("pod", &*name.name), ("namespace", &*name.namespace)];
    for container in &pod.containers {
        let [pod, namespace] = labels;
        add_container(page, &[("container", container.name.as_str()), pod, namespace], container);
    }
    let (cpu, memory, swap) = (pod.cpu.as_ref(), pod.memory.as_ref(), pod.swap.as_ref());
    add(page, &POD, &labels, Measured { cpu, memory, swap });
}

fn add_container(page: &mut Page, labels: &Labels<'_>, container: &ContainerStats) {
    let (cpu, memory) = (container.cpu.as_ref(), container.memory.as_ref());
    let measured = Measured { cpu, memory, swap: container.swap.as_ref() };
    add(page, &CONTAINER, labels, measured);
    if let Some(swap) = &container.swap
        && let Some(available) = swap.swap_available_bytes
    {
        let limit = available.saturating_add(swap.swap_usage_bytes.unwrap_or_default());
        page.add(SWAP_LIMIT, labels, limit, Some(swap.time));
    }
    if let Some(started) = container.start_time.filter(|at| *at > Timestamp::UNIX_EPOCH) {
        page.add_number(STARTED, labels, started.as_duration().as_secs_f64(), None);
    }
}

#[cfg(test)]
mod tests {
    use model::ids::PodName;
    use model::stats::{NodeStats, PodReference};

    use super::*;

    fn at(milliseconds: i64) -> Timestamp {
        Timestamp::from_millisecond(milliseconds).unwrap()
    }

    #[expect(clippy::unnecessary_wraps, reason = "the type of the field")]
    fn cpu(time: i64, nanoseconds: u64) -> Option<CpuStats> {
        let used = Some(nanoseconds);
        Some(CpuStats { time: at(time), usage_core_nano_seconds: used, ..CpuStats::default() })
    }

    // behaviour: STA-14
    #[test]
    fn usage_has_the_times_of_its_measurement() {
        let container = ContainerStats {
            name: "main".to_owned(),
            start_time: Some(at(1500)),
            cpu: cpu(5001, 250_000_000),
            memory: Some(MemoryStats {
                time: at(5001),
                working_set_bytes: Some(7),
                ..MemoryStats::default()
            }),
            swap: Some(SwapStats {
                time: at(5001),
                swap_usage_bytes: Some(1),
                swap_available_bytes: Some(2),
            }),
            ..ContainerStats::default()
        };
        let pod = PodStats {
            pod_ref: PodReference { name: PodName::new("shop", "web"), uid: "u".into() },
            start_time: None,
            containers: vec![container],
            cpu: cpu(5002, 300_000_000),
            memory: None,
            io: None,
            network: None,
            volumes: Vec::new(),
            ephemeral_storage: None,
            processes: None,
            swap: None,
        };
        let node = NodeStats { cpu: cpu(5000, 2_000_000_000), ..NodeStats::default() };
        let text = page(Some(&Summary { node, pods: vec![pod] }));
        let of_main = "{container=\"main\",pod=\"web\",namespace=\"shop\"}";
        for line in [
            "node_cpu_usage_seconds_total 2 5000".to_owned(),
            format!("container_cpu_usage_seconds_total{of_main} 0.25 5001"),
            format!("container_memory_working_set_bytes{of_main} 7 5001"),
            format!("container_swap_usage_bytes{of_main} 1 5001"),
            format!("container_swap_limit_bytes{of_main} 3 5001"),
            format!("container_start_time_seconds{of_main} 1.5"),
            "pod_cpu_usage_seconds_total{pod=\"web\",namespace=\"shop\"} 0.3 5002".to_owned(),
            "resource_scrape_error 0".to_owned(),
        ] {
            assert!(text.lines().any(|found| found == line), "{line} is not in\n{text}");
        }
        assert!(!text.contains("pod_memory"), "it was not measured");
    }

    // behaviour: STA-14
    #[test]
    fn failed_measurement_is_an_error_on_the_page() {
        let text = page(None);
        assert!(text.ends_with("\nresource_scrape_error 1\n"), "{text}");
        assert_eq!(text.lines().count(), 3);
    }
}
