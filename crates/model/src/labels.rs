//! Labels and annotations of sandboxes and containers, with upstream's names.

/// Name of the pod.
pub const POD_NAME: &str = "io.kubernetes.pod.name";
/// Namespace of the pod.
pub const POD_NAMESPACE: &str = "io.kubernetes.pod.namespace";
/// UID of the pod.
pub const POD_UID: &str = "io.kubernetes.pod.uid";
/// Name of the container in the pod spec.
pub const CONTAINER_NAME: &str = "io.kubernetes.container.name";

/// Hash of the container's definition: a change replaces the container.
pub const CONTAINER_HASH: &str = "io.kubernetes.container.hash";
/// The restart count of the container.
pub const CONTAINER_RESTART_COUNT: &str = "io.kubernetes.container.restartCount";
/// The CPU and memory of the container at its creation; only ferrolet has this annotation.
pub const CONTAINER_SIZE: &str = "io.ferrolet.container.size";
/// The allocated CPU and memory of the pod at the creation of its sandbox, on the sandbox; only
/// ferrolet has this annotation.
pub const POD_SIZES: &str = "io.ferrolet.pod.sizes";
/// The termination message path in the container.
pub const CONTAINER_TERMINATION_MESSAGE_PATH: &str =
    "io.kubernetes.container.terminationMessagePath";
/// The termination message policy.
pub const CONTAINER_TERMINATION_MESSAGE_POLICY: &str =
    "io.kubernetes.container.terminationMessagePolicy";
/// The preStop hook, as JSON.
pub const CONTAINER_PRE_STOP_HANDLER: &str = "io.kubernetes.container.preStopHandler";
/// Ports of the container, as JSON.
pub const CONTAINER_PORTS: &str = "io.kubernetes.container.ports";
/// Grace period of the pod spec.
pub const POD_TERMINATION_GRACE: &str = "io.kubernetes.pod.terminationGracePeriod";
/// Grace period of the pod's deletion.
pub const POD_DELETION_GRACE: &str = "io.kubernetes.pod.deletionGracePeriod";
