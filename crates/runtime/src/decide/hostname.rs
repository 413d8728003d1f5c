//! The hostname of a pod.

use k8s_openapi::api::core::v1::Pod;
use podspec::view;

use super::ConfigError;
use super::node::NodeSettings;

/// The longest hostname of a pod.
const LONGEST_HOSTNAME: usize = 63;
/// The longest hostname of the kernel.
const LONGEST_FQDN: usize = 64;

/// The hostname and domain of a pod.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PodHostname {
    /// The hostname.
    pub hostname: String,
    /// The domain; empty without one.
    pub domain: String,
}

/// The hostname: `hostnameOverride`, if enabled, or `hostname`, or the pod's name.
pub fn pod_hostname(pod: &Pod, node: &NodeSettings) -> PodHostname {
    let spec = view::spec(pod);
    let name = view::pod_name(pod);
    let cluster_domain = &node.cluster_domain;
    let whole = spec.and_then(|spec| spec.hostname_override.as_deref());
    if let Some(whole) = whole.filter(|_| node.hostname_overrides) {
        return PodHostname { hostname: cut(whole), domain: String::new() };
    }
    let set = |field: Option<&String>| field.filter(|text| !text.is_empty()).cloned();
    let spec_hostname = set(spec.and_then(|spec| spec.hostname.as_ref()));
    let subdomain = set(spec.and_then(|spec| spec.subdomain.as_ref()));
    let domain = subdomain
        .map(|subdomain| format!("{subdomain}.{}.svc.{cluster_domain}", name.namespace))
        .unwrap_or_default();
    PodHostname { hostname: cut(spec_hostname.as_deref().unwrap_or(&name.name)), domain }
}

/// The hostname for the kernel: without the domain, or with it if the pod sets `setHostnameAsFQDN`.
pub fn kernel_hostname(pod: &Pod, name: PodHostname) -> Result<String, ConfigError> {
    let as_fqdn = view::spec(pod).and_then(|spec| spec.set_hostname_as_fqdn) == Some(true);
    if name.domain.is_empty() || !as_fqdn {
        return Ok(name.hostname);
    }
    let fqdn = format!("{}.{}", name.hostname, name.domain);
    if fqdn.len() > LONGEST_FQDN { Err(ConfigError::LongFqdn { fqdn }) } else { Ok(fqdn) }
}

/// Names are ASCII: validation ensures that.
fn cut(name: &str) -> String {
    if name.len() <= LONGEST_HOSTNAME {
        return name.to_owned();
    }
    let cut: String = name.chars().take(LONGEST_HOSTNAME).collect();
    cut.trim_end_matches(['-', '.']).to_owned()
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::PodSpec;
    use testkit::pods;

    use super::*;

    fn pod(name: &str, spec: PodSpec) -> Pod {
        Pod { spec: Some(spec), ..pods::pod(name).namespace("shop").build() }
    }

    fn node() -> NodeSettings {
        NodeSettings {
            cluster_domain: "cluster.local".to_owned(),
            hostname_overrides: true,
            ..NodeSettings::default()
        }
    }

    // behaviour: CON-20, CON-21, CON-22
    #[test]
    fn hostname_is_the_one_of_the_spec_or_the_pod_name() {
        let long = format!("{}-{}", "a".repeat(62), "b".repeat(20));
        let cut = "a".repeat(62);
        let rows = [
            ("web", PodSpec::default(), "web", "", "web"),
            (long.as_str(), PodSpec::default(), cut.as_str(), "", cut.as_str()),
            (
                "web",
                PodSpec { hostname: Some("here".to_owned()), ..PodSpec::default() },
                "here",
                "",
                "here",
            ),
            (
                "web",
                PodSpec { subdomain: Some("sub".to_owned()), ..PodSpec::default() },
                "web",
                "sub.shop.svc.cluster.local",
                "web",
            ),
            (
                "web",
                PodSpec {
                    hostname: Some("here".to_owned()),
                    subdomain: Some("sub".to_owned()),
                    set_hostname_as_fqdn: Some(true),
                    ..PodSpec::default()
                },
                "here",
                "sub.shop.svc.cluster.local",
                "here.sub.shop.svc.cluster.local",
            ),
            (
                "web",
                PodSpec {
                    hostname_override: Some("some.where.else".to_owned()),
                    hostname: Some("here".to_owned()),
                    subdomain: Some("sub".to_owned()),
                    set_hostname_as_fqdn: Some(true),
                    ..PodSpec::default()
                },
                "some.where.else",
                "",
                "some.where.else",
            ),
        ];
        for (name, spec, hostname, domain, kernel) in rows {
            let pod = pod(name, spec);
            let named = pod_hostname(&pod, &node());
            assert_eq!((named.hostname.as_str(), named.domain.as_str()), (hostname, domain));
            assert_eq!(kernel_hostname(&pod, named).unwrap(), kernel);
        }
        let whole = Some("some.where.else".to_owned());
        let pod = pod("web", PodSpec { hostname_override: whole, ..PodSpec::default() });
        let unheeded = NodeSettings { hostname_overrides: false, ..node() };
        assert_eq!(pod_hostname(&pod, &unheeded).hostname, "web", "without the gate");
    }

    // behaviour: CON-23
    #[test]
    fn fqdn_too_long_for_the_kernel_is_an_error() {
        let spec = PodSpec {
            subdomain: Some("sub".to_owned()),
            set_hostname_as_fqdn: Some(true),
            ..PodSpec::default()
        };
        // The domain has 26 characters and the dot one.
        for (length, fits) in [(37, true), (38, false)] {
            let pod = pod(&"a".repeat(length), spec.clone());
            let kernel = kernel_hostname(&pod, pod_hostname(&pod, &node()));
            assert_eq!(kernel.is_ok(), fits, "{kernel:?}");
        }
        let pod = pod(&"a".repeat(38), spec);
        let error = kernel_hostname(&pod, pod_hostname(&pod, &node())).unwrap_err();
        let expected = format!(
            "failed to construct FQDN from pod hostname and cluster domain, FQDN {}.sub.shop.svc.cluster.local \
             is too long (64 characters is the max, 65 characters requested)",
            "a".repeat(38)
        );
        assert_eq!(error.to_string(), expected);
    }
}
