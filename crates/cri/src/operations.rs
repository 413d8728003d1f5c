//! Call metrics with upstream's names.

use std::time::Duration;

use prometheus::{HistogramOpts, HistogramVec, IntCounterVec, Opts, Registry, exponential_buckets};

/// The labels of calls.
const LABELS: [&str; 1] = ["operation_type"];

/// Calls, errors and durations of each method.
#[derive(Debug, Clone)]
pub struct Operations {
    calls: IntCounterVec,
    failures: IntCounterVec,
    durations: HistogramVec,
}

impl Operations {
    /// Registers the metrics.
    pub fn new(registry: &Registry) -> prometheus::Result<Self> {
        let counter = |name: &str, help: &str| {
            let counter = IntCounterVec::new(Opts::new(name, help), &LABELS)?;
            registry.register(Box::new(counter.clone()))?;
            Ok::<_, prometheus::Error>(counter)
        };
        let name = "kubelet_runtime_operations_duration_seconds";
        let help = "Duration in seconds of runtime operations. Broken down by operation type.";
        let buckets = exponential_buckets(0.005, 2.5, 14)?;
        let durations =
            HistogramVec::new(HistogramOpts::new(name, help).buckets(buckets), &LABELS)?;
        registry.register(Box::new(durations.clone()))?;
        Ok(Self {
            calls: counter(
                "kubelet_runtime_operations_total",
                "Cumulative number of runtime operations by operation type.",
            )?,
            failures: counter(
                "kubelet_runtime_operations_errors_total",
                "Cumulative number of runtime operation errors by operation type.",
            )?,
            durations,
        })
    }

    pub(crate) fn done(&self, method: &str, failed: bool, took: Duration) {
        let labels = [operation(method)];
        self.calls.with_label_values(&labels).inc();
        self.durations.with_label_values(&labels).observe(took.as_secs_f64());
        if failed {
            self.failures.with_label_values(&labels).inc();
        }
    }
}

/// Upstream's name of a method. Lists in parts count as lists.
fn operation(method: &str) -> &'static str {
    match method {
        "Version" => "version",
        "Status" => "status",
        "UpdateRuntimeConfig" => "update_runtime_config",
        "RuntimeConfig" => "runtime_config",
        "RunPodSandbox" => "run_podsandbox",
        "StopPodSandbox" => "stop_podsandbox",
        "RemovePodSandbox" => "remove_podsandbox",
        "PodSandboxStatus" => "podsandbox_status",
        "ListPodSandbox" | "StreamPodSandboxes" => "list_podsandbox",
        "CreateContainer" => "create_container",
        "StartContainer" => "start_container",
        "StopContainer" => "stop_container",
        "RemoveContainer" => "remove_container",
        "ContainerStatus" => "container_status",
        "ListContainers" | "StreamContainers" => "list_containers",
        "UpdateContainerResources" => "update_container",
        "UpdatePodSandboxResources" => "update_podsandbox_resources",
        "ReopenContainerLog" => "reopen_container_log",
        "ExecSync" => "exec_sync",
        "Exec" => "exec",
        "Attach" => "attach",
        "PortForward" => "port_forward",
        "CheckpointContainer" => "checkpoint_container",
        "ListImages" => "list_images",
        "ImageStatus" => "image_status",
        "PullImage" => "pull_image",
        "RemoveImage" => "remove_image",
        "ImageFsInfo" => "image_fs_info",
        "ListContainerStats" => "list_container_stats",
        "GetContainerEvents" => "get_container_events",
        _ => "other",
    }
}

#[cfg(test)]
mod tests {
    use prometheus::TextEncoder;

    use super::*;

    #[test]
    fn calls_are_counted_by_upstream_operation_names() {
        let registry = Registry::new();
        let operations = Operations::new(&registry).unwrap();
        operations.done("ListPodSandbox", false, Duration::from_millis(3));
        operations.done("RemoveContainer", true, Duration::from_secs(1));
        let text = TextEncoder::new().encode_to_string(&registry.gather()).unwrap();
        for line in [
            r#"kubelet_runtime_operations_total{operation_type="list_podsandbox"} 1"#,
            r#"kubelet_runtime_operations_errors_total{operation_type="remove_container"} 1"#,
            r#"kubelet_runtime_operations_duration_seconds_bucket{operation_type="list_podsandbox",le="0.005"} 1"#,
            r#"kubelet_runtime_operations_duration_seconds_sum{operation_type="remove_container"} 1"#,
        ] {
            assert!(text.contains(line), "{line} is not in\n{text}");
        }
        assert!(!text.contains(r#"errors_total{operation_type="list_podsandbox"}"#), "{text}");
    }
}
