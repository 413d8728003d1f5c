//! The annotations that distinguish static pods of a node from pods of the API.

/// The uid of a static pod when it was first seen, on the static pod.
pub const CONFIG_HASH: &str = "kubernetes.io/config.hash";
/// The uid of the static pod, on its mirror pod in the API.
pub const CONFIG_MIRROR: &str = "kubernetes.io/config.mirror";
/// When a pod was first seen; set by its source.
pub const CONFIG_SEEN: &str = "kubernetes.io/config.seen";
/// The source of a pod.
pub const CONFIG_SOURCE: &str = "kubernetes.io/config.source";

/// All of these annotations.
pub(crate) const ALL: &[&str] = &[CONFIG_HASH, CONFIG_MIRROR, CONFIG_SEEN, CONFIG_SOURCE];

/// Value of [`CONFIG_SOURCE`] for pods from manifests in a directory.
pub const SOURCE_FILE: &str = "file";
/// Value of [`CONFIG_SOURCE`] for pods from a URL.
pub const SOURCE_HTTP: &str = "http";
/// Value of [`CONFIG_SOURCE`] for pods from the API.
pub const SOURCE_API: &str = "api";
