//! Fields of a pod for its environment (downward API).

use std::net::IpAddr;

use k8s_openapi::api::core::v1::{ObjectFieldSelector, Pod};
use podspec::downward::{metadata_field, subscript};
use podspec::view;

use super::ConfigError;

/// The value of a field of the pod. `ips` are the pod's, those of the preferred IP family first;
/// `node_ips` are the node's, as in its status.
pub fn pod_field(
    selector: &ObjectFieldSelector,
    pod: &Pod,
    ips: &[IpAddr],
    prefers_v6: bool,
    node_ips: &[IpAddr],
) -> Result<String, ConfigError> {
    let version = selector.api_version.as_deref().unwrap_or("v1");
    if version != "v1" {
        return Err(ConfigError::FieldVersion(version.to_owned()));
    }
    let path = selector.field_path.as_str();
    let metadata = &pod.metadata;
    if let Some((path, key)) = subscript(path) {
        let map = match path {
            "metadata.labels" => metadata.labels.as_ref(),
            "metadata.annotations" => metadata.annotations.as_ref(),
            _ => return Err(ConfigError::FieldSubscript(selector.field_path.clone())),
        };
        return Ok(map.and_then(|map| map.get(key)).cloned().unwrap_or_default());
    }
    if let Some(value) = metadata_field(pod, path) {
        return Ok(value);
    }
    let spec = view::spec(pod);
    let text = |field: Option<&String>| Ok(field.cloned().unwrap_or_default());
    match path {
        // The second is a former name of the field.
        "spec.nodeName" | "spec.host" => text(spec.and_then(|spec| spec.node_name.as_ref())),
        "spec.serviceAccountName" => text(spec.and_then(|spec| spec.service_account_name.as_ref())),
        "status.hostIP" => node_ips.first().map(IpAddr::to_string).ok_or(ConfigError::NoHostIp),
        "status.hostIPs" if node_ips.is_empty() => Err(ConfigError::NoHostIp),
        "status.hostIPs" => Ok(joined(node_ips)),
        "status.podIP" => {
            Ok(preferred(ips, prefers_v6).first().map(IpAddr::to_string).unwrap_or_default())
        }
        "status.podIPs" => Ok(joined(&preferred(ips, prefers_v6))),
        "spec.restartPolicy" | "spec.schedulerName" | "status.phase" => {
            Err(ConfigError::FieldPath(path.to_owned()))
        }
        _ => Err(ConfigError::FieldLabel(path.to_owned())),
    }
}

fn joined(ips: &[IpAddr]) -> String {
    ips.iter().map(IpAddr::to_string).collect::<Vec<_>>().join(",")
}

/// One address of each IP family, that of the preferred one first.
fn preferred(ips: &[IpAddr], six_first: bool) -> Vec<IpAddr> {
    let of = |six: bool| ips.iter().find(|ip| ip.is_ipv6() == six).copied();
    [of(six_first), of(!six_first)].into_iter().flatten().collect()
}

#[cfg(test)]
mod tests {
    use testkit::pods;

    use super::*;

    fn field(
        pod: &Pod,
        path: &str,
        ips: &[&str],
        node_ips: &[&str],
    ) -> Result<String, ConfigError> {
        let parsed = |ips: &[&str]| ips.iter().map(|ip| ip.parse().unwrap()).collect::<Vec<_>>();
        let selector =
            ObjectFieldSelector { api_version: Some("v1".to_owned()), field_path: path.to_owned() };
        pod_field(&selector, pod, &parsed(ips), false, &parsed(node_ips))
    }

    // behaviour: CON-5
    #[test]
    fn field_refs_resolve_names_labels_and_addresses() {
        let pod = pods::pod("web").namespace("shop").on_node("node-1");
        let pod = pod.spec(|spec| spec.service_account_name = Some("builder".to_owned()));
        let pod =
            pod.label("app", "web").label("tier", "front").annotation("note", "a \"b\"\n").build();
        let two = ["fd00::5", "10.1.0.5", "10.1.0.6"];
        let rows = [
            ("metadata.name", "web"),
            ("metadata.namespace", "shop"),
            ("metadata.uid", "uid-of-web"),
            ("metadata.labels", "app=\"web\"\ntier=\"front\""),
            ("metadata.annotations", "note=\"a \\\"b\\\"\\n\""),
            ("metadata.labels['app']", "web"),
            ("metadata.labels['none']", ""),
            ("metadata.annotations['note']", "a \"b\"\n"),
            ("spec.nodeName", "node-1"),
            ("spec.serviceAccountName", "builder"),
            ("status.hostIP", "192.0.2.1"),
            ("status.hostIPs", "192.0.2.1"),
            ("status.podIP", "10.1.0.5"),
            ("status.podIPs", "10.1.0.5,fd00::5"),
        ];
        for (path, expected) in rows {
            let value = field(&pod, path, &two, &["192.0.2.1"]);
            assert_eq!(value.as_deref(), Ok(expected), "{path}");
        }
        // The detected addresses of the node do not set the preferred family.
        assert_eq!(field(&pod, "status.podIP", &two, &["2001:db8::1"]).unwrap(), "10.1.0.5");
        let v6_first = two.map(|ip| ip.parse().unwrap());
        assert_eq!(joined(&preferred(&v6_first, true)), "fd00::5,10.1.0.5");
        assert_eq!(field(&pod, "status.podIP", &[], &[]).unwrap(), "");
        let both = ["192.0.2.1", "2001:db8::1"];
        assert_eq!(field(&pod, "status.hostIP", &two, &both).unwrap(), "192.0.2.1");
        assert_eq!(field(&pod, "status.hostIPs", &two, &both).unwrap(), "192.0.2.1,2001:db8::1");
        let without = pods::pod("web").build();
        assert_eq!(field(&without, "spec.serviceAccountName", &[], &[]).unwrap(), "");
    }

    // behaviour: CON-6
    #[test]
    fn unsupported_field_ref_is_an_error_that_names_it() {
        let pod = pods::pod("web").build();
        let rows = [
            ("status.hostIP", "host IP unknown; known addresses: []"),
            ("status.phase", "unsupported fieldPath: status.phase"),
            ("spec.containers", "field label not supported: spec.containers"),
            ("metadata.name['a']", "field label does not support subscript: metadata.name['a']"),
        ];
        for (path, expected) in rows {
            assert_eq!(field(&pod, path, &[], &[]).unwrap_err().to_string(), expected);
        }
    }
}
