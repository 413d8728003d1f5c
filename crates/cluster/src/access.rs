//! What this adapter asks of the API server, for those who grant it.

/// A verb on a resource.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Permission {
    /// The API group; empty for the core.
    pub group: &'static str,
    /// The resource, with a subresource if it is one.
    pub resource: &'static str,
    /// The verb.
    pub verb: &'static str,
}

const fn may(group: &'static str, resource: &'static str, verb: &'static str) -> Permission {
    Permission { group, resource, verb }
}

/// All that the Pod GC controller asks for. `/healthz` everybody may get who is known at all. What a node
/// asks for, the Node authorizer grants.
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
