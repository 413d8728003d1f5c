use serde_json::{Value, json};
use testkit::cluster::object;

use super::*;

fn pod() -> Pod {
    serde_json::from_value(json!({
        "metadata": {
            "name": "web", "namespace": "shop", "uid": "u1",
            "labels": { "tier": "front", "app": "a \"b\"\n" },
            "annotations": { "Note": "n" },
        },
        "spec": {
            "serviceAccountName": "builder",
            "initContainers": [{ "name": "init" }],
            "containers": [{ "name": "main", "resources": {
                "requests": { "cpu": "250m" }, "limits": { "memory": "10Mi" },
            } }],
        },
    }))
    .unwrap()
}

fn objects() -> Objects {
    let mut settings = object([("b", "bee"), ("a", "ay")]);
    settings.binary_data.insert("raw".into(), [0, 255].as_slice().into());
    let mut objects = Objects::from([
        (ObjectKey::config_map("shop", "settings"), Ok(Arc::new(settings))),
        (ObjectKey::secret("shop", "keys"), Ok(Arc::new(object([("key", "s3cret")])))),
    ]);
    for key in [ObjectKey::config_map("shop", "gone"), ObjectKey::secret("shop", "gone")] {
        let (resource, name) = (key.kind.singular(), key.name.clone());
        objects.insert(key, Err(ObjectError::NotFound { resource, name }));
    }
    let broken = ObjectError::NotRead("broken".to_owned());
    objects.insert(ObjectKey::config_map("shop", "broken"), Err(broken));
    objects
}

fn allocatable() -> Amounts {
    let amounts = [("cpu", "2"), ("memory", "1Gi"), ("ephemeral-storage", "5Gi")];
    amounts.iter().map(|(name, text)| ((*name).to_owned(), text.parse().unwrap())).collect()
}

fn token(text: &str) -> Arc<ServiceAccountToken> {
    let expires = "2030-01-01T00:00:00Z".parse().unwrap();
    Arc::new(ServiceAccountToken { token: text.to_owned(), expiration_seconds: 3600, expires })
}

fn trust_bundle() -> TrustBundleRecord {
    let certificates = "-----BEGIN CERTIFICATE-----\nYQ==\n-----END CERTIFICATE-----\n";
    let (name, certificates) = ("roots".to_owned(), certificates.to_owned());
    TrustBundleRecord { name, certificates, ..TrustBundleRecord::default() }
}

/// The files of a volume of a pod, whose tokens are `token`.
fn made(pod: &Pod, source: &Value) -> Result<Payload, String> {
    let mut volume = source.clone();
    volume["name"] = "v".into();
    let volume: Volume = serde_json::from_value(volume).unwrap();
    let tokens = needs(pod, &volume).tokens.into_iter().map(|request| {
        let received = match &*request.service_account {
            "broken" => Err("failed to fetch token: broken".into()),
            _ => Ok(token("token")),
        };
        (request, received)
    });
    let (objects, tokens, allocatable) = (objects(), tokens.collect(), allocatable());
    let certificates = needs(pod, &volume).certificates.into_iter().map(|source| {
        let issued = match &*source.signer {
            "broken" => Err("credential bundle is not issued yet".into()),
            _ => Ok(Credentials { key: "key\n".into(), chain: "chain\n".into() }),
        };
        (source, issued)
    });
    let certificates = certificates.collect();
    let trust_bundles = Ok(Arc::from([trust_bundle()]));
    let sources = Sources {
        pod,
        objects: &objects,
        tokens: &tokens,
        trust_bundles: &trust_bundles,
        certificates: &certificates,
        allocatable: &allocatable,
    };
    payload(&volume, &sources).map_err(|error| error.to_string())
}

/// Path, mode and content of each file.
fn files(source: &Value) -> Result<Vec<String>, String> {
    let line = |(path, file): (&String, &PayloadFile)| {
        format!("{path} {:o} {}", file.mode, String::from_utf8_lossy(&file.content))
    };
    Ok(made(&pod(), source)?.files.iter().map(line).collect())
}

