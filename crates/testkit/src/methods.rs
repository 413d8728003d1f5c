//! The methods of the CRI by name.

/// All of them, in order.
const METHODS: [&str; 41] = [
    "Attach",
    "CheckpointContainer",
    "ContainerStats",
    "ContainerStatus",
    "CreateContainer",
    "Exec",
    "ExecSync",
    "GetContainerEvents",
    "ImageFsInfo",
    "ImageStatus",
    "ListContainerStats",
    "ListContainers",
    "ListImages",
    "ListMetricDescriptors",
    "ListPodSandbox",
    "ListPodSandboxMetrics",
    "ListPodSandboxStats",
    "PodSandboxStats",
    "PodSandboxStatus",
    "PortForward",
    "PullImage",
    "RemoveContainer",
    "RemoveImage",
    "RemovePodSandbox",
    "ReopenContainerLog",
    "RunPodSandbox",
    "RuntimeConfig",
    "StartContainer",
    "Status",
    "StopContainer",
    "StopPodSandbox",
    "StreamContainerStats",
    "StreamContainers",
    "StreamImages",
    "StreamPodSandboxMetrics",
    "StreamPodSandboxStats",
    "StreamPodSandboxes",
    "UpdateContainerResources",
    "UpdatePodSandboxResources",
    "UpdateRuntimeConfig",
    "Version",
];

/// The method with this name, if the CRI has it.
pub(crate) fn known(method: &str) -> Option<&'static str> {
    METHODS.iter().find(|known| **known == method).copied()
}

#[cfg(feature = "proxy")]
/// The method of a gRPC path: `/runtime.v1.RuntimeService/Version`.
pub(crate) fn of_path(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_cri_method_is_listed() {
        let services = [
            include_str!("../../proto/proto/runtime/v1/runtime_service.proto"),
            include_str!("../../proto/proto/runtime/v1/image_service.proto"),
        ];
        let calls = services.iter().flat_map(|text| text.lines());
        let calls = calls.filter_map(|line| line.trim().strip_prefix("rpc "));
        let mut methods: Vec<&str> = calls.filter_map(|call| call.split('(').next()).collect();
        methods.sort_unstable();
        assert_eq!(methods, METHODS);
    }
}
