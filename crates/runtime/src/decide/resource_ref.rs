//! What a container can be told about its resources.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{Container, Pod, ResourceFieldSelector};
use podspec::quantity::Quantity;
use podspec::resources::{self, Amounts, CPU, EPHEMERAL_STORAGE, HUGE_PAGES_PREFIX, MEMORY};
use podspec::view;

use super::ConfigError;

/// The value of a resource of a container, of this one if none is named. A limit that is not set is
/// what pods can have of the node at all.
pub fn container_resource(
    selector: &ResourceFieldSelector,
    pod: &Pod,
    container: &Container,
    allocatable: &Amounts,
) -> Result<String, ConfigError> {
    let container = match selector.container_name.as_deref().unwrap_or_default() {
        "" => container,
        name => named(pod, name).ok_or_else(|| ConfigError::NoContainer(name.to_owned()))?,
    };
    let unsupported = || ConfigError::Resource(selector.resource.clone());
    let (kind, name) = selector.resource.split_once('.').ok_or_else(unsupported)?;
    let is_known =
        matches!(name, CPU | MEMORY | EPHEMERAL_STORAGE) || name.starts_with(HUGE_PAGES_PREFIX);
    let amounts = match kind {
        _ if !is_known => return Err(unsupported()),
        "requests" => resources::requests(container),
        "limits" => with_defaults(resources::limits(container), allocatable),
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

fn named<'a>(pod: &'a Pod, name: &str) -> Option<&'a Container> {
    let mut all = view::containers(pod).iter().chain(view::init_containers(pod));
    all.find(|container| container.name == name)
}

fn with_defaults(mut limits: BTreeMap<String, Quantity>, allocatable: &Amounts) -> Amounts {
    for name in [CPU, MEMORY, EPHEMERAL_STORAGE] {
        let unset = limits.get(name).is_none_or(Quantity::is_zero);
        if let Some(amount) = allocatable.get(name).filter(|_| unset) {
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
    use k8s_openapi::api::core::v1::ResourceRequirements;
    use k8s_openapi::apimachinery::pkg::api::resource::Quantity as ApiQuantity;
    use testkit::pods;

    use super::*;

    fn amounts(list: &[(&str, &str)]) -> BTreeMap<String, ApiQuantity> {
        list.iter().map(|(n, v)| ((*n).to_owned(), ApiQuantity((*v).to_owned()))).collect()
    }

    fn value(container: &str, resource: &str, divisor: &str) -> Result<String, ConfigError> {
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
        pod.spec.as_mut().unwrap().containers = vec![limited, plain.clone()];
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
        ];
        for (container, resource, divisor, expected) in rows {
            let told = value(container, resource, divisor);
            assert_eq!(told.as_deref(), Ok(expected), "{container} {resource} {divisor}");
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