fn check(rows: &[(Value, Result<&[&str], &str>)]) {
    for (source, expected) in rows {
        let owned = |lines: &[&str]| lines.iter().map(ToString::to_string).collect::<Vec<_>>();
        let expected = expected.map(owned).map_err(str::to_owned);
        assert_eq!(files(source), expected, "{source}");
    }
}

// behaviour: VOL-40
#[test]
fn config_map_keys_become_files() {
    let map = |mut fields: Value| {
        fields["name"] = "settings".into();
        json!({ "configMap": fields })
    };
    check(&[
        (map(json!({})), Ok(&["a 644 ay", "b 644 bee", "raw 644 \0\u{fffd}"])),
        (
            map(json!({ "defaultMode": 0o400, "items": [
                { "key": "a", "path": "dir/x" },
                { "key": "raw", "path": "./r//s", "mode": 0o755 },
            ] })),
            Ok(&["dir/x 400 ay", "r/s 755 \0\u{fffd}"]),
        ),
        (
            map(json!({ "items": [{ "key": "none", "path": "x" }] })),
            Err("configmap references non-existent config key: none"),
        ),
        (
            map(json!({ "optional": true, "items": [
                { "key": "none", "path": "x" }, { "key": "a", "path": "y" },
            ] })),
            Ok(&["y 644 ay"]),
        ),
        (json!({ "configMap": { "name": "gone" } }), Err("configmap \"gone\" not found")),
        (json!({ "configMap": { "name": "gone", "optional": true } }), Ok(&[])),
        (json!({ "configMap": { "name": "broken", "optional": true } }), Err("broken")),
        (
            json!({ "configMap": { "name": "unread" } }),
            Err("object \"shop\"/\"unread\" not registered"),
        ),
    ]);
}

// behaviour: VOL-41
#[test]
fn secret_keys_become_files() {
    check(&[
        (json!({ "secret": { "secretName": "keys" } }), Ok(&["key 644 s3cret"])),
        (
            json!({ "secret": { "secretName": "keys", "items": [
                { "key": "key", "path": "k", "mode": 0o440 },
            ] } }),
            Ok(&["k 440 s3cret"]),
        ),
        (
            json!({ "secret": { "secretName": "keys", "items": [{ "key": "x", "path": "k" }] } }),
            Err("references non-existent secret key: x"),
        ),
        (json!({ "secret": { "secretName": "gone" } }), Err("secret \"gone\" not found")),
        (json!({ "secret": { "secretName": "gone", "optional": true } }), Ok(&[])),
        (json!({ "emptyDir": {} }), Err("volume v has no content")),
    ]);
}

fn fields(paths: &[&str]) -> Value {
    let items = paths.iter().map(|path| json!({ "path": "f", "fieldRef": { "fieldPath": path } }));
    json!({ "downwardAPI": { "items": items.collect::<Vec<_>>() } })
}

// behaviour: VOL-42
#[test]
fn pod_fields_become_files() {
    check(&[
        (fields(&["metadata.name"]), Ok(&["f 644 web"])),
        (fields(&["metadata.namespace"]), Ok(&["f 644 shop"])),
        (fields(&["metadata.uid"]), Ok(&["f 644 u1"])),
        (fields(&["metadata.labels"]), Ok(&["f 644 app=\"a \\\"b\\\"\\n\"\ntier=\"front\""])),
        (fields(&["metadata.annotations"]), Ok(&["f 644 Note=\"n\""])),
        (fields(&["metadata.labels['tier']"]), Ok(&["f 644 front"])),
        (fields(&["metadata.annotations['Note']"]), Ok(&["f 644 n"])),
        (fields(&["metadata.labels['none']"]), Ok(&["f 644 "])),
        (fields(&["spec.nodeName"]), Err("unsupported fieldPath: spec.nodeName")),
        (
            fields(&["metadata.name['x']"]),
            Err("fieldPath \"metadata.name['x']\" does not support subscript"),
        ),
        (
            fields(&["metadata.labels['/x']"]),
            Err("invalid key subscript in metadata.labels['/x']: prefix part must be non-empty"),
        ),
        (fields(&["a", "b", "a"]), Err("[unsupported fieldPath: a, unsupported fieldPath: b]")),
        (fields(&["a", "a"]), Err("unsupported fieldPath: a")),
        (
            json!({ "downwardAPI": { "defaultMode": 0o444, "items": [
                { "path": "a/../b", "fieldRef": { "fieldPath": "metadata.name" } },
                { "path": "c", "mode": 0o600 },
            ] } }),
            Ok(&["b 444 web", "c 600 "]),
        ),
    ]);
}

