//! Pods for property tests, with valid, almost valid and invalid values.

use k8s_openapi::api::core::v1::Pod;
use proptest::prelude::*;
use serde_json::{Map, Value, json};

use crate::decode;

/// Any pod that can be decoded.
pub(crate) fn arbitrary_pod() -> impl Strategy<Value = Pod> {
    arbitrary_manifest().prop_filter_map("a value of a wrong type", |manifest| {
        decode(manifest.as_bytes()).ok().map(|mut decoded| decoded.pods.remove(0))
    })
}

/// Any manifest of kind pod.
pub(crate) fn arbitrary_manifest() -> impl Strategy<Value = String> {
    (metadata(), spec()).prop_map(|(metadata, spec)| {
        json!({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}).to_string()
    })
}

fn word() -> impl Strategy<Value = Value> {
    let words = [
        "",
        "a",
        "A",
        "a.b",
        "-",
        "..",
        "/",
        "a/../b",
        "Always",
        "Never",
        "None",
        "File",
        "TCP",
        "Localhost",
        "1",
        "-1m",
        "2Gi",
        "0.1n",
        "metadata.name",
        "limits.cpu",
        "10.0.0.1",
        "img:latest",
        "Exists",
        "NoExecute",
        "NotRequired",
        "cpu",
        "ä",
    ];
    prop::sample::select(words.to_vec()).prop_map(Value::from)
}

fn number() -> impl Strategy<Value = Value> {
    prop::sample::select(vec![-1, 0, 1, 80, 600, 65536, i64::from(i32::MAX)]).prop_map(Value::from)
}

fn boolean() -> impl Strategy<Value = Value> {
    any::<bool>().prop_map(Value::from)
}

fn list(item: impl Strategy<Value = Value>) -> impl Strategy<Value = Value> {
    prop::collection::vec(item, 0..3).prop_map(Value::from)
}

fn text_map() -> impl Strategy<Value = Value> {
    prop::collection::btree_map("[a-z/]{0,3}", word(), 0..3).prop_map(|map| json!(map))
}

