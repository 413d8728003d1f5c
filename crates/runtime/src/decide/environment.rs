//! The environment of a container, and `$(NAME)` in its values, command and arguments.

use std::collections::BTreeMap;
use std::net::IpAddr;

use k8s_openapi::api::core::v1::{Container, EnvFromSource, EnvVarSource, Pod};
use podspec::view;

use super::field_ref::pod_field;
use super::resource_ref::container_resource;
use super::{ConfigError, NodeSettings};

/// The variables of a container in the order of its specification; a later one of the same name
/// takes the place of an earlier one. Values may refer to variables above them. `ips` are the pod's
/// addresses.
pub fn environment(
    pod: &Pod,
    container: &Container,
    ips: &[IpAddr],
    node: &NodeSettings,
) -> Result<Vec<(String, String)>, ConfigError> {
    if let Some(source) = container.env_from.iter().flatten().next() {
        return Err(no_client(pod, source));
    }
    let mut names: Vec<&str> = Vec::new();
    let mut values: BTreeMap<String, String> = BTreeMap::new();
    for variable in container.env.iter().flatten() {
        let literal = variable.value.as_deref().unwrap_or_default();
        let value = match &variable.value_from {
            Some(source) if literal.is_empty() => referred(source, pod, container, ips, node)?,
            _ => expand(literal, &values),
        };
        if values.insert(variable.name.clone(), value).is_none() {
            names.push(&variable.name);
        }
    }
    let with_value = |name: &str| (name.to_owned(), values[name].clone());
    Ok(names.into_iter().map(with_value).collect())
}

/// The value that a variable takes from elsewhere.
fn referred(
    source: &EnvVarSource,
    pod: &Pod,
    container: &Container,
    ips: &[IpAddr],
    node: &NodeSettings,
) -> Result<String, ConfigError> {
    let namespace = view::pod_name(pod).namespace.to_string();
    if let Some(selector) = &source.field_ref {
        return pod_field(selector, pod, ips, &node.ips);
    }
    if let Some(selector) = &source.resource_field_ref {
        return container_resource(selector, pod, container, &node.allocatable);
    }
    if let Some(key) = &source.config_map_key_ref {
        return Err(ConfigError::NoClient { kind: "configMap", namespace, name: key.name.clone() });
    }
    if let Some(key) = &source.secret_key_ref {
        return Err(ConfigError::NoClient { kind: "secret", namespace, name: key.name.clone() });
    }
    match &source.file_key_ref {
        Some(key) => Err(ConfigError::NoVolume(key.volume_name.clone())),
        None => Ok(String::new()),
    }
}

/// There is no API to ask for objects.
fn no_client(pod: &Pod, source: &EnvFromSource) -> ConfigError {
    let (kind, name) = match (&source.config_map_ref, &source.secret_ref) {
        (Some(map), _) => ("configMap", map.name.clone()),
        (None, secret) => {
            ("secret", secret.as_ref().map(|secret| secret.name.clone()).unwrap_or_default())
        }
    };
    ConfigError::NoClient { kind, namespace: view::pod_name(pod).namespace.to_string(), name }
}

/// Replaces `$(NAME)` by the variable's value. `$$` stands for `$`, so `$$(NAME)` stays text; a
/// reference that cannot be resolved stays as written.
pub fn expand(text: &str, values: &BTreeMap<String, String>) -> String {
    let mut expanded = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(dollar) = rest.find('$') {
        expanded.push_str(&rest[..dollar]);
        let after = &rest[dollar + 1..];
        if let Some(tail) = after.strip_prefix('$') {
            expanded.push('$');
            rest = tail;
        } else if let Some((name, tail)) = reference(after) {
            match values.get(name) {
                Some(value) => expanded.push_str(value),
                None => expanded.push_str(&rest[dollar..dollar + name.len() + 3]),
            }
            rest = tail;
        } else {
            expanded.push('$');
            rest = after;
        }
    }
    expanded.push_str(rest);
    expanded
}

