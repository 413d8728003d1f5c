//! Which pod is meant.

use k8s_openapi::api::core::v1::Pod;
use podspec::view;
use server::wire::PodItem;

/// Why it is not clear which pod is meant.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum SelectError {
    /// There is no such pod.
    #[error("pod {0:?} not found")]
    NotFound(String),
    /// There are several.
    #[error("pod {asked:?} may be any of {}: say which as NAMESPACE/NAME", found.join(", "))]
    Ambiguous {
        /// What was asked for.
        asked: String,
        /// What it may be.
        found: Vec<String>,
    },
}

/// Finds a pod by `NAME` or `NAMESPACE/NAME`, where the node's name behind a pod's name may be left
/// out. An exact name goes before one that needs the node's, and of two pods of one name the one
/// that is not on its way out.
pub(crate) fn select(pods: Vec<PodItem<Pod>>, asked: &str) -> Result<PodItem<Pod>, SelectError> {
    let (namespace, name) = match asked.split_once('/') {
        Some((namespace, name)) => (Some(namespace), name),
        None => (None, asked),
    };
    let (mut exact, mut short) = (Vec::new(), Vec::new());
    for item in pods {
        let found = view::pod_name(&item.pod);
        if namespace.is_some_and(|namespace| namespace != &*found.namespace) {
            continue;
        }
        if name == &*found.name {
            exact.push(item);
        } else if Some(name) == without_node(&item.pod, &found.name) {
            short.push(item);
        }
    }
    let mut found = if exact.is_empty() { short } else { exact };
    found.sort_by_key(|item| {
        let began = item.pod.status.as_ref().and_then(|status| status.start_time.clone());
        (view::is_being_deleted(&item.pod), std::cmp::Reverse(began))
    });
    let mut names: Vec<String> =
        found.iter().map(|item| view::pod_name(&item.pod).to_string()).collect();
    names.sort();
    names.dedup();
    match names.len() {
        0 => Err(SelectError::NotFound(asked.to_owned())),
        1 => Ok(found.swap_remove(0)),
        _ => Err(SelectError::Ambiguous { asked: asked.to_owned(), found: names }),
    }
}

/// A pod's name without that of its node.
fn without_node<'a>(pod: &Pod, name: &'a str) -> Option<&'a str> {
    let node = view::spec(pod)?.node_name.as_deref()?;
    name.strip_suffix(node)?.strip_suffix('-')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pod(namespace: &str, name: &str) -> PodItem<Pod> {
        let mut pod = testkit::pods::pod(name).container("main", "image", [""; 0]).build();
        pod.metadata.namespace = Some(namespace.to_owned());
        pod.spec.as_mut().unwrap().node_name = Some("node".to_owned());
        PodItem { pod, last_event: None }
    }

    fn selected(asked: &str) -> Result<String, String> {
        let pods = vec![
            pod("default", "web-node"),
            pod("default", "web"),
            pod("default", "db-node"),
            pod("kube-system", "db-node"),
            pod("kube-system", "dns-node"),
        ];
        let item = select(pods, asked).map_err(|error| error.to_string())?;
        Ok(view::pod_name(&item.pod).to_string())
    }

    #[test]
    fn a_pod_is_found_by_its_name_with_or_without_its_nodes() {
        let ok = |name: &str| Ok(name.to_owned());
        let rows = [
            ("web", ok("default/web")),
            ("web-node", ok("default/web-node")),
            ("dns", ok("kube-system/dns-node")),
            ("default/db", ok("default/db-node")),
            ("kube-system/db-node", ok("kube-system/db-node")),
            ("other", Err("pod \"other\" not found".to_owned())),
            ("kube-system/web", Err("pod \"kube-system/web\" not found".to_owned())),
            (
                "db",
                Err("pod \"db\" may be any of default/db-node, kube-system/db-node: \
                     say which as NAMESPACE/NAME"
                    .to_owned()),
            ),
        ];
        for (asked, expected) in rows {
            assert_eq!(selected(asked), expected, "{asked}");
        }
    }

    #[test]
    fn of_two_with_one_name_the_one_that_stays_is_meant() {
        let mut old = pod("default", "web");
        old.pod.metadata.uid = Some("old".to_owned());
        old.pod.metadata.deletion_timestamp =
            serde_json::from_str("\"2026-01-01T00:00:00Z\"").unwrap();
        let found = select(vec![old, pod("default", "web")], "web").unwrap();
        assert_eq!(found.pod.metadata.uid.as_deref(), Some("uid-of-web"));
    }
}