/// An object with any subset of some fields.
fn object(fields: Vec<(&'static str, BoxedStrategy<Value>)>) -> BoxedStrategy<Value> {
    let fields = fields.into_iter().map(|(name, value)| {
        prop::option::weighted(0.3, value).prop_map(move |value| (name, value))
    });
    fields
        .collect::<Vec<_>>()
        .prop_map(|fields| {
            let fields = fields.into_iter();
            fields
                .filter_map(|(name, value)| Some((name.to_owned(), value?)))
                .collect::<Map<_, _>>()
                .into()
        })
        .boxed()
}

fn metadata() -> BoxedStrategy<Value> {
    object(vec![
        ("name", word().boxed()),
        ("namespace", word().boxed()),
        ("uid", word().boxed()),
        ("labels", text_map().boxed()),
        ("annotations", text_map().boxed()),
    ])
}

fn spec() -> BoxedStrategy<Value> {
    object(vec![
        ("containers", list(container()).boxed()),
        ("initContainers", list(container()).boxed()),
        ("ephemeralContainers", list(container()).boxed()),
        ("volumes", list(volume()).boxed()),
        ("restartPolicy", word().boxed()),
        ("dnsPolicy", word().boxed()),
        ("dnsConfig", object(vec![("nameservers", list(word()).boxed())])),
        ("hostNetwork", boolean().boxed()),
        ("hostPID", boolean().boxed()),
        ("hostUsers", boolean().boxed()),
        ("hostname", word().boxed()),
        ("serviceAccount", word().boxed()),
        ("terminationGracePeriodSeconds", number().boxed()),
        ("activeDeadlineSeconds", number().boxed()),
        ("nodeSelector", text_map().boxed()),
        ("overhead", text_map().boxed()),
        ("resources", resources()),
        ("tolerations", list(toleration()).boxed()),
        ("securityContext", security_context()),
        ("os", object(vec![("name", word().boxed())])),
    ])
}

fn container() -> BoxedStrategy<Value> {
    let port = object(vec![
        ("name", word().boxed()),
        ("containerPort", number().boxed()),
        ("hostPort", number().boxed()),
        ("protocol", word().boxed()),
    ]);
    let mount = object(vec![
        ("name", word().boxed()),
        ("mountPath", word().boxed()),
        ("subPath", word().boxed()),
        ("mountPropagation", word().boxed()),
    ]);
    let env = object(vec![
        ("name", word().boxed()),
        ("value", word().boxed()),
        ("valueFrom", object(vec![("fieldRef", field_ref())])),
    ]);
    object(vec![
        ("name", word().boxed()),
        ("image", word().boxed()),
        ("imagePullPolicy", word().boxed()),
        ("restartPolicy", word().boxed()),
        ("ports", list(port).boxed()),
        ("env", list(env).boxed()),
        ("resources", resources()),
        ("volumeMounts", list(mount).boxed()),
        ("livenessProbe", probe()),
        ("readinessProbe", probe()),
        ("lifecycle", object(vec![("preStop", handler()), ("stopSignal", word().boxed())])),
        ("securityContext", security_context()),
    ])
}

fn field_ref() -> BoxedStrategy<Value> {
    object(vec![("apiVersion", word().boxed()), ("fieldPath", word().boxed())])
}

fn handler() -> BoxedStrategy<Value> {
    let port = || prop_oneof![word(), number()].boxed();
    object(vec![
        ("exec", object(vec![("command", list(word()).boxed())])),
        ("httpGet", object(vec![("port", port()), ("path", word().boxed())])),
        ("tcpSocket", object(vec![("port", port())])),
        ("sleep", object(vec![("seconds", number().boxed())])),
    ])
}

fn probe() -> BoxedStrategy<Value> {
    let numbers = object(vec![
        ("timeoutSeconds", number().boxed()),
        ("periodSeconds", number().boxed()),
        ("successThreshold", number().boxed()),
        ("failureThreshold", number().boxed()),
    ]);
    (handler(), numbers)
        .prop_map(|(handler, numbers)| {
            let (mut probe, numbers) = (handler, numbers);
            for (name, value) in numbers.as_object().into_iter().flatten() {
                probe[name] = value.clone();
            }
            probe
        })
        .boxed()
}

fn resources() -> BoxedStrategy<Value> {
    let amounts = || {
        let names = prop::sample::select(vec!["cpu", "memory", "hugepages-2Mi", "x/y", "foo"]);
        prop::collection::btree_map(names, word(), 0..3).prop_map(|map| json!(map)).boxed()
    };
    object(vec![("limits", amounts()), ("requests", amounts())])
}

fn volume() -> BoxedStrategy<Value> {
    let item = object(vec![("path", word().boxed()), ("fieldRef", field_ref())]);
    let items = || object(vec![("items", list(item.clone()).boxed())]);
    let projection = object(vec![
        ("downwardAPI", items()),
        ("serviceAccountToken", object(vec![("path", word().boxed())])),
    ]);
    object(vec![
        ("name", word().boxed()),
        ("emptyDir", object(vec![("sizeLimit", word().boxed())])),
        ("hostPath", object(vec![("path", word().boxed()), ("type", word().boxed())])),
        ("secret", object(vec![("secretName", word().boxed()), ("defaultMode", number().boxed())])),
        ("downwardAPI", items()),
        ("projected", object(vec![("sources", list(projection).boxed())])),
        ("image", object(vec![("reference", word().boxed())])),
    ])
}

fn toleration() -> BoxedStrategy<Value> {
    object(vec![
        ("key", word().boxed()),
        ("operator", word().boxed()),
        ("value", word().boxed()),
        ("effect", word().boxed()),
    ])
}

fn security_context() -> BoxedStrategy<Value> {
    let profile = object(vec![("type", word().boxed()), ("localhostProfile", word().boxed())]);
    object(vec![
        ("runAsUser", number().boxed()),
        ("seccompProfile", profile.clone()),
        ("appArmorProfile", profile),
    ])
}
