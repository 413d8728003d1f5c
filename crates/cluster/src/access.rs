//! The permissions that this adapter needs on the API server.

/// A verb on a resource.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Permission {
    /// The API group; empty for the core.
    pub group: &'static str,
    /// The resource, followed by the subresource if there is one.
    pub resource: &'static str,
    /// The verb.
    pub verb: &'static str,
}

const fn may(group: &'static str, resource: &'static str, verb: &'static str) -> Permission {
    Permission { group, resource, verb }
}

/// The permissions of the Pod GC controller. Every authenticated user may read `/healthz`. The Node authorizer
/// grants the permissions of a node.
pub const NEEDED: &[Permission] = &[
    may("", "events", "create"),
    may("", "nodes", "get"),
    may("", "nodes", "list"),
    may("", "nodes", "watch"),
    may("", "pods", "delete"),
    may("", "pods", "list"),
    may("", "pods", "watch"),
    may("", "pods/status", "patch"),
    may("authentication.k8s.io", "tokenreviews", "create"),
    may("authorization.k8s.io", "subjectaccessreviews", "create"),
    may("coordination.k8s.io", "leases", "create"),
    may("coordination.k8s.io", "leases", "get"),
    may("coordination.k8s.io", "leases", "update"),
];
