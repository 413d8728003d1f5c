//! Labels and annotations that the agent puts on what it makes, under upstream's names.

/// Name of the pod.
pub const POD_NAME: &str = "io.kubernetes.pod.name";
/// Namespace of the pod.
pub const POD_NAMESPACE: &str = "io.kubernetes.pod.namespace";
/// Uid of the pod.
pub const POD_UID: &str = "io.kubernetes.pod.uid";
/// Name of the container in the pod's specification.
pub const CONTAINER_NAME: &str = "io.kubernetes.container.name";

/// Hash of the container's definition: a change means that it must be made anew.
pub const CONTAINER_HASH: &str = "io.kubernetes.container.hash";
/// How often the container was restarted before.
pub const CONTAINER_RESTART_COUNT: &str = "io.kubernetes.container.restartCount";
/// What the container was made with of processors and memory, of which only ferrolet keeps a note.
pub const CONTAINER_SIZE: &str = "io.ferrolet.container.size";
/// What the pod was given of processors and memory when its sandbox was made, on the sandbox; only
/// ferrolet keeps a note of that, too.
pub const POD_SIZES: &str = "io.ferrolet.pod.sizes";
/// Where the container leaves its last words.
pub const CONTAINER_TERMINATION_MESSAGE_PATH: &str =
    "io.kubernetes.container.terminationMessagePath";
/// Where its last words are looked for.
pub const CONTAINER_TERMINATION_MESSAGE_POLICY: &str =
    "io.kubernetes.container.terminationMessagePolicy";
/// What runs before the container is asked to end, as JSON.
pub const CONTAINER_PRE_STOP_HANDLER: &str = "io.kubernetes.container.preStopHandler";
/// Ports of the container, as JSON.
pub const CONTAINER_PORTS: &str = "io.kubernetes.container.ports";
/// Grace of the pod's specification.
pub const POD_TERMINATION_GRACE: &str = "io.kubernetes.pod.terminationGracePeriod";
/// Grace of the pod's deletion.
pub const POD_DELETION_GRACE: &str = "io.kubernetes.pod.deletionGracePeriod";
