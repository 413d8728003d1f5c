//! Variables from API objects and services.

use std::collections::BTreeMap;
use std::sync::Arc;

use k8s_openapi::api::core::v1::Container;
use model::objects::{DataObject, ObjectKey};
use model::ports::objects::ObjectError;
use podspec::objects::environment_objects;
use proptest::prelude::*;
use serde_json::{Value, json};
use testkit::cluster::object;
use testkit::pods;

use super::{ApiFacts, ConfigError, EnvironmentSources, NodeSettings, environment};

fn container(env: &Value, env_from: &Value) -> Container {
    serde_json::from_value(json!({ "name": "c", "env": env, "envFrom": env_from })).unwrap()
}

fn map(name: &str) -> ObjectKey {
    ObjectKey::config_map("default", name)
}

fn secret(name: &str) -> ObjectKey {
    ObjectKey::secret("default", name)
}

/// An API that has these objects.
fn api<const N: usize>(objects: [(ObjectKey, DataObject); N], container: &Container) -> ApiFacts {
    let there = BTreeMap::from(objects);
    let found = environment_objects("default", container).into_iter().map(|key| {
        let missing =
            ObjectError::NotFound { resource: key.kind.singular(), name: key.name.clone() };
        let found = there.get(&key).cloned().map(Arc::new).ok_or(missing);
        (key, found)
    });
    ApiFacts { objects: Some(found.collect()), ..ApiFacts::default() }
}

fn made(container: &Container, api: &ApiFacts) -> Result<Vec<String>, String> {
    let (pod, node) = (pods::pod("web").build(), NodeSettings::default());
    let sources = EnvironmentSources { ips: &[], node_ips: &[], node: &node, api };
    let made = environment(&pod, container, &sources).map_err(|error| error.to_string())?;
    Ok(made.into_iter().map(|(name, value)| format!("{name}={value}")).collect())
}

fn of<const N: usize>(
    env: &Value,
    env_from: &Value,
    objects: [(ObjectKey, DataObject); N],
) -> Result<Vec<String>, String> {
    let container = container(env, env_from);
    made(&container, &api(objects, &container))
}

fn key_of(kind: &str, name: &str, key: &str, optional: bool) -> Value {
    let key = json!({ "name": name, "key": key, "optional": optional });
    json!([{ "name": "A", "valueFrom": { kind: key } }, { "name": "B", "value": "b$(A)" }])
}

// behaviour: OBJ-5, OBJ-6
#[test]
fn variable_has_the_value_of_a_key() {
    let (cm, sec) = ("configMapKeyRef", "secretKeyRef");
    let there = || [(map("o"), object([("k", "v$(B)")])), (secret("o"), object([("k", "s")]))];
    let rows = [
        (cm, "o", "k", false, Ok(vec!["A=v$(B)", "B=bv$(B)"])),
        (sec, "o", "k", false, Ok(vec!["A=s", "B=bs"])),
        (cm, "o", "x", false, Err("couldn't find key x in ConfigMap default/o")),
        (sec, "o", "x", false, Err("couldn't find key x in Secret default/o")),
        (cm, "o", "x", true, Ok(vec!["B=b$(A)"])),
        (sec, "o", "x", true, Ok(vec!["B=b$(A)"])),
        (cm, "none", "k", false, Err("configmap \"none\" not found")),
        (sec, "none", "k", false, Err("secret \"none\" not found")),
        (cm, "none", "k", true, Ok(vec!["B=b$(A)"])),
        (sec, "none", "k", true, Ok(vec!["B=b$(A)"])),
    ];
    for (kind, name, key, optional, expected) in rows {
        let made = of(&key_of(kind, name, key, optional), &Value::Null, there());
        let expected = expected
            .map(|all| all.into_iter().map(ToOwned::to_owned).collect::<Vec<_>>())
            .map_err(ToOwned::to_owned);
        assert_eq!(made, expected, "{kind} {name} {key} {optional}");
    }
}

// behaviour: OBJ-7
#[test]
fn env_from_adds_all_keys_with_the_prefix() {
    let env_from = json!([
        { "configMapRef": { "name": "m" } },
        { "prefix": "P_", "secretRef": { "name": "s" } },
        { "configMapRef": { "name": "none", "optional": true } },
        { "secretRef": { "name": "none", "optional": true } },
        { "configMapRef": { "name": "later" } },
        {},
    ]);
    let objects = [
        (map("m"), object([("b.with-dots", "2"), ("a", "1"), ("1st", "x")])),
        (secret("s"), object([("k", "s")])),
        (map("later"), object([("a", "later")])),
    ];
    let env = json!([{ "name": "P_k", "value": "own" }, { "name": "Z", "value": "$(a) $(1st)" }]);
    let expected = ["1st=x", "a=later", "b.with-dots=2", "P_k=own", "Z=later x"];
    assert_eq!(of(&env, &env_from, objects).unwrap(), expected);
    for kind in ["configMapRef", "secretRef"] {
        let name = if kind == "secretRef" { "secret" } else { "configmap" };
        let made = of(&json!([]), &json!([{ kind: { "name": "none" } }]), []);
        assert_eq!(made.unwrap_err(), format!("{name} \"none\" not found"));
    }
}

