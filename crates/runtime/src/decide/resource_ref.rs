//! What a container can be told about its resources.

use k8s_openapi::api::core::v1::{Container, Pod, ResourceFieldSelector};
use podspec::quantity::Quantity;
use podspec::resources::{self, Amounts, CPU, EPHEMERAL_STORAGE, HUGE_PAGES_PREFIX, MEMORY};
use podspec::view;

use super::ConfigError;

/// The value of a resource of a container, of this one if none is named. A limit that is not set is
/// that of the pod as a whole, else what pods can have of the node at all; that of an init container
/// by name is nothing.
pub fn container_resource(
    selector: &ResourceFieldSelector,
    pod: &Pod,
    container: &Container,
    allocatable: &Amounts,
) -> Result<String, ConfigError> {
    let (container, has_defaults) = match selector.container_name.as_deref().unwrap_or_default() {
        "" => (container, true),
        name => named(pod, name).ok_or_else(|| ConfigError::NoContainer(name.to_owned()))?,
    };
    let unsupported = || ConfigError::Resource(selector.resource.clone());
    let (kind, name) = selector.resource.split_once('.').ok_or_else(unsupported)?;
    let is_known =
        matches!(name, CPU | MEMORY | EPHEMERAL_STORAGE) || name.starts_with(HUGE_PAGES_PREFIX);
    let amounts = match kind {
        _ if !is_known => return Err(unsupported()),
        "requests" => resources::requests(container),
        "limits" if has_defaults => with_defaults(resources::limits(container), pod, allocatable),
        "limits" => resources::limits(container),
        _ => return Err(unsupported()),
    };
    let amount = amounts.get(name).copied().unwrap_or(Quantity::ZERO);
    let divisor = selector.divisor.as_ref().and_then(|text| Quantity::parse(&text.0).ok());
    let divisor = divisor.filter(|divisor| !divisor.is_zero());
    let (amount, divisor) = if name == CPU {
        (amount.milli_value(), divisor.map_or(1000, |divisor| divisor.milli_value()))
    } else {
        (amount.value(), divisor.map_or(1, |divisor| divisor.value()))
    };
    Ok(divided(amount, divisor).to_string())
}

/// The container of that name, and whether its limits have defaults: upstream gives them to regular
/// ones alone.
fn named<'a>(pod: &'a Pod, name: &str) -> Option<(&'a Container, bool)> {
    let regular = view::containers(pod).iter().map(|container| (container, true));
    let init = view::init_containers(pod).iter().map(|container| (container, false));
    regular.chain(init).find(|(container, _)| container.name == name)
}

fn with_defaults(mut limits: Amounts, pod: &Pod, allocatable: &Amounts) -> Amounts {
    let of_pod = resources::limits_of_whole(pod);
    for name in [CPU, MEMORY, EPHEMERAL_STORAGE] {
        let unset = limits.get(name).is_none_or(Quantity::is_zero);
        let whole = of_pod.get(name).filter(|amount| !amount.is_zero());
        if let Some(amount) = whole.or_else(|| allocatable.get(name)).filter(|_| unset) {
            limits.insert(name.to_owned(), *amount);
        }
    }
    limits
}

/// Rounded up.
fn divided(amount: i64, divisor: i64) -> i64 {
    let (amount, divisor) = (i128::from(amount), i128::from(divisor.max(1)));
    i64::try_from((amount + divisor - 1).div_euclid(divisor)).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use k8s_openapi::api::core::v1::ResourceRequirements;
    use k8s_openapi::apimachinery::pkg::api::resource::Quantity as ApiQuantity;
    use testkit::pods;

    use super::*;

    fn amounts(list: &[(&str, &str)]) -> BTreeMap<String, ApiQuantity> {
        list.iter().map(|(n, v)| ((*n).to_owned(), ApiQuantity((*v).to_owned()))).collect()
    }

    fn value(container: &str, resource: &str, divisor: &str) -> Result<String, ConfigError> {
        value_in(&[], container, resource, divisor)
    }

    /// In a pod that may use so much as a whole.
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
    fn amounts_are_told_in_the_unit_asked_for_and_rounded_up() {
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
            let told = value(container, resource, divisor);
            assert_eq!(told.as_deref(), Ok(expected), "{container} {resource} {divisor}");
        }
    }

    // behaviour: CON-13
    #[test]
    fn a_limit_that_is_not_set_is_that_of_the_pod_as_a_whole() {
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
            let told = value_in(whole, container, resource, divisor);
            assert_eq!(told.as_deref(), Ok(expected), "{whole:?} {container} {resource}");
        }
    }

    // behaviour: CON-8
    #[test]
    fn what_there_is_not_is_named() {
        let unknown = value("nobody", "limits.cpu", "").unwrap_err();
        assert_eq!(unknown.to_string(), "container nobody not found");
        for resource in ["limits.pods", "cpu", "used.cpu"] {
            let error = value("", resource, "").unwrap_err();
            assert_eq!(error.to_string(), format!("unsupported container resource : {resource}"));
        }
    }
}
