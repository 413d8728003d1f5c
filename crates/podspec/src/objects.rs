//! The secrets and config maps that a pod refers to.

use std::collections::BTreeSet;

use k8s_openapi::api::core::v1::{Container, Pod, Volume};
use model::objects::ObjectKey;

use crate::{references, view};

/// All objects that a pod refers to: for its variables, its volumes and the pulls of its images. References without a
/// name are ignored.
pub fn pod_objects(pod: &Pod) -> BTreeSet<ObjectKey> {
    let namespace = &view::pod_name(pod).namespace;
    let mut found = BTreeSet::new();
    let Some(spec) = view::spec(pod) else { return found };
    for container in view::init_containers(pod).iter().chain(view::containers(pod)) {
        found.append(&mut environment_objects(namespace, container));
    }
    for container in view::ephemeral_containers(pod) {
        found.append(&mut environment_objects(namespace, &container));
    }
    for secret in spec.image_pull_secrets.iter().flatten() {
        add(&mut found, ObjectKey::secret(namespace, &secret.name));
    }
    for volume in spec.volumes.iter().flatten() {
        add_volume(&mut found, namespace, volume);
    }
    found
}

/// The objects that the variables of a container refer to.
pub fn environment_objects(namespace: &str, container: &Container) -> BTreeSet<ObjectKey> {
    let mut found = BTreeSet::new();
    for source in container.env_from.iter().flatten() {
        if let Some(map) = &source.config_map_ref {
            add(&mut found, ObjectKey::config_map(namespace, &map.name));
        }
        if let Some(secret) = &source.secret_ref {
            add(&mut found, ObjectKey::secret(namespace, &secret.name));
        }
    }
    let sources = container.env.iter().flatten().filter_map(|one| one.value_from.as_ref());
    for source in sources {
        if let Some(map) = &source.config_map_key_ref {
            add(&mut found, ObjectKey::config_map(namespace, &map.name));
        }
        if let Some(secret) = &source.secret_key_ref {
            add(&mut found, ObjectKey::secret(namespace, &secret.name));
        }
    }
    found
}

fn add_volume(found: &mut BTreeSet<ObjectKey>, namespace: &str, volume: &Volume) {
    let mut names: Vec<&str> = references::secrets(volume)
        .into_iter()
        .filter_map(|(_, secret)| Some(secret?.name.as_str()))
        .collect();
    names.extend(volume.azure_file.as_ref().map(|source| source.secret_name.as_str()));
    names.extend(volume.secret.as_ref().and_then(|source| source.secret_name.as_deref()));
    let of_csi = volume.csi.as_ref().and_then(|source| source.node_publish_secret_ref.as_ref());
    names.extend(of_csi.map(|secret| secret.name.as_str()));
    let projections = volume.projected.iter().flat_map(|source| source.sources.iter().flatten());
    for projection in projections {
        names.extend(projection.secret.as_ref().map(|secret| secret.name.as_str()));
        if let Some(map) = &projection.config_map {
            add(found, ObjectKey::config_map(namespace, &map.name));
        }
    }
    for name in names {
        add(found, ObjectKey::secret(namespace, name));
    }
    if let Some(map) = &volume.config_map {
        add(found, ObjectKey::config_map(namespace, &map.name));
    }
}

fn add(found: &mut BTreeSet<ObjectKey>, key: ObjectKey) {
    if !key.name.is_empty() {
        found.insert(key);
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn found(spec: &Value) -> Vec<String> {
        let pod = json!({ "metadata": { "name": "p", "namespace": "ns" }, "spec": spec });
        let pod: Pod = serde_json::from_value(pod).unwrap();
        pod_objects(&pod).iter().map(ToString::to_string).collect()
    }

    fn with_volume(source: Value) -> Vec<String> {
        let mut volume = source;
        volume["name"] = "v".into();
        found(&json!({ "containers": [], "volumes": [volume] }))
    }

    // behaviour: OBJ-1
    #[test]
    fn variables_volumes_and_pull_secrets_refer_to_objects() {
        let env = |kind: &str, name: &str| {
            let key = json!({ "name": name, "key": "k" });
            json!([{ "name": "A", "valueFrom": { kind: key } }, { "name": "B", "value": "b" }])
        };
        let spec = json!({
            "imagePullSecrets": [{ "name": "pull" }, {}],
            "containers": [
                { "name": "a", "env": env("secretKeyRef", "of-env") },
                { "name": "b", "envFrom": [{ "secretRef": { "name": "all" } }, { "secretRef": {} },
                                           { "configMapRef": { "name": "all" }, "prefix": "x" }] },
            ],
            "initContainers": [{ "name": "i", "env": env("configMapKeyRef", "of-init") }],
            "ephemeralContainers": [{ "name": "e", "env": env("secretKeyRef", "of-ephemeral") }],
        });
        let expected = [
            "secret ns/all",
            "secret ns/of-env",
            "secret ns/of-ephemeral",
            "secret ns/pull",
            "configmap ns/all",
            "configmap ns/of-init",
        ];
        assert_eq!(found(&spec), expected);
        assert_eq!(found(&json!({ "containers": [] })), [""; 0]);
    }

    // behaviour: OBJ-1
    #[test]
    fn objects_of_every_volume_type_are_found() {
        let secret = json!({ "name": "s" });
        let rows = [
            (json!({ "secret": { "secretName": "s" } }), "secret ns/s"),
            (json!({ "configMap": { "name": "m" } }), "configmap ns/m"),
            (json!({ "azureFile": { "secretName": "s", "shareName": "" } }), "secret ns/s"),
            (json!({ "cephfs": { "monitors": [], "secretRef": secret } }), "secret ns/s"),
            (json!({ "cinder": { "volumeID": "", "secretRef": secret } }), "secret ns/s"),
            (json!({ "flexVolume": { "driver": "", "secretRef": secret } }), "secret ns/s"),
            (json!({ "csi": { "driver": "", "nodePublishSecretRef": secret } }), "secret ns/s"),
            (json!({ "rbd": { "monitors": [], "image": "", "secretRef": secret } }), "secret ns/s"),
            (json!({ "projected": { "sources": [{ "secret": secret }] } }), "secret ns/s"),
            (
                json!({ "projected": { "sources": [{ "configMap": { "name": "m" } }] } }),
                "configmap ns/m",
            ),
        ];
        for (volume, expected) in rows {
            assert_eq!(with_volume(volume.clone()), [expected], "{volume}");
        }
        assert_eq!(with_volume(json!({ "emptyDir": {} })), [""; 0]);
    }
}
