//! Selects a pod by its name.

use std::ffi::OsStr;
use std::path::Path;

use k8s_openapi::api::core::v1::Pod;
use podspec::view;
use server::wire::{PodItem, RefusedManifest};

/// Why no pod can be selected.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum SelectError {
    /// No pod matches.
    #[error("pod {0:?} not found")]
    NotFound(String),
    /// Two namespaces are named.
    #[error("pod {requested:?} is not in namespace {namespace:?}")]
    Elsewhere {
        /// The argument.
        requested: String,
        /// The namespace of the option.
        namespace: String,
    },
    /// Several pods match.
    #[error("pod {requested:?} may be any of {}: name it as NAMESPACE/NAME", found.join(", "))]
    Ambiguous {
        /// The argument.
        requested: String,
        /// The matching pods.
        found: Vec<String>,
    },
}

/// Kinds that may precede a pod's name.
const KINDS: [&str; 3] = ["pod", "pods", "po"];

/// The name of a pod on a command line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct PodSelector<'a> {
    namespace: Option<&'a str>,
    name: &'a str,
}

impl<'a> PodSelector<'a> {
    /// From `NAME`, `NAMESPACE/NAME` or `pod/NAME`, and the namespace of the option.
    pub(crate) fn parse(text: &'a str, namespace: Option<&'a str>) -> Result<Self, SelectError> {
        match text.split_once('/') {
            None => Ok(Self { namespace, name: text }),
            Some((kind, name)) if KINDS.contains(&kind) => Ok(Self { namespace, name }),
            Some((own, _)) if namespace.is_some_and(|other| other != own) => {
                let namespace = namespace.unwrap_or_default().to_owned();
                Err(SelectError::Elsewhere { requested: text.to_owned(), namespace })
            }
            Some((own, name)) => Ok(Self { namespace: Some(own), name }),
        }
    }

    /// Whether no namespace is named.
    pub(crate) fn is_everywhere(self) -> bool {
        self.namespace.is_none()
    }

    /// Whether the namespace matches.
    pub(crate) fn is_in(self, namespace: &str) -> bool {
        self.namespace.is_none_or(|wanted| wanted == namespace)
    }

    /// Whether the name matches.
    pub(crate) fn is_named(self, name: &str) -> bool {
        self.name == name
    }

    /// Whether a pod matches; `Some(true)` if by its full name.
    pub(crate) fn matches(self, pod: &Pod) -> Option<bool> {
        let found = view::pod_name(pod);
        if self.namespace.is_some_and(|namespace| namespace != &*found.namespace) {
            return None;
        }
        if self.name == &*found.name {
            return Some(true);
        }
        (Some(self.name) == without_node(pod, &found.name)).then_some(false)
    }

    /// Whether a manifest matches: by the name of its pod, or by its file name.
    pub(crate) fn matches_manifest(self, refused: &RefusedManifest) -> bool {
        let file = Path::new(&refused.manifest).file_stem();
        if file == Some(OsStr::new(self.name)) {
            return true;
        }
        let pod = refused.pod.as_deref().and_then(|pod| pod.split_once('/'));
        pod.is_some_and(|(namespace, name)| {
            self.namespace.is_none_or(|wanted| wanted == namespace)
                && (name == self.name
                    || name.strip_prefix(self.name).is_some_and(|rest| rest.starts_with('-')))
        })
    }
}

/// The arguments without a leading kind.
pub(crate) fn without_kind(words: &[String]) -> Result<&str, SelectError> {
    match words {
        [kind, name] if KINDS.contains(&kind.as_str()) => Ok(name),
        [name] => Ok(name),
        words => Err(SelectError::NotFound(words.join(" "))),
    }
}

