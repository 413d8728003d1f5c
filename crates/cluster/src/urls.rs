//! API paths with escaped names.

use std::fmt::Write as _;

/// A name as a path segment.
pub(crate) fn part(name: &str) -> String {
    let mut part = String::with_capacity(name.len());
    for byte in name.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => {
                part.push(char::from(byte));
            }
            byte => write!(part, "%{byte:02X}").expect("a text takes what is written"),
        }
    }
    // Escapes `.` and `..`.
    if part == "." || part == ".." { part.replace('.', "%2E") } else { part }
}

/// The path of the pods of a namespace.
pub(crate) fn pods(namespace: &str) -> String {
    format!("/api/v1/namespaces/{}/pods", part(namespace))
}

/// The path of a pod.
pub(crate) fn pod(namespace: &str, name: &str) -> String {
    format!("{}/{}", pods(namespace), part(name))
}

/// The path of a node.
pub(crate) fn node(name: &str) -> String {
    format!("/api/v1/nodes/{}", part(name))
}

/// The path of the events of a namespace.
pub(crate) fn events(namespace: &str) -> String {
    format!("/api/v1/namespaces/{}/events", part(namespace))
}

/// The path of the leases of a namespace.
pub(crate) fn leases(namespace: &str) -> String {
    format!("/apis/coordination.k8s.io/v1/namespaces/{}/leases", part(namespace))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_escaped_in_urls() {
        assert_eq!(pod("kube-system", "a.b-1"), "/api/v1/namespaces/kube-system/pods/a.b-1");
        assert_eq!(node("../secrets?x=1#"), "/api/v1/nodes/..%2Fsecrets%3Fx%3D1%23");
        assert_eq!(node(".."), "/api/v1/nodes/%2E%2E");
    }
}
