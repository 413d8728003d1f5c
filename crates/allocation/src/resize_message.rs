//! Event messages of resizes, in upstream's words.

use k8s_openapi::api::core::v1::{Container, Pod, ResourceRequirements};
use podspec::view;
use serde::Serialize;

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Summary<'a> {
    #[serde(skip_serializing_if = "Vec::is_empty")]
    init_containers: Vec<One<'a>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    containers: Vec<One<'a>>,
    generation: i64,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<&'a str>,
}

#[derive(Serialize)]
struct One<'a> {
    name: &'a str,
    resources: ResourceRequirements,
}

/// `Pod resize started: {…}`: the stage, and the requested resources.
pub fn resize_message(what: &str, pod: &Pod, error: Option<&str>) -> String {
    let summary = Summary {
        init_containers: ones(view::init_containers(pod)),
        containers: ones(view::containers(pod)),
        generation: pod.metadata.generation.unwrap_or(0),
        error,
    };
    match serde_json::to_string(&summary) {
        Ok(summary) => format!("Pod resize {what}: {summary}"),
        Err(_) => format!("Pod resize {what}"),
    }
}

fn ones(containers: &[Container]) -> Vec<One<'_>> {
    let one = containers.iter().map(|container| One {
        name: &container.name,
        resources: container.resources.clone().unwrap_or_default(),
    });
    one.collect()
}

#[cfg(test)]
mod tests {
    use podspec::{Origin, read_manifest};

    use super::*;

    // behaviour: RSZ-22
    #[test]
    fn message_matches_upstream() {
        let manifest = "apiVersion: v1\nkind: Pod\nmetadata: {name: web}\nspec:\n  \
            initContainers: [{name: c0, image: i, restartPolicy: Always, resources: \
            {requests: {cpu: 100m}, limits: {cpu: 200m}}}]\n  \
            containers: [{name: c1, image: i, resources: {requests: {memory: '100'}}}, {name: c2, image: i}]\n";
        let origin = Origin::File("/m/web.yaml".into());
        let pod = read_manifest(manifest.as_bytes(), &origin, "node").unwrap().pods.remove(0);
        let expected = r#"Pod resize OutOfcpu: {"initContainers":[{"name":"c0","resources":{"limits":{"cpu":"200m"},"requests":{"cpu":"100m"}}}],"containers":[{"name":"c1","resources":{"requests":{"memory":"100"}}},{"name":"c2","resources":{}}],"generation":0,"error":"no room"}"#;
        assert_eq!(resize_message("OutOfcpu", &pod, Some("no room")), expected);
        let mut pod = pod;
        pod.metadata.generation = Some(3);
        pod.spec.as_mut().unwrap().init_containers = None;
        let expected = r#"Pod resize started: {"containers":[{"name":"c1","resources":{"requests":{"memory":"100"}}},{"name":"c2","resources":{}}],"generation":3}"#;
        assert_eq!(resize_message("started", &pod, None), expected);
    }
}
