//! The pod CIDRs of the node.

use k8s_openapi::api::core::v1::Node;

/// The pod CIDRs to send to the runtime; `None` while the node has none, or if they
/// were sent already.
pub fn unsent_pod_cidrs(node: &Node, sent: Option<&str>) -> Option<String> {
    let cidrs = node.spec.as_ref()?.pod_cidrs.as_ref()?.join(",");
    (!cidrs.is_empty() && sent != Some(cidrs.as_str())).then_some(cidrs)
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::NodeSpec;

    use super::*;

    // behaviour: NODE-35
    #[test]
    fn changed_pod_cidrs_are_sent() {
        let node = |cidrs: &[&str]| {
            let cidrs = cidrs.iter().map(|one| (*one).to_owned()).collect();
            let spec = NodeSpec { pod_cidrs: Some(cidrs), ..NodeSpec::default() };
            Node { spec: Some(spec), ..Node::default() }
        };
        let both = "10.1.0.0/24,fd00::/64";
        let rows = [
            (Node::default(), None, None),
            (node(&[]), None, None),
            (node(&["10.1.0.0/24", "fd00::/64"]), None, Some(both)),
            (node(&["10.1.0.0/24", "fd00::/64"]), Some(both), None),
            (node(&["10.2.0.0/24"]), Some(both), Some("10.2.0.0/24")),
            (node(&[]), Some(both), None),
        ];
        for (node, sent, expected) in rows {
            assert_eq!(unsent_pod_cidrs(&node, sent).as_deref(), expected, "{sent:?}");
        }
    }
}
