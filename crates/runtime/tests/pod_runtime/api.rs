//! API objects of pods.

use k8s_openapi::api::core::v1::Pod;
use model::objects::ObjectKey;
use model::ports::runtime::RuntimeHandler;
use runtime::SyncError;
use runtime::decide::NodeSettings;
use serde_json::json;
use testkit::cluster::object;
use testkit::objects::MemoryObjects;

use crate::harness::{Harness, IMAGE, forever, web};

/// The pod `web` whose container has a password and a setting.
fn with_secrets() -> Pod {
    let env = json!([
        { "name": "PASSWORD", "valueFrom": { "secretKeyRef": { "name": "s", "key": "p" } } },
    ]);
    let env_from = json!([{ "prefix": "APP_", "configMapRef": { "name": "m" } }]);
    web()
        .container("main", IMAGE, ["sleep", "forever"])
        .spec(|spec| {
            let main = &mut spec.containers[0];
            main.env = Some(serde_json::from_value(env).unwrap());
            main.env_from = Some(serde_json::from_value(env_from).unwrap());
        })
        .build()
}

// behaviour: OBJ-4, OBJ-5
#[tokio::test(start_paused = true)]
async fn container_waits_for_its_references() {
    let api = MemoryObjects::default();
    let harness = Harness::with_api(NodeSettings::default(), &api);
    let pod = with_secrets();
    let (reasons, _) = harness.failed(&pod).await;
    assert_eq!(reasons, [("main".to_owned(), "CreateContainerConfigError")]);
    let message = "Error: services have not yet been read at least once, cannot construct envvars";
    assert_eq!(harness.last_message("Failed"), message);

    api.set_services([("KUBERNETES_SERVICE_HOST", "10.0.0.1")]);
    harness.failed(&pod).await;
    assert_eq!(harness.last_message("Failed"), "Error: configmap \"m\" not found");

    api.put(ObjectKey::config_map("default", "m"), object([("level", "debug")]));
    api.put(ObjectKey::secret("default", "s"), object([]));
    harness.failed(&pod).await;
    let message = "Error: couldn't find key p in Secret default/s";
    assert_eq!(harness.last_message("Failed"), message);

    api.put(ObjectKey::secret("default", "s"), object([("p", "1234")]));
    harness.synced(&pod).await;
    let container = harness.running(&pod, "main").await;
    let config = harness.runtime.container_config(&container).unwrap();
    let expected =
        [("APP_level", "debug"), ("PASSWORD", "1234"), ("KUBERNETES_SERVICE_HOST", "10.0.0.1")];
    let expected: Vec<_> = expected.map(|(n, v)| (n.to_owned(), v.to_owned())).into();
    assert_eq!(config.envs.0, expected);
}

// behaviour: OBJ-2
#[tokio::test(start_paused = true)]
async fn pod_references_are_registered_until_it_is_cleaned_up() {
    let api = MemoryObjects::default();
    api.set_services([]);
    let harness = Harness::with_api(NodeSettings::default(), &api);
    let pod = with_secrets();
    harness.failed(&pod).await;
    let expected = [ObjectKey::secret("default", "s"), ObjectKey::config_map("default", "m")];
    assert_eq!(api.registered("uid-of-web"), expected);
    harness.pods.release(&pod).await.unwrap();
    assert!(api.registered("uid-of-web").is_empty());
}

// behaviour: OBJ-4
#[tokio::test(start_paused = true)]
async fn static_pod_does_not_wait_for_services() {
    let api = MemoryObjects::default();
    let harness = Harness::with_api(NodeSettings::default(), &api);
    let pod = web()
        .annotation("kubernetes.io/config.source", "file")
        .container("main", IMAGE, ["sleep", "forever"])
        .build();
    harness.synced(&pod).await;
    harness.running(&pod, "main").await;
}

// behaviour: OBJ-20, OBJ-21
#[tokio::test(start_paused = true)]
async fn pod_uses_the_handler_of_its_runtime_class_and_waits_for_it() {
    let api = MemoryObjects::default();
    api.set_services([]);
    let harness = Harness::with_api(NodeSettings::default(), &api);
    let pod = web()
        .container("main", IMAGE, ["sleep", "forever"])
        .spec(|spec| spec.runtime_class_name = Some("gvisor".to_owned()))
        .build();
    let error = harness.sync(&pod).await.unwrap_err();
    assert!(matches!(error, SyncError::SandboxConfig(_)), "{error}");
    let message = "Failed to create pod sandbox: runtimeclass.node.k8s.io \"gvisor\" not found";
    assert_eq!(harness.last_message("FailedCreatePodSandBox"), message);
    assert!(harness.calls().is_empty());

    api.put_runtime_class("gvisor", "runsc");
    harness.synced(&pod).await;
    let sandbox = harness.sandbox(&pod).await;
    assert_eq!(harness.runtime.sandbox_config(&sandbox).unwrap().runtime_handler, "runsc");

    // The class may be deleted: containers restart in the existing sandbox.
    api.drop_runtime_class("gvisor");
    harness.runtime.kill_container(&harness.running(&pod, "main").await, 1);
    harness.synced(&pod).await;
    assert_eq!(harness.sandbox(&pod).await, sandbox);
}

// behaviour: OBJ-20
#[tokio::test(start_paused = true)]
async fn pod_without_a_runtime_class_looks_none_up() {
    let api = MemoryObjects::default();
    api.set_services([]);
    let harness = Harness::with_api(NodeSettings::default(), &api);
    let pod = forever();
    harness.synced(&pod).await;
    let sandbox = harness.sandbox(&pod).await;
    assert_eq!(harness.runtime.sandbox_config(&sandbox).unwrap().runtime_handler, "");
}

// behaviour: OBJ-22
#[tokio::test(start_paused = true)]
async fn handler_of_the_runtime_class_must_support_user_namespaces() {
    let api = MemoryObjects::default();
    api.set_services([]);
    api.put_runtime_class("vm", "kata");
    let node = NodeSettings { ids_per_pod: 65_536, ..NodeSettings::default() };
    let harness = Harness::with_api(node, &api);
    let handler = |name: &str, user_namespaces| RuntimeHandler {
        name: name.to_owned(),
        user_namespaces,
        ..RuntimeHandler::default()
    };
    harness.runtime.set_handlers(vec![handler("", true), handler("kata", false)]);
    let pod = web()
        .container("main", IMAGE, ["sleep", "forever"])
        .spec(|spec| {
            spec.host_users = Some(false);
            spec.runtime_class_name = Some("vm".to_owned());
        })
        .build();
    harness.sync(&pod).await.unwrap_err();
    let message = "Failed to create pod sandbox: can't set `spec.hostUsers: false`, \
                   RuntimeClass handler \"kata\" does not support user namespaces";
    assert_eq!(harness.last_message("FailedCreatePodSandBox"), message);
    harness.runtime.set_handlers(vec![handler("", false), handler("kata", true)]);
    harness.synced(&pod).await;
}