/// The name in `(NAME)…` and what comes after it.
fn reference(text: &str) -> Option<(&str, &str)> {
    text.strip_prefix('(')?.split_once(')')
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::{
        ConfigMapEnvSource, EnvVar, ObjectFieldSelector, SecretKeySelector,
    };
    use proptest::prelude::*;
    use testkit::pods;

    use super::*;

    fn container(env: &[(&str, &str)]) -> Container {
        let env = env.iter().map(|(name, value)| EnvVar {
            name: (*name).to_owned(),
            value: Some((*value).to_owned()),
            ..EnvVar::default()
        });
        Container { env: Some(env.collect()), ..Container::default() }
    }

    // behaviour: CON-1
    #[test]
    fn references_are_resolved_and_what_cannot_be_stays() {
        let values =
            BTreeMap::from([("A".to_owned(), "a".to_owned()), ("EMPTY".to_owned(), String::new())]);
        let rows = [
            ("", ""),
            ("plain", "plain"),
            ("$(A)", "a"),
            ("x$(A)y$(A)z", "xayaz"),
            ("$(EMPTY)", ""),
            ("$(B)", "$(B)"),
            ("$$(A)", "$(A)"),
            ("$$$(A)", "$a"),
            ("$$$$(A)", "$$(A)"),
            ("$A", "$A"),
            ("$", "$"),
            ("$$", "$"),
            ("a$", "a$"),
            ("$(A", "$(A"),
            ("$()", "$()"),
            ("$($(A))", "$($(A))"),
            ("ü$(A)ü", "üaü"),
        ];
        for (text, expected) in rows {
            assert_eq!(expand(text, &values), expected, "{text}");
        }
    }

    fn made(container: &Container) -> Result<Vec<(String, String)>, ConfigError> {
        environment(&pods::pod("web").build(), container, &[], &NodeSettings::default())
    }

    // behaviour: CON-2
    #[test]
    fn values_refer_to_variables_above_and_a_later_one_wins() {
        let env = made(&container(&[
            ("LATER", "$(EARLIER)"),
            ("EARLIER", "1"),
            ("SUM", "$(EARLIER)$(EARLIER)"),
            ("EARLIER", "2"),
        ]));
        let expected = [("LATER", "$(EARLIER)"), ("EARLIER", "2"), ("SUM", "11")];
        let expected: Vec<_> = expected.map(|(n, v)| (n.to_owned(), v.to_owned())).into();
        assert_eq!(env, Ok(expected));
    }

    // behaviour: CON-3
    #[test]
    fn a_value_from_elsewhere_is_not_expanded_but_can_be_referred_to() {
        let mut container = container(&[("NAME", ""), ("GREETING", "hello $(NAME)")]);
        container.env.as_mut().unwrap()[0].value_from = Some(EnvVarSource {
            field_ref: Some(ObjectFieldSelector {
                api_version: None,
                field_path: "metadata.annotations['note']".to_owned(),
            }),
            ..EnvVarSource::default()
        });
        let pod = pods::pod("web").annotation("note", "$(GREETING)").build();
        let env = environment(&pod, &container, &[], &NodeSettings::default()).unwrap();
        let values: Vec<&str> = env.iter().map(|(_, value)| value.as_str()).collect();
        assert_eq!(values, ["$(GREETING)", "hello $(GREETING)"]);
    }

    // behaviour: CON-4
    #[test]
    fn objects_of_an_api_that_is_not_there_are_named() {
        let mut of_secret = container(&[("A", "")]);
        of_secret.env.as_mut().unwrap()[0].value_from = Some(EnvVarSource {
            secret_key_ref: Some(SecretKeySelector {
                name: "password".to_owned(),
                ..SecretKeySelector::default()
            }),
            ..EnvVarSource::default()
        });
        let of_map = Container {
            env_from: Some(vec![EnvFromSource {
                config_map_ref: Some(ConfigMapEnvSource {
                    name: "settings".to_owned(),
                    ..ConfigMapEnvSource::default()
                }),
                ..EnvFromSource::default()
            }]),
            ..Container::default()
        };
        for (container, what) in
            [(of_secret, "secret default/password"), (of_map, "configMap default/settings")]
        {
            let error = made(&container).unwrap_err().to_string();
            assert_eq!(error, format!("couldn't get {what}, no kubeClient defined"));
        }
    }

    proptest! {
        #[test]
        fn text_without_a_dollar_is_left_alone(text in "[^$]*") {
            prop_assert_eq!(expand(&text, &BTreeMap::new()), text);
        }

        #[test]
        fn doubled_dollars_are_undone(text in ".*") {
            let doubled = text.replace('$', "$$");
            prop_assert_eq!(expand(&doubled, &BTreeMap::new()), text);
        }
    }
}
