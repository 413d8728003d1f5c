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

use super::env_file::file_value;
use super::environment_objects::{ApiFacts, Objects};
use super::field_ref::pod_field;
use super::resource_ref::container_resource;
use super::string_limits::{ContainerString, StringBudget};
use super::{ConfigError, NodeSettings};

/// The sources of variables other than the spec.
#[derive(Debug, Clone, Copy)]
pub struct EnvironmentSources<'a> {
    /// The pod's addresses.
    pub ips: &'a [IpAddr],
    /// The node's addresses.
    pub node_ips: &'a [IpAddr],
    /// The node.
    pub node: &'a NodeSettings,
    /// The API objects for the container.
    pub api: &'a ApiFacts,
}

/// The variables of a container: from `envFrom`, from `env` in order, and from services. A later
/// variable replaces an earlier one with the same name, but service variables never do. Values may
/// refer to earlier variables and to those of services.
pub fn environment(
    pod: &Pod,
    container: &Container,
    sources: &EnvironmentSources<'_>,
) -> Result<Vec<(String, String)>, ConfigError> {
    let namespace = view::pod_name(pod).namespace;
    let objects = sources.api.objects(&namespace);
    let services: BTreeMap<&str, &str> =
        sources.api.services.iter().map(|(name, value)| (&**name, &**value)).collect();
    let mut variables = Variables::new(&container.name);
    for source in container.env_from.iter().flatten() {
        let prefix = source.prefix.as_deref().unwrap_or_default();
        for (name, value) in of_object(source, &objects)? {
            variables.set(prefix, &name, value)?;
        }
    }
    for variable in container.env.iter().flatten() {
        let literal = variable.value.as_deref().unwrap_or_default();
        match &variable.value_from {
            Some(source) if literal.is_empty() => {
                if let Some(value) = referred(source, pod, container, sources)? {
                    variables.set("", &variable.name, value)?;
                }
            }
            _ => variables.set_expanded(&variable.name, literal, &services)?,
        }
    }
    for (name, value) in &sources.api.services {
        if !variables.values.contains_key(name) {
            variables.set("", name, value.clone())?;
        }
    }
    Ok(variables.in_order())
}

/// The variables of a container during their collection. Replaced ones count against the limit,
/// too, so that it also bounds the work.
struct Variables<'a> {
    budget: StringBudget<'a>,
    /// In the order in which they were first set.
    names: Vec<String>,
    values: BTreeMap<String, String>,
}

impl<'a> Variables<'a> {
    fn new(container: &'a str) -> Self {
        let budget = StringBudget::new(container);
        Self { budget, names: Vec::new(), values: BTreeMap::new() }
    }

    /// Sets a variable whose name is a prefix and a key; the name is built only if it is short enough.
    fn set(&mut self, prefix: &str, key: &str, value: String) -> Result<(), ConfigError> {
        // The beginning of a name that is too long is enough.
        let shown = if prefix.is_empty() { key } else { prefix };
        self.budget.take(prefix.len() + key.len(), ContainerString::Variable(shown))?;
        let name = format!("{prefix}{key}");
        self.budget.take(value.len(), ContainerString::Variable(&name))?;
        self.put(name, value);
        Ok(())
    }

    /// Sets a variable of the spec, which may refer to earlier variables and to services.
    fn set_expanded(
        &mut self,
        name: &str,
        literal: &str,
        services: &BTreeMap<&str, &str>,
    ) -> Result<(), ConfigError> {
        let Self { budget, values, .. } = self;
        let known = |name: &str| {
            values.get(name).map(String::as_str).or_else(|| services.get(name).copied())
        };
        let variable = ContainerString::Variable(name);
        budget.take(name.len(), variable)?;
        let value = budget.expand(literal, variable, known)?;
        self.put(name.to_owned(), value);
        Ok(())
    }

    fn put(&mut self, name: String, value: String) {
        if self.values.insert(name.clone(), value).is_none() {
            self.names.push(name);
        }
    }

    fn in_order(mut self) -> Vec<(String, String)> {
        let values = &mut self.values;
        let with_value = |name: String| {
            let value = values.remove(&name)?;
            Some((name, value))
        };
        self.names.into_iter().filter_map(with_value).collect()
    }
}

/// All keys and values of an object; none for an optional one that is missing.
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
    objects.all(&key, optional == Some(true))
}

/// The value of a variable from its source; `None` if an optional source is missing.
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
        return pod_field(selector, pod, ips, node.prefers_v6(), node_ips).map(Some);
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
        Some(key) => file_value(key, &api.files),
        None => Ok(Some(String::new())),
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::{
        ConfigMapEnvSource, EnvVar, ObjectFieldSelector, SecretKeySelector,
    };
    use proptest::prelude::*;
    use testkit::pods;

    use super::super::string_limits;
    use super::*;

    fn expand(text: &str, values: &BTreeMap<String, String>) -> String {
        string_limits::expand(text, |name| values.get(name).map(String::as_str)).unwrap()
    }

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
    fn variable_references_are_expanded_and_unknown_ones_stay() {
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
    fn values_refer_to_earlier_variables_and_later_duplicates_win() {
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
    fn value_from_a_source_is_not_expanded_but_can_be_referenced() {
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
    fn missing_api_is_an_error_that_names_the_object() {
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
        fn text_without_a_dollar_is_unchanged(text in "[^$]*") {
            prop_assert_eq!(expand(&text, &BTreeMap::new()), text);
        }

        #[test]
        fn double_dollars_are_unescaped(text in ".*") {
            let doubled = text.replace('$', "$$");
            prop_assert_eq!(expand(&doubled, &BTreeMap::new()), text);
        }
    }
}
