//! The environment of a container, and `$(NAME)` in its values, command and arguments.
//!
//! ```text
//!  envFrom (objects, in order, by key) ──> env (in order; may refer to all above, and to services) ──> services
//! ```

use std::collections::BTreeMap;
use std::net::IpAddr;

use k8s_openapi::api::core::v1::{Container, EnvFromSource, EnvVarSource, Pod};
use model::objects::ObjectKey;
use podspec::view;

use super::environment_objects::{ApiFacts, Objects};
use super::field_ref::pod_field;
use super::resource_ref::container_resource;
use super::{ConfigError, NodeSettings};

/// What variables come from besides the specification.
#[derive(Debug, Clone, Copy)]
pub struct EnvironmentSources<'a> {
    /// The pod's addresses.
    pub ips: &'a [IpAddr],
    /// The node's.
    pub node_ips: &'a [IpAddr],
    /// The node.
    pub node: &'a NodeSettings,
    /// What the API has for the container.
    pub api: &'a ApiFacts,
}

/// The variables of a container: those of whole objects, those of its specification in its order, and
/// those that tell of services. A later one of the same name takes the place of an earlier one, but
/// services never do. Values may refer to variables above them, and to those of services.
pub fn environment(
    pod: &Pod,
    container: &Container,
    sources: &EnvironmentSources<'_>,
) -> Result<Vec<(String, String)>, ConfigError> {
    let namespace = view::pod_name(pod).namespace;
    let objects = sources.api.objects(&namespace);
    let services: BTreeMap<&str, &str> =
        sources.api.services.iter().map(|(name, value)| (&**name, &**value)).collect();
    let mut names: Vec<String> = Vec::new();
    let mut values: BTreeMap<String, String> = BTreeMap::new();
    let mut set = |name: String, value: String, values: &mut BTreeMap<String, String>| {
        if values.insert(name.clone(), value).is_none() {
            names.push(name);
        }
    };
    for source in container.env_from.iter().flatten() {
        for (name, value) in of_object(source, &objects)? {
            set(name, value, &mut values);
        }
    }
    for variable in container.env.iter().flatten() {
        let literal = variable.value.as_deref().unwrap_or_default();
        let value = match &variable.value_from {
            Some(source) if literal.is_empty() => referred(source, pod, container, sources)?,
            _ => {
                let known = |name: &str| {
                    values.get(name).map(String::as_str).or_else(|| services.get(name).copied())
                };
                Some(expand_with(literal, known))
            }
        };
        if let Some(value) = value {
            set(variable.name.clone(), value, &mut values);
        }
    }
    for (name, value) in &sources.api.services {
        if !values.contains_key(name) {
            set(name.clone(), value.clone(), &mut values);
        }
    }
    let with_value = |name: String| {
        let value = values[&name].clone();
        (name, value)
    };
    Ok(names.into_iter().map(with_value).collect())
}

/// All variables of an object; none of one that need not be there.
fn of_object(
    source: &EnvFromSource,
    objects: &Objects<'_>,
) -> Result<Vec<(String, String)>, ConfigError> {
    let (key, optional) = match (&source.config_map_ref, &source.secret_ref) {
        (Some(map), _) => (ObjectKey::config_map(objects.namespace, &map.name), map.optional),
        (None, Some(secret)) => {
            (ObjectKey::secret(objects.namespace, &secret.name), secret.optional)
        }
        (None, None) => return Ok(Vec::new()),
    };
    let prefix = source.prefix.as_deref().unwrap_or_default();
    let all = objects.all(&key, optional == Some(true))?;
    Ok(all.into_iter().map(|(name, value)| (format!("{prefix}{name}"), value)).collect())
}

/// The value that a variable takes from elsewhere; none if that need not be there.
fn referred(
    source: &EnvVarSource,
    pod: &Pod,
    container: &Container,
    sources: &EnvironmentSources<'_>,
) -> Result<Option<String>, ConfigError> {
    let EnvironmentSources { ips, node_ips, node, api } = *sources;
    let namespace = view::pod_name(pod).namespace;
    let objects = api.objects(&namespace);
    if let Some(selector) = &source.field_ref {
        return pod_field(selector, pod, (ips, node.prefers_v6()), node_ips).map(Some);
    }
    if let Some(selector) = &source.resource_field_ref {
        return container_resource(selector, pod, container, &node.allocatable).map(Some);
    }
    if let Some(key) = &source.config_map_key_ref {
        let object = ObjectKey::config_map(&namespace, &key.name);
        return objects.value(&object, &key.key, key.optional == Some(true));
    }
    if let Some(key) = &source.secret_key_ref {
        let object = ObjectKey::secret(&namespace, &key.name);
        return objects.value(&object, &key.key, key.optional == Some(true));
    }
    match &source.file_key_ref {
        Some(key) => Err(ConfigError::NoVolume(key.volume_name.clone())),
        None => Ok(Some(String::new())),
    }
}

/// Replaces `$(NAME)` by the variable's value. `$$` stands for `$`, so `$$(NAME)` stays text; a
/// reference that cannot be resolved stays as written.
pub fn expand(text: &str, values: &BTreeMap<String, String>) -> String {
    expand_with(text, |name| values.get(name).map(String::as_str))
}

fn expand_with<'a>(text: &str, value: impl Fn(&str) -> Option<&'a str>) -> String {
    let mut expanded = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(dollar) = rest.find('$') {
        expanded.push_str(&rest[..dollar]);
        let after = &rest[dollar + 1..];
        if let Some(tail) = after.strip_prefix('$') {
            expanded.push('$');
            rest = tail;
        } else if let Some((name, tail)) = reference(after) {
            match value(name) {
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
        of_pod(&pods::pod("web").build(), container)
    }

    fn of_pod(pod: &Pod, container: &Container) -> Result<Vec<(String, String)>, ConfigError> {
        let (node, api) = (NodeSettings::default(), ApiFacts::default());
        let sources = EnvironmentSources { ips: &[], node_ips: &[], node: &node, api: &api };
        environment(pod, container, &sources)
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
        let env = of_pod(&pod, &container).unwrap();
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