fn resource(container: &str, name: &str, divisor: &str) -> Value {
    let selector = json!({ "containerName": container, "resource": name, "divisor": divisor });
    json!({ "downwardAPI": { "items": [{ "path": "f", "resourceFieldRef": selector }] } })
}

// behaviour: VOL-43
#[test]
fn container_resources_become_files_with_node_defaults() {
    check(&[
        (resource("main", "requests.cpu", "1m"), Ok(&["f 644 250"])),
        (resource("main", "requests.cpu", "0"), Ok(&["f 644 1"])),
        (resource("main", "limits.memory", "1Mi"), Ok(&["f 644 10"])),
        (resource("main", "limits.cpu", "0"), Ok(&["f 644 2"])),
        (resource("init", "limits.memory", "1Mi"), Ok(&["f 644 1024"])),
        (resource("main", "requests.memory", "1"), Ok(&["f 644 0"])),
        (resource("none", "limits.cpu", "1"), Err("container none not found")),
        (resource("main", "limits.pods", "1"), Err("unsupported container resource : limits.pods")),
    ]);
}

fn projected(sources: &Value) -> Value {
    json!({ "projected": { "defaultMode": 0o640, "sources": sources } })
}

// behaviour: VOL-44
#[test]
fn projected_sources_share_a_volume_and_the_last_wins() {
    let name = json!({ "path": "a", "fieldRef": { "fieldPath": "metadata.name" } });
    check(&[
        (
            projected(&json!([
                { "configMap": { "name": "settings" } },
                { "secret": { "name": "keys", "items": [{ "key": "key", "path": "b" }] } },
                { "downwardAPI": { "items": [name] } },
                { "serviceAccountToken": { "path": "token" } },
                {},
            ])),
            Ok(&["a 640 web", "b 640 s3cret", "raw 640 \0\u{fffd}", "token 640 token"]),
        ),
        (
            projected(&json!([
                { "configMap": { "name": "gone" } },
                { "secret": { "name": "gone" } },
                { "downwardAPI": { "items": [{ "path": "x", "fieldRef": { "fieldPath": "y" } }] } },
            ])),
            Err(
                "[configmap \"gone\" not found, secret \"gone\" not found, unsupported fieldPath: y]",
            ),
        ),
        (projected(&json!([{ "secret": { "name": "gone", "optional": true } }])), Ok(&[])),
        (
            projected(&json!([{ "clusterTrustBundle": { "path": "x", "name": "roots" } }])),
            Ok(&["x 640 -----BEGIN CERTIFICATE-----\nYQ==\n-----END CERTIFICATE-----\n"]),
        ),
        (
            projected(&json!([
                { "podCertificate": { "keyType": "ED25519", "signerName": "s",
                    "credentialBundlePath": "both" } },
                { "podCertificate": { "keyType": "ED25519", "signerName": "s", "keyPath": "key",
                    "certificateChainPath": "chain" } },
            ])),
            Ok(&["both 640 key\nchain\n", "chain 640 chain\n", "key 640 key\n"]),
        ),
        (
            projected(
                &json!([{ "podCertificate": { "keyType": "ED25519", "signerName": "broken" } }]),
            ),
            Err("credential bundle is not issued yet"),
        ),
    ]);
}

