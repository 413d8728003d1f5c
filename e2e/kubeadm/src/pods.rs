//! Pods, as far as the steps compare them.

use std::collections::BTreeMap;
use std::fmt;

use serde_json::Value;

/// A container: its ID and how often it was restarted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Container {
    pub id: String,
    pub restarts: u64,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pod {
    pub namespace: String,
    pub name: String,
    pub node: String,
    pub ip: String,
    pub is_ready: bool,
    /// Whether it is the mirror of a static pod.
    pub is_static: bool,
    pub containers: BTreeMap<String, Container>,
}

/// Pods by UID.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Pods {
    by_uid: BTreeMap<String, Pod>,
}

impl Pods {
    /// The pods of a list.
    pub fn of(list: &Value) -> Self {
        let items = list["items"].as_array().map(Vec::as_slice).unwrap_or_default();
        let by_uid = items.iter().map(|pod| (text(&pod["metadata"]["uid"]), Pod::of(pod)));
        Self { by_uid: by_uid.collect() }
    }

    pub fn len(&self) -> usize {
        self.by_uid.len()
    }

    pub fn is_empty(&self) -> bool {
        self.by_uid.is_empty()
    }

    pub fn are_ready(&self) -> bool {
        self.by_uid.values().all(|pod| pod.is_ready)
    }

    /// Those on a node.
    #[must_use]
    pub fn on(&self, node: &str) -> Self {
        self.filtered(|pod| pod.node == node)
    }

    #[must_use]
    pub fn without_static(&self) -> Self {
        self.filtered(|pod| !pod.is_static)
    }

    #[must_use]
    pub fn ready(&self) -> Self {
        self.filtered(|pod| pod.is_ready)
    }

    fn filtered(&self, keep: impl Fn(&Pod) -> bool) -> Self {
        let mut by_uid = self.by_uid.clone();
        by_uid.retain(|_, pod| keep(pod));
        Self { by_uid }
    }

    /// The first pod whose name begins so.
    pub fn named(&self, prefix: &str) -> Option<&Pod> {
        self.by_uid.values().find(|pod| pod.name.starts_with(prefix))
    }

    /// What differs in later pods: missing ones, other containers and restarts.
    pub fn differences(&self, later: &Self) -> Vec<String> {
        let changed = |(uid, pod): (&String, &Pod)| match later.by_uid.get(uid) {
            None => Some(format!("{}/{} is gone", pod.namespace, pod.name)),
            Some(now) if now.containers != pod.containers => Some(format!(
                "{}/{} has other containers: {:?}, before {:?}",
                pod.namespace, pod.name, now.containers, pod.containers
            )),
            Some(_) => None,
        };
        self.by_uid.iter().filter_map(changed).collect()
    }
}

impl Pod {
    fn of(pod: &Value) -> Self {
        let status = &pod["status"];
        let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
        let is_ready = list(&status["conditions"])
            .iter()
            .any(|condition| condition["type"] == "Ready" && condition["status"] == "True");
        let containers = list(&status["containerStatuses"]).into_iter().map(|container| {
            let restarts = container["restartCount"].as_u64().unwrap_or_default();
            (text(&container["name"]), Container { id: text(&container["containerID"]), restarts })
        });
        Self {
            namespace: text(&pod["metadata"]["namespace"]),
            name: text(&pod["metadata"]["name"]),
            node: text(&pod["spec"]["nodeName"]),
            ip: text(&status["podIP"]),
            is_ready,
            is_static: pod["metadata"]["annotations"]["kubernetes.io/config.mirror"].is_string(),
            containers: containers.collect(),
        }
    }
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

impl fmt::Display for Pods {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (number, pod) in self.by_uid.values().enumerate() {
            let separator = if number == 0 { "" } else { ", " };
            let state = if pod.is_ready { "ready" } else { "not ready" };
            write!(f, "{separator}{}/{} on {:?}: {state}", pod.namespace, pod.name, pod.node)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn pods(id: &str, restarts: u64, ready: &str) -> Pods {
        Pods::of(&json!({ "items": [{
            "metadata": { "uid": "u", "namespace": "ns", "name": "web-1" },
            "spec": { "nodeName": "node-1" },
            "status": {
                "podIP": "10.0.0.1",
                "conditions": [{ "type": "Ready", "status": ready }],
                "containerStatuses": [{ "name": "web", "containerID": id, "restartCount": restarts }],
            },
        }] }))
    }

    #[test]
    fn changed_containers_and_missing_pods_are_differences() {
        let before = pods("a", 0, "True");
        assert_eq!(before.differences(&pods("a", 0, "False")), [""; 0]);
        assert_eq!(before.differences(&pods("b", 1, "True")).len(), 1);
        assert_eq!(before.differences(&Pods::default()), ["ns/web-1 is gone"]);
    }

    #[test]
    fn pods_are_selected_by_node_and_name() {
        let pods = pods("a", 0, "False");
        assert_eq!((pods.on("node-1").len(), pods.on("node-2").len()), (1, 0));
        assert_eq!(pods.without_static(), pods);
        assert_eq!(pods.named("web").map(|pod| pod.ip.as_str()), Some("10.0.0.1"));
        assert_eq!(pods.to_string(), r#"ns/web-1 on "node-1": not ready"#);
        assert!(!pods.are_ready() && pods.ready().is_empty());
    }
}
