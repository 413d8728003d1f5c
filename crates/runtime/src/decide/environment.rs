//! The environment of a container, and `$(NAME)` in its values, command and arguments.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::Container;

/// Why a container's configuration cannot be made; its waiting reason is
/// `CreateContainerConfigError`.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ConfigError {
    /// A variable gets its value from something that is not supported.
    #[error("env {name}: a value from another object is not supported")]
    ValueFrom {
        /// The variable.
        name: String,
    },
    /// Variables come from something that is not supported.
    #[error("envFrom is not supported")]
    EnvFrom,
}

/// The variables of a container in the order of its specification; a later one of the same name
/// takes the place of an earlier one. Values may refer to variables above them.
pub fn environment(container: &Container) -> Result<Vec<(String, String)>, ConfigError> {
    if container.env_from.as_ref().is_some_and(|sources| !sources.is_empty()) {
        return Err(ConfigError::EnvFrom);
    }
    let mut names: Vec<&str> = Vec::new();
    let mut values: BTreeMap<String, String> = BTreeMap::new();
    for variable in container.env.iter().flatten() {
        if variable.value_from.is_some() {
            return Err(ConfigError::ValueFrom { name: variable.name.clone() });
        }
        let value = expand(variable.value.as_deref().unwrap_or_default(), &values);
        if values.insert(variable.name.clone(), value).is_none() {
            names.push(&variable.name);
        }
    }
    let with_value = |name: &str| (name.to_owned(), values[name].clone());
    Ok(names.into_iter().map(with_value).collect())
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
    use k8s_openapi::api::core::v1::{EnvVar, EnvVarSource};
    use proptest::prelude::*;

    use super::*;

    fn container(env: &[(&str, &str)]) -> Container {
        let env = env.iter().map(|(name, value)| EnvVar {
            name: (*name).to_owned(),
            value: Some((*value).to_owned()),
            ..EnvVar::default()
        });
        Container { env: Some(env.collect()), ..Container::default() }
    }

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

    #[test]
    fn values_refer_to_variables_above_and_a_later_one_wins() {
        let env = environment(&container(&[
            ("LATER", "$(EARLIER)"),
            ("EARLIER", "1"),
            ("SUM", "$(EARLIER)$(EARLIER)"),
            ("EARLIER", "2"),
        ]));
        let expected = [("LATER", "$(EARLIER)"), ("EARLIER", "2"), ("SUM", "11")];
        let expected: Vec<_> = expected.map(|(n, v)| (n.to_owned(), v.to_owned())).into();
        assert_eq!(env, Ok(expected));
    }

    #[test]
    fn values_from_elsewhere_are_refused_by_name() {
        let mut container = container(&[("A", "a")]);
        container.env.as_mut().unwrap()[0].value_from = Some(EnvVarSource::default());
        assert_eq!(environment(&container), Err(ConfigError::ValueFrom { name: "A".into() }));
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
