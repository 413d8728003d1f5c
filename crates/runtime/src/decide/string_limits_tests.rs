//! The limits of expanded `$(NAME)` and `envFrom`.

use std::collections::BTreeMap;
use std::sync::Arc;

use k8s_openapi::api::core::v1::Container;
use model::objects::ObjectKey;
use serde_json::{Value, json};
use testkit::cluster::object;
use testkit::pods;

use super::string_limits::expand;
use super::{
    ApiFacts, ContainerString, EnvironmentSources, MOST_OF_STRING, MOST_OF_STRINGS, NodeSettings,
    StringBudget, environment,
};

fn made(container: &Value, api: &ApiFacts) -> Result<Vec<(String, String)>, String> {
    let container: Container = serde_json::from_value(container.clone()).unwrap();
    let (pod, node) = (pods::pod("web").build(), NodeSettings::default());
    let sources = EnvironmentSources { ips: &[], node_ips: &[], node: &node, api };
    environment(&pod, &container, &sources).map_err(|error| error.to_string())
}

fn variable(name: &str, value: &str) -> Value {
    json!({ "name": name, "value": value })
}

// behaviour: CON-16
#[test]
fn nested_references_are_rejected_when_too_long() {
    // Every variable is 16 times longer than the previous one: V5 would have 128 MiB.
    let mut env = vec![variable("V0", &"x".repeat(128))];
    for level in 1..=5 {
        env.push(variable(&format!("V{level}"), &format!("$(V{})", level - 1).repeat(16)));
    }
    let made = made(&json!({ "name": "main", "env": env }), &ApiFacts::default());
    let message = "container \"main\": environment variable \"V3\" is longer than 131072 bytes";
    assert_eq!(made, Err(message.to_owned()));
}

// behaviour: CON-16
#[test]
fn string_limit_is_128_kib() {
    let half = "x".repeat(MOST_OF_STRING / 2);
    let value = |name: &str| (name == "H").then_some(half.as_str());
    let rows = [
        ("$(H)$(H)", Some(MOST_OF_STRING)),
        ("$(H)$(H)x", None),
        ("x$(H)$(H)", None),
        ("$(H)$(H)$$", None),
        ("$(H)$(H)$", None),
        ("$(H)$(H)$(N)", None),
        ("$(H)$(H)$(H)", None),
    ];
    for (text, expected) in rows {
        assert_eq!(expand(text, value).map(|expanded| expanded.len()), expected, "{text}");
    }
    let text = "$(N)".repeat(MOST_OF_STRING / 4);
    assert_eq!(expand(&text, |_| None), Some(text.clone()));
    let longer = "$(N)".repeat(MOST_OF_STRING);
    assert_eq!(expand(&longer, |_| None), None);
    assert_eq!(expand(&longer, |_| Some("")), Some(String::new()));
}

// behaviour: CON-16
#[test]
fn total_size_of_variables_is_limited() {
    let mut env = vec![variable("A", &"x".repeat(MOST_OF_STRING))];
    for count in 1..MOST_OF_STRINGS / MOST_OF_STRING {
        env.push(variable(&format!("B{count}"), "$(A)"));
    }
    let made = made(&json!({ "name": "main", "env": env }), &ApiFacts::default());
    let message = "container \"main\": with environment variable \"B127\", environment, command and args \
                   are longer than 16777216 bytes in all";
    assert_eq!(made, Err(message.to_owned()));
}

/// An API whose config map `m` has these keys.
fn api(data: &[(String, String)]) -> ApiFacts {
    let mut map = object([]);
    let data = data.iter().map(|(key, value)| (key.as_str().into(), value.as_bytes().into()));
    map.data.extend(data);
    let key = ObjectKey::config_map("default", "m");
    let objects = Some(BTreeMap::from([(key, Ok(Arc::new(map)))]));
    ApiFacts { objects, ..ApiFacts::default() }
}

// behaviour: CON-16
#[test]
fn total_size_of_env_from_objects_is_limited() {
    let source = |prefix: &str| json!({ "prefix": prefix, "configMapRef": { "name": "m" } });
    let container = |sources: Vec<Value>| json!({ "name": "main", "envFrom": sources });
    let long = api(&[("k".to_owned(), "x".repeat(MOST_OF_STRING + 1))]);
    let message = "container \"main\": environment variable \"P_k\" is longer than 131072 bytes";
    assert_eq!(made(&container(vec![source("P_")]), &long), Err(message.to_owned()));

    // A long prefix is repeated with every key, and an object with every prefix.
    let keys: Vec<_> = (0..1024).map(|key| (format!("k{key}"), String::new())).collect();
    let prefix = "P".repeat(MOST_OF_STRING / 2);
    let error = made(&container(vec![source(&prefix)]), &api(&keys)).unwrap_err();
    assert!(error.ends_with("are longer than 16777216 bytes in all"), "{error}");
    assert!(error.len() < 512, "{error}");
    let error = made(&container(vec![source(&prefix.repeat(3))]), &api(&keys)).unwrap_err();
    assert!(error.ends_with("PPP\"... is longer than 131072 bytes"), "{error}");
    let value = api(&[("k".to_owned(), "x".repeat(MOST_OF_STRING))]);
    let sources = (0..200).map(|number| source(&format!("P{number}_"))).collect();
    let error = made(&container(sources), &value).unwrap_err();
    assert!(error.contains("with environment variable \"P127_k\""), "{error}");
}

// behaviour: CON-16
#[test]
fn string_budget_counts_environment_command_and_args() {
    let envs = vec![("A".to_owned(), "x".repeat(MOST_OF_STRINGS - 5))];
    let mut budget = StringBudget::after("main", &envs);
    budget.take(4, ContainerString::Command(0)).unwrap();
    let refused = |budget: &mut StringBudget<'_>, string| {
        budget.expand("abc", string, |_| None).unwrap_err().to_string()
    };
    let message = "container \"main\": with args[2], environment, command and args are longer than 16777216 \
                   bytes in all";
    assert_eq!(refused(&mut budget, ContainerString::Argument(2)), message);
    let long = "x".repeat(MOST_OF_STRING + 1);
    let error = budget.expand(&long, ContainerString::Command(1), |_| None).unwrap_err();
    assert_eq!(error.to_string(), "container \"main\": command[1] is longer than 131072 bytes");
}