// behaviour: VOL-45
#[test]
fn volumes_need_their_objects_and_tokens() {
    let volume = projected(&json!([
        { "configMap": { "name": "settings" } },
        { "secret": { "name": "keys" } },
        { "secret": { "name": "" } },
        { "serviceAccountToken": { "path": "a" } },
        { "serviceAccountToken": { "path": "b", "audience": "vault", "expirationSeconds": 600 } },
    ]));
    let mut volume: Volume = serde_json::from_value({
        let mut volume = volume;
        volume["name"] = "v".into();
        volume
    })
    .unwrap();
    let found = needs(&pod(), &volume);
    let keys = [ObjectKey::config_map("shop", "settings"), ObjectKey::secret("shop", "keys")];
    assert_eq!(found.objects, keys);
    let requests: Vec<_> = found
        .tokens
        .iter()
        .map(|token| (&*token.service_account, token.audiences.join(","), token.expiration_seconds))
        .collect();
    let expected = [("builder", String::new(), 3600), ("builder", "vault".to_owned(), 600)];
    assert_eq!(requests, expected);
    assert!(found.tokens.iter().all(|token| token.pod_uid.as_str() == "u1"));
    volume.projected = None;
    assert_eq!(needs(&pod(), &volume), Needs::default());
}

/// Mode and owner of a token in a pod with these security contexts.
fn token_of(of_pod: &Value, of_containers: &[Value]) -> (u32, Option<u32>) {
    let containers = of_containers.iter().enumerate();
    let containers = containers
        .map(|(at, context)| json!({ "name": at.to_string(), "securityContext": context }));
    let pod = serde_json::from_value(json!({
        "metadata": { "name": "web", "namespace": "shop", "uid": "u1" },
        "spec": {
            "serviceAccountName": "builder",
            "securityContext": of_pod,
            "containers": containers.collect::<Vec<_>>(),
        },
    }))
    .unwrap();
    let volume = projected(&json!([{ "serviceAccountToken": { "path": "t" } }]));
    let file = made(&pod, &volume).unwrap().files.remove("t").unwrap();
    (file.mode, file.owner)
}

// behaviour: VOL-46
#[test]
fn token_belongs_to_the_one_user_of_all_containers() {
    let user = |uid: i64| json!({ "runAsUser": uid });
    let rows = [
        (json!({}), vec![json!({})], (0o640, None)),
        (json!({}), vec![user(7), user(7)], (0o600, Some(7))),
        (json!({}), vec![user(7), user(8)], (0o640, None)),
        (json!({}), vec![user(7), json!({})], (0o640, None)),
        (user(9), vec![json!({}), json!({})], (0o600, Some(9))),
        (user(9), vec![user(0), json!({})], (0o640, None)),
        (user(9), vec![user(0), user(0)], (0o600, Some(0))),
        (json!({ "fsGroup": 5 }), vec![json!({})], (0o600, None)),
    ];
    for (of_pod, of_containers, expected) in rows {
        assert_eq!(token_of(&of_pod, &of_containers), expected, "{of_pod} {of_containers:?}");
    }
}

// behaviour: VOL-47
#[test]
fn token_failure_is_reported() {
    let mut pod = pod();
    pod.spec.as_mut().unwrap().service_account_name = Some("broken".to_owned());
    let volume = projected(&json!([{ "serviceAccountToken": { "path": "t" } }]));
    assert_eq!(made(&pod, &volume), Err("failed to fetch token: broken".to_owned()));
}

// behaviour: VOL-48
#[test]
fn paths_stay_inside_the_volume() {
    let of = |path: &str| {
        let items = json!([{ "key": "a", "path": path }]);
        json!({ "configMap": { "name": "settings", "items": items } })
    };
    let (long_name, long_path) = ("n".repeat(256), "n/".repeat(2049));
    check(&[
        (of(""), Err("invalid path: must not be empty: \"\"")),
        (of("."), Err("invalid path: must not be empty: \".\"")),
        (of("/x"), Err("invalid path: must be relative path: /x")),
        (of("a/../b"), Err("invalid path: must not contain '..': a/../b")),
        (of(".."), Err("invalid path: must not contain '..': ..")),
        (of("..data/x"), Err("invalid path: must not start with '..': ..data/x")),
        (of("./..data"), Err("invalid path: must not start with '..': ./..data")),
        (
            of(&long_name),
            Err("invalid path: filenames must be less than or equal to 255 characters"),
        ),
        (of(&long_path), Err("invalid path: must be less than or equal to 4096 characters")),
        (of("a/..b"), Ok(&["a/..b 644 ay"])),
        (of("...x"), Err("invalid path: must not start with '..': ...x")),
    ]);
}