/// Finds a pod by its name, where the node's name suffix may be left out. An exact match is preferred to
/// one without the suffix, and of two pods of one name the one that is not being deleted.
pub(crate) fn select(
    pods: Vec<PodItem<Pod>>,
    requested: &str,
    namespace: Option<&str>,
) -> Result<PodItem<Pod>, SelectError> {
    let wanted = PodSelector::parse(requested, namespace)?;
    let (mut exact, mut short) = (Vec::new(), Vec::new());
    for item in pods {
        match wanted.matches(&item.pod) {
            Some(true) => exact.push(item),
            Some(false) => short.push(item),
            None => {}
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
        0 => Err(SelectError::NotFound(requested.to_owned())),
        1 => Ok(found.swap_remove(0)),
        _ => Err(SelectError::Ambiguous { requested: requested.to_owned(), found: names }),
    }
}

/// A pod's name without the suffix of its node.
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
        PodItem { pod, last_event: None, waiting_volumes: Vec::new(), probes: Vec::new() }
    }

    fn selected(line: &str) -> Result<String, String> {
        let (requested, namespace) = match line.split_once(" -n ") {
            Some((requested, namespace)) => (requested, Some(namespace)),
            None => (line, None),
        };
        let pods = vec![
            pod("default", "web-node"),
            pod("default", "web"),
            pod("default", "db-node"),
            pod("kube-system", "db-node"),
            pod("kube-system", "dns-node"),
        ];
        let item = select(pods, requested, namespace).map_err(|error| error.to_string())?;
        Ok(view::pod_name(&item.pod).to_string())
    }

    #[test]
    fn pod_is_found_by_name_with_or_without_node_suffix() {
        let ok = |name: &str| Ok(name.to_owned());
        let rows = [
            ("web", ok("default/web")),
            ("web-node", ok("default/web-node")),
            ("dns", ok("kube-system/dns-node")),
            ("default/db", ok("default/db-node")),
            ("kube-system/db-node", ok("kube-system/db-node")),
            ("db -n kube-system", ok("kube-system/db-node")),
            ("pod/db -n default", ok("default/db-node")),
            ("default/db -n default", ok("default/db-node")),
            ("dns -n default", Err("pod \"dns\" not found".to_owned())),
            (
                "default/db -n other",
                Err("pod \"default/db\" is not in namespace \"other\"".to_owned()),
            ),
            ("other", Err("pod \"other\" not found".to_owned())),
            ("kube-system/web", Err("pod \"kube-system/web\" not found".to_owned())),
            (
                "db",
                Err("pod \"db\" may be any of default/db-node, kube-system/db-node: \
                     name it as NAMESPACE/NAME"
                    .to_owned()),
            ),
        ];
        for (requested, expected) in rows {
            assert_eq!(selected(requested), expected, "{requested}");
        }
    }

    #[test]
    fn running_pod_is_preferred_over_a_terminating_one_of_the_same_name() {
        let mut old = pod("default", "web");
        old.pod.metadata.uid = Some("old".to_owned());
        old.pod.metadata.deletion_timestamp =
            serde_json::from_str("\"2026-01-01T00:00:00Z\"").unwrap();
        let found = select(vec![old, pod("default", "web")], "web", None).unwrap();
        assert_eq!(found.pod.metadata.uid.as_deref(), Some("uid-of-web"));
    }

    #[test]
    fn refused_manifest_is_found_by_file_or_pod_name() {
        let refused = RefusedManifest {
            manifest: "/manifests/site.yaml".to_owned(),
            message: String::new(),
            pod: Some("default/web-node".to_owned()),
            last_good_stays: false,
        };
        for (name, namespace, expected) in [
            ("site", None, true),
            ("web", None, true),
            ("web-node", Some("default"), true),
            ("web", Some("other"), false),
            ("we", None, false),
        ] {
            let requested = PodSelector::parse(name, namespace).unwrap();
            assert_eq!(requested.matches_manifest(&refused), expected, "{name} {namespace:?}");
        }
    }

    #[test]
    fn pod_name_may_follow_a_kind() {
        let words = |line: &str| line.split(' ').map(str::to_owned).collect::<Vec<_>>();
        assert_eq!(without_kind(&words("web")), Ok("web"));
        assert_eq!(without_kind(&words("pod web")), Ok("web"));
        assert_eq!(without_kind(&words("pod")), Ok("pod"));
        assert!(without_kind(&words("node web")).is_err());
    }
}
