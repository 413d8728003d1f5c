//! Nodes.

use std::borrow::Cow;

use model::cluster::NodeRecord;
use serde::Deserialize;

use super::Metadata;
use super::pod::Condition;

/// The taint of a node that is out of service.
const OUT_OF_SERVICE: &str = "node.kubernetes.io/out-of-service";

/// A node.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Node<'a> {
    #[serde(borrow)]
    pub(crate) metadata: Metadata<'a>,
    #[serde(borrow)]
    spec: Spec<'a>,
    #[serde(borrow)]
    status: Status<'a>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Spec<'a> {
    #[serde(borrow)]
    taints: Vec<Taint<'a>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Taint<'a> {
    #[serde(borrow)]
    key: Cow<'a, str>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Status<'a> {
    #[serde(borrow)]
    conditions: Vec<Condition<'a>>,
}

impl Node<'_> {
    pub(crate) fn record(self) -> NodeRecord {
        let ready = self.status.conditions.iter().find(|condition| condition.kind == "Ready");
        NodeRecord {
            is_ready: ready.is_some_and(|condition| condition.status == "True"),
            is_out_of_service: self.spec.taints.iter().any(|taint| taint.key == OUT_OF_SERVICE),
            name: self.metadata.name.into_owned(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // behaviour: PGC-43, PGC-44
    #[test]
    fn node_readiness_and_out_of_service_taint_are_decoded() {
        let ready = |status: &str| format!(r#"{{"type":"Ready","status":"{status}"}}"#);
        let taint =
            r#"{"key":"node.kubernetes.io/out-of-service","value":"x","effect":"NoSchedule"}"#;
        let rows = [
            (ready("True"), "", (true, false)),
            (ready("False"), "", (false, false)),
            (ready("Unknown"), taint, (false, true)),
            (format!("{},{}", ready("False"), ready("True")), "", (false, false)),
            (r#"{"type":"DiskPressure","status":"True"}"#.to_owned(), taint, (false, true)),
            (String::new(), r#"{"key":"other","effect":"NoExecute"}"#, (false, false)),
        ];
        for (conditions, taints, expected) in rows {
            let json = format!(
                r#"{{"metadata":{{"name":"n"}},"spec":{{"taints":[{taints}]}},"status":{{"conditions":[{conditions}]}}}}"#
            );
            let node = serde_json::from_str::<Node<'_>>(&json).unwrap().record();
            assert_eq!((node.is_ready, node.is_out_of_service), expected, "{json}");
        }
    }
}
