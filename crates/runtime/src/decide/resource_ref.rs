//! Resource fields of a container for its environment (downward API).

use k8s_openapi::api::core::v1::{Container, Pod, ResourceFieldSelector};
use podspec::downward::{container_named, limits_or, resource};
use podspec::resources::{self, Amounts};

use super::ConfigError;

/// The value of a resource of a container, of this one if none is named. The default of a limit is
/// that of the pod, else the allocatable amount of the node; an init container
/// by name has no default.
pub fn container_resource(
    selector: &ResourceFieldSelector,
    pod: &Pod,
    container: &Container,
    allocatable: &Amounts,
) -> Result<String, ConfigError> {
    let (container, has_defaults) = match selector.container_name.as_deref().unwrap_or_default() {
        "" => (container, true),
        // Upstream has defaults for limits of regular containers only.
        name => {
            container_named(pod, name).ok_or_else(|| ConfigError::NoContainer(name.to_owned()))?
        }
    };
    let limits = if has_defaults {
        limits_or(container, &[&resources::limits_of_whole(pod), allocatable])
    } else {
        resources::limits(container)
    };
    resource(selector, container, &limits)
        .ok_or_else(|| ConfigError::Resource(selector.resource.clone()))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use k8s_openapi::api::core::v1::ResourceRequirements;
    use k8s_openapi::apimachinery::pkg::api::resource::Quantity as ApiQuantity;
    use podspec::quantity::Quantity;
    use podspec::resources::{CPU, EPHEMERAL_STORAGE, MEMORY};
    use testkit::pods;

    use super::*;

    fn amounts(list: &[(&str, &str)]) -> BTreeMap<String, ApiQuantity> {
        list.iter().map(|(n, v)| ((*n).to_owned(), ApiQuantity((*v).to_owned()))).collect()
    }

    fn value(container: &str, resource: &str, divisor: &str) -> Result<String, ConfigError> {
        value_in(&[], container, resource, divisor)
    }

    /// In a pod with these pod-level limits.
    fn value_in(
        whole: &[(&str, &str)],
        container: &str,
        resource: &str,
        divisor: &str,
    ) -> Result<String, ConfigError> {
        let limited = Container {
            name: "limited".to_owned(),
            resources: Some(ResourceRequirements {
                requests: Some(amounts(&[("cpu", "250m"), ("memory", "10Mi")])),
                limits: Some(amounts(&[
                    ("cpu", "1500m"),
                    ("memory", "100M"),
                    ("hugepages-2Mi", "4Mi"),
                ])),
                claims: None,
            }),
            ..Container::default()
        };
        let plain = Container { name: "plain".to_owned(), ..Container::default() };
        let mut pod = pods::pod("web").build();
        let spec = pod.spec.as_mut().unwrap();
        let init = |name: &str, container: &Container| Container {
            name: name.to_owned(),
            ..container.clone()
        };
        spec.init_containers = Some(vec![init("bare", &plain), init("bound", &limited)]);
        spec.containers = vec![limited, plain.clone()];
        spec.resources = (!whole.is_empty()).then(|| ResourceRequirements {
            limits: Some(amounts(whole)),
            ..ResourceRequirements::default()
        });
        let allocatable = [(CPU, "2"), (MEMORY, "1Gi"), (EPHEMERAL_STORAGE, "5Gi")];
        let allocatable =
            allocatable.iter().map(|(n, v)| ((*n).to_owned(), Quantity::parse(v).unwrap()));
        let selector = ResourceFieldSelector {
            container_name: (!container.is_empty()).then(|| container.to_owned()),
            resource: resource.to_owned(),
            divisor: (!divisor.is_empty()).then(|| ApiQuantity(divisor.to_owned())),
        };
        container_resource(&selector, &pod, &plain, &allocatable.collect())
    }

    // behaviour: CON-7
    #[test]
    fn resource_refs_are_divided_and_rounded_up() {
        let rows = [
            ("limited", "limits.cpu", "", "2"),
            ("limited", "limits.cpu", "1m", "1500"),
            ("limited", "limits.cpu", "0", "2"),
            ("limited", "requests.cpu", "", "1"),
            ("limited", "requests.memory", "1Mi", "10"),
            ("limited", "limits.memory", "1Mi", "96"),
            ("limited", "limits.memory", "", "100000000"),
            ("limited", "limits.hugepages-2Mi", "1Mi", "4"),
            ("limited", "requests.hugepages-2Mi", "", "0"),
            ("limited", "requests.ephemeral-storage", "", "0"),
            ("", "limits.cpu", "", "2"),
            ("", "limits.memory", "1Mi", "1024"),
            ("", "limits.ephemeral-storage", "1Gi", "5"),
            ("", "requests.memory", "", "0"),
            ("plain", "limits.memory", "1Mi", "1024"),
            ("bound", "limits.cpu", "1m", "1500"),
            ("bare", "limits.cpu", "", "0"),
            ("bare", "limits.memory", "", "0"),
        ];
        for (container, resource, divisor, expected) in rows {
            let result = value(container, resource, divisor);
            assert_eq!(result.as_deref(), Ok(expected), "{container} {resource} {divisor}");
        }
    }

    // behaviour: CON-13
    #[test]
    fn unset_container_limit_defaults_to_the_pod_limit() {
        let whole = [("cpu", "700m"), ("memory", "256Mi"), ("hugepages-2Mi", "8Mi")];
        let rows = [
            (&whole[..], "", "limits.cpu", "1m", "700"),
            (&whole, "plain", "limits.memory", "1Mi", "256"),
            (&whole, "limited", "limits.cpu", "1m", "1500"),
            (&whole, "", "limits.ephemeral-storage", "1Gi", "5"),
            (&whole, "", "limits.hugepages-2Mi", "", "0"),
            (&whole, "bare", "limits.cpu", "", "0"),
            (&whole[1..], "", "limits.cpu", "1m", "2000"),
            (&[("memory", "0")], "", "limits.memory", "1Mi", "1024"),
        ];
        for (whole, container, resource, divisor, expected) in rows {
            let result = value_in(whole, container, resource, divisor);
            assert_eq!(result.as_deref(), Ok(expected), "{whole:?} {container} {resource}");
        }
    }

    // behaviour: CON-8
    #[test]
    fn unknown_resource_ref_is_an_error_that_names_it() {
        let unknown = value("missing", "limits.cpu", "").unwrap_err();
        assert_eq!(unknown.to_string(), "container missing not found");
        for resource in ["limits.pods", "cpu", "used.cpu"] {
            let error = value("", resource, "").unwrap_err();
            assert_eq!(error.to_string(), format!("unsupported container resource : {resource}"));
        }
    }
}
