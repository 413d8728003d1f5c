//! Pod lists in the API format.

use hyper::StatusCode;
use k8s_openapi::api::core::v1::Pod;
use serde_json::{Value, json};

use super::{RunningPods, pages};
use crate::parts::{PodAndStatus, PodView};
use crate::respond::{Answer, error_text};

/// The pods of the node, each with its status.
pub(super) fn pods(pods: &dyn PodView) -> Answer {
    list(pods.pods().iter().map(PodAndStatus::joined))
}

/// The running pods of the runtime.
pub(super) fn running(pods: &dyn RunningPods) -> Answer {
    list(pods.running_pods().into_iter())
}

fn list(pods: impl Iterator<Item = Pod>) -> Answer {
    match encoded(pods) {
        Ok(content) => pages::json(content),
        Err(error) => error_text(StatusCode::INTERNAL_SERVER_ERROR, error.to_string()),
    }
}

fn encoded(pods: impl Iterator<Item = Pod>) -> Result<String, serde_json::Error> {
    let item = |pod: Pod| {
        let mut pod = serde_json::to_value(pod)?;
        // The list has both.
        if let Value::Object(fields) = &mut pod {
            fields.remove("apiVersion");
            fields.remove("kind");
        }
        Ok(pod)
    };
    let items: Vec<Value> = pods.map(item).collect::<Result<_, serde_json::Error>>()?;
    // Upstream writes null for a list without items.
    let items = if items.is_empty() { Value::Null } else { items.into() };
    let list = json!({ "kind": "PodList", "apiVersion": "v1", "metadata": {}, "items": items });
    Ok(format!("{list}\n"))
}

#[cfg(test)]
mod tests {
    use super::*;

    // behaviour: SRV-21
    #[test]
    fn pods_are_listed_in_the_api_format() {
        let mut pod = Pod::default();
        pod.metadata.name = Some("web".to_owned());
        let list: Value = serde_json::from_str(&encoded([pod].into_iter()).unwrap()).unwrap();
        let expected = json!({
            "kind": "PodList",
            "apiVersion": "v1",
            "metadata": {},
            "items": [{ "metadata": { "name": "web" } }],
        });
        assert_eq!(list, expected);
        let none: Value = serde_json::from_str(&encoded([].into_iter()).unwrap()).unwrap();
        assert!(none["items"].is_null());
    }
}
