//! The annotations by which a node tells pods of its own from pods of the API.

/// Uid of a static pod at its first sight, on the static pod.
pub const CONFIG_HASH: &str = "kubernetes.io/config.hash";
/// Uid of the static pod, on its mirror in the API.
pub const CONFIG_MIRROR: &str = "kubernetes.io/config.mirror";
/// When a pod was first seen; set by the source that saw it.
pub const CONFIG_SEEN: &str = "kubernetes.io/config.seen";
/// Which source a pod comes from.
pub const CONFIG_SOURCE: &str = "kubernetes.io/config.source";

/// All of them.
pub(crate) const ALL: &[&str] = &[CONFIG_HASH, CONFIG_MIRROR, CONFIG_SEEN, CONFIG_SOURCE];

/// Value of [`CONFIG_SOURCE`] for pods from manifests in a directory.
pub const SOURCE_FILE: &str = "file";
/// Value of [`CONFIG_SOURCE`] for pods from a URL.
pub const SOURCE_HTTP: &str = "http";
/// Value of [`CONFIG_SOURCE`] for pods from the API.
pub const SOURCE_API: &str = "api";