// behaviour: OBJ-8
#[test]
fn binary_data_is_skipped_and_non_text_secret_is_an_error() {
    let mut binary = object([("k", "v")]);
    binary.binary_data.insert("b".into(), [1].into());
    let made = of(&json!([]), &json!([{ "configMapRef": { "name": "m" } }]), [(map("m"), binary)]);
    assert_eq!(made.unwrap(), ["k=v"]);
    let mut no_text = object([]);
    no_text.data.insert("k".into(), [0xff].into());
    let made = of(&key_of("secretKeyRef", "s", "k", true), &json!([]), [(secret("s"), no_text)]);
    assert_eq!(made.unwrap_err(), "key k in Secret default/s is not text");
}

// behaviour: OBJ-9
#[test]
fn object_not_yet_read_is_an_error_even_if_optional() {
    let container = container(&key_of("secretKeyRef", "s", "k", true), &json!([]));
    let not_yet = ObjectError::NotYet { resource: "secret" };
    let objects = BTreeMap::from([(secret("s"), Err(not_yet.clone()))]);
    let api = ApiFacts { objects: Some(objects), ..ApiFacts::default() };
    let (pod, node) = (pods::pod("web").build(), NodeSettings::default());
    let sources = EnvironmentSources { ips: &[], node_ips: &[], node: &node, api: &api };
    let error = environment(&pod, &container, &sources).unwrap_err();
    assert_eq!(error, ConfigError::Object(not_yet));
    let message = "failed to sync secret cache: timed out waiting for the condition";
    assert_eq!(error.to_string(), message);
}

// behaviour: CON-5
#[test]
fn pod_ips_are_ordered_by_the_ip_family_of_the_node() {
    let field = json!({ "fieldRef": { "fieldPath": "status.podIPs" } });
    let container = container(&json!([{ "name": "IPS", "valueFrom": field }]), &json!([]));
    let ips = ["10.1.0.5", "fd00::5"].map(|ip| ip.parse().unwrap());
    for (requested, expected) in [(None, "10.1.0.5,fd00::5"), (Some("::"), "fd00::5,10.1.0.5")] {
        let requested_ips = requested.iter().map(|ip: &&str| ip.parse().unwrap()).collect();
        let node = NodeSettings { requested_ips, ..NodeSettings::default() };
        let sources =
            EnvironmentSources { ips: &ips, node_ips: &[], node: &node, api: &ApiFacts::default() };
        let made = environment(&pods::pod("web").build(), &container, &sources).unwrap();
        assert_eq!(made, [("IPS".to_owned(), expected.to_owned())]);
    }
}

// behaviour: OBJ-10
#[test]
fn service_variables_come_last_and_never_replace_others() {
    let container = container(
        &json!([
            { "name": "URL", "value": "http://$(WEB_SERVICE_HOST)" },
            { "name": "DB_SERVICE_HOST", "value": "mine" },
        ]),
        &json!([]),
    );
    let services = [("WEB_SERVICE_HOST", "10.0.0.5"), ("DB_SERVICE_HOST", "10.0.0.6")];
    let services = services.map(|(name, value)| (name.to_owned(), value.to_owned())).into();
    let api = ApiFacts { objects: Some(BTreeMap::new()), services, ..ApiFacts::default() };
    let expected = ["URL=http://10.0.0.5", "DB_SERVICE_HOST=mine", "WEB_SERVICE_HOST=10.0.0.5"];
    assert_eq!(made(&container, &api).unwrap(), expected);
}

proptest! {
    #[test]
    fn variable_names_are_unique_and_the_spec_wins(
        of_map in prop::collection::btree_map("[a-d]", "[a-z]{0,3}", 0..4),
        own in prop::collection::vec(("[a-d]", "[a-z]{1,3}"), 0..6),
        services in prop::collection::btree_map("[a-f]", "[a-z]{0,3}", 0..4),
    ) {
        let env: Vec<Value> =
            own.iter().map(|(name, value)| json!({ "name": name, "value": value })).collect();
        let container =
            container(&Value::Array(env), &json!([{ "configMapRef": { "name": "m" } }]));
        let data = of_map.iter().map(|(key, value)| (key.as_str().into(), value.as_bytes().into()));
        let object = DataObject { data: data.collect(), ..DataObject::default() };
        let mut api = api([(map("m"), object)], &container);
        api.services = services.clone().into_iter().collect();
        let mut expected = services;
        expected.extend(of_map);
        expected.extend(own);
        let made = made(&container, &api).unwrap();
        let expected: Vec<String> =
            expected.into_iter().map(|(name, value)| format!("{name}={value}")).collect();
        let mut sorted = made;
        sorted.sort();
        prop_assert_eq!(sorted, expected);
    }
}
