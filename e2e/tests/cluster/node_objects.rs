//! The objects that a node reads for its pods, with a node's own credentials.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use cluster::{Cluster as ApiServer, Connection, Exclusion, Rate, Rates, Source};
use e2e::api::{Api, Patch};
use e2e::audit::Audit;
use e2e::cluster::Cluster;
use e2e::node::PATIENCE;
use jiff::Timestamp;
use model::ids::{PodName, PodUid};
use model::objects::{ObjectKey, TokenRequest};
use model::ports::cluster::ApiError;
use model::ports::events::{EventType, Events, NodeEvent, NodeEvents, PodEvent};
use model::ports::objects::{
    Freshness, ObjectError, ObjectReads as _, PodObjects as _, RuntimeHandlers as _,
    ServiceVariables as _, TokenRequests as _,
};
use objects::{ObjectStore, RuntimeClasses, Services, Settings};
use prometheus::Registry;
use serde_json::{Value, json};
use testbed::{ControlPlaneOptions, User};
use testkit::clock::VirtualClock;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::objects::{node, pod};

const PODS: &str = "/api/v1/namespaces/shop/pods";

/// Creates a pod on a node that refers to a secret and a config map of this name; returns its UID.
fn make_pod(api: &Api, name: &str, node: &str, objects: &str) -> Result<PodUid> {
    let key = |kind: &str| json!({ kind: { "name": objects, "key": "k" } });
    let mut pod = pod(name, Some(node));
    pod["spec"]["containers"][0]["env"] = json!([
        { "name": "A", "valueFrom": key("secretKeyRef") },
        { "name": "B", "valueFrom": key("configMapKeyRef") },
    ]);
    // A node may request a token only if a volume of the pod has it.
    let token = json!({ "audience": "vault", "expirationSeconds": 3607, "path": "token" });
    let sources = json!([{ "serviceAccountToken": token }]);
    pod["spec"]["volumes"] = json!([{ "name": "token", "projected": { "sources": sources } }]);
    let made = api.create(PODS, &pod)?;
    Ok(made["metadata"]["uid"].as_str().context("a pod has a uid")?.into())
}

fn make_objects(api: &Api, name: &str) -> Result<()> {
    let object =
        |kind: &str| json!({ "apiVersion": "v1", "kind": kind, "metadata": { "name": name } });
    let mut secret = object("Secret");
    secret["stringData"] = json!({ "k": "first" });
    api.create("/api/v1/namespaces/shop/secrets", &secret)?;
    let mut map = object("ConfigMap");
    map["data"] = json!({ "k": "first" });
    map["immutable"] = json!(true);
    api.create("/api/v1/namespaces/shop/configmaps", &map)?;
    Ok(())
}

async fn server(kubeconfig: &Path) -> Result<ApiServer> {
    let connection = Connection::find(Some(kubeconfig.to_owned()), None, "test/1").await?;
    let source = Source { component: "kubelet", host: "mine".to_owned() };
    let rate = Rate { per_second: 50.0, burst: 100 };
    let rates = Rates { calls: rate, events: rate };
    Ok(ApiServer::new(connection, rates, Exclusion::default(), source))
}

/// Polls until the answer is as wanted.
async fn wait<T>(what: &str, mut poll: impl AsyncFnMut() -> Option<T>) -> Result<T> {
    let end = Instant::now() + PATIENCE;
    loop {
        if let Some(value) = poll().await {
            return Ok(value);
        }
        ensure!(Instant::now() < end, "{what}: not within {PATIENCE:?}");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

struct Harness {
    cluster: Cluster,
    /// The audit log of the node.
    audit: Audit,
    server: ApiServer,
    here: PodUid,
    elsewhere: PodUid,
}

impl Harness {
    /// The number of watches of the object `own`, and how many of them have ended.
    fn watches(&self, kind: &str) -> Option<(usize, usize)> {
        let calls = self.audit.calls().ok()?;
        let count = |stage: &str| {
            let is_it = |call: &&Value| {
                let object = &call["objectRef"];
                let is_granted = call["verb"] == "watch" && call["responseStatus"]["code"] == 200;
                let is_own = object["resource"] == kind && object["name"] == "own";
                is_granted && is_own && call["stage"] == stage
            };
            calls.iter().filter(is_it).count()
        };
        Some((count("ResponseStarted"), count("ResponseComplete")))
    }
}

fn key(name: &str) -> ObjectKey {
    ObjectKey::secret("shop", name)
}

async fn objects_are_followed(harness: &Harness, tasks: &mut JoinSet<()>) -> Result<()> {
    let store = ObjectStore::new(Arc::new(harness.server.clone()), Settings::default());
    tasks.spawn(store.clone().run(CancellationToken::new()));
    let map = ObjectKey::config_map("shop", "own");
    let wanted = [key("own"), key("none"), map.clone()];
    store.register(&harness.here, BTreeSet::from(wanted));
    // The API server lets the node read the object shortly after it sees the pod.
    let value = |name: &str, wanted: &str| {
        let (store, key, wanted) = (store.clone(), key(name), wanted.as_bytes().to_vec());
        async move || (*store.get(&key).await.ok()?.data["k"] == *wanted).then_some(())
    };
    wait("the secret", value("own", "first")).await?;
    wait("the config map", async || store.get(&map).await.ok()).await?;
    // An immutable object cannot change, so it is no longer watched.
    wait("its watch ends", async || harness.watches("configmaps").filter(|all| *all == (1, 1)))
        .await?;
    let changed = json!({ "stringData": { "k": "second" } });
    let path = "/api/v1/namespaces/shop/secrets/own";
    harness.api(|api| api.patch(path, Patch::Merge, &changed))?;
    wait("the change", value("own", "second")).await?;
    ensure!(harness.watches("configmaps") == Some((1, 1)), "{:?}", harness.watches("configmaps"));
    ensure!(harness.watches("secrets") == Some((1, 0)), "{:?}", harness.watches("secrets"));
    // No pod refers to it, so this node may not read it.
    let found = store.get(&key("none")).await;
    ensure!(matches!(found, Err(ObjectError::NotYet { .. })), "{found:?}");
    for name in ["foreign", "none"] {
        let read = harness.server.object(&key(name), Freshness::Newest).await;
        ensure!(matches!(read, Err(ApiError::Refused { code: 403, .. })), "{name}: {read:?}");
    }
    Ok(())
}

async fn tokens_are_for_own_pods(harness: &Harness) -> Result<()> {
    let request = |pod: &str, uid: &PodUid| TokenRequest {
        service_account: "default".into(),
        audiences: vec!["vault".to_owned()],
        expiration_seconds: 3607,
        pod: PodName::new("shop", pod),
        pod_uid: uid.clone(),
    };
    let own = request("here", &harness.here);
    let token = wait("a token", async || harness.server.request_token(&own).await.ok()).await?;
    ensure!(token.token.split('.').count() == 3, "no token");
    let others = TokenRequest { audiences: vec!["other".to_owned()], ..own };
    let others = harness.server.request_token(&others).await;
    ensure!(matches!(others, Err(ApiError::Refused { code: 403, .. })), "{others:?}");
    let foreign = harness.server.request_token(&request("elsewhere", &harness.elsewhere)).await;
    ensure!(matches!(foreign, Err(ApiError::Refused { code: 403, .. })), "{foreign:?}");
    Ok(())
}

async fn services_and_classes_are_known(harness: &Harness, tasks: &mut JoinSet<()>) -> Result<()> {
    let (services, classes) = (Services::default(), RuntimeClasses::default());
    let server = Arc::new(harness.server.clone());
    tasks.spawn(services.clone().run(server.clone(), CancellationToken::new()));
    tasks.spawn(classes.clone().run(server, CancellationToken::new()));
    wait("the API server's own service", async || {
        let all = services.variables("shop", false)?;
        all.into_iter().find(|(name, _)| name == "KUBERNETES_SERVICE_HOST")
    })
    .await?;
    let handler = wait("the class", async || classes.handler("gvisor").await.ok()).await?;
    ensure!(handler == "runsc", "{handler}");
    let found = classes.handler("none").await;
    ensure!(matches!(found, Err(ObjectError::NotFound { .. })), "{found:?}");
    Ok(())
}

async fn events_are_written(harness: &Harness, tasks: &mut JoinSet<()>) -> Result<()> {
    let metrics = events::Metrics::new(&Registry::new())?;
    let (events, writer) =
        events::channel("mine", Arc::new(VirtualClock::starting_at(Timestamp::now())), metrics);
    tasks.spawn(writer.run(Arc::new(harness.server.clone()), CancellationToken::new()));
    for _ in 0..3 {
        let event = PodEvent {
            pod_uid: harness.here.clone(),
            pod: PodName::new("shop", "here"),
            field_path: "spec.containers{c}".into(),
            kind: EventType::Warning,
            reason: "BackOff".into(),
            message: "Back-off".to_owned(),
            annotations: Vec::new(),
        };
        Events::record(&events, event);
    }
    let (kind, message) = (EventType::Normal, "Starting kubelet.".to_owned());
    NodeEvents::record(&events, NodeEvent { kind, reason: "Starting", message });
    let of_pod = wait("the pod's event", async || {
        let all = harness.api(|api| api.list("/api/v1/namespaces/shop/events")).ok()?;
        all.into_iter().find(|event| event["count"] == 3)
    })
    .await?;
    let involved = json!({
        "apiVersion": "v1", "kind": "Pod", "namespace": "shop", "name": "here",
        "uid": harness.here.as_str(), "fieldPath": "spec.containers{c}",
    });
    assert_eq!(of_pod["involvedObject"], involved);
    assert_eq!(of_pod["source"], json!({ "component": "kubelet", "host": "mine" }));
    assert_eq!((&of_pod["type"], &of_pod["reason"]), (&json!("Warning"), &json!("BackOff")));
    wait("the node's event", async || {
        let all = harness.api(|api| api.list("/api/v1/namespaces/default/events")).ok()?;
        let is_it = |event: &Value| event["involvedObject"]["name"] == "mine";
        all.into_iter().find(|event| is_it(event) && event["reason"] == "Starting")
    })
    .await?;
    Ok(())
}

impl Harness {
    /// Calls the API as an administrator.
    fn api<T>(&self, poll: impl FnOnce(&Api) -> Result<T>) -> Result<T> {
        tokio::task::block_in_place(|| poll(self.cluster.api()))
    }
}

// behaviour: OBJ-13, OBJ-23
#[test]
fn node_reads_only_objects_that_its_pods_refer_to() -> Result<()> {
    let audit = Audit::of(User::node("mine").name())?;
    let options =
        ControlPlaneOptions { api_server: audit.flags(), ..ControlPlaneOptions::default() };
    let cluster = Cluster::start(&options)?;
    cluster.make_namespace("shop")?;
    let api = cluster.api();
    for name in ["mine", "other"] {
        api.create("/api/v1/nodes", &node(name))?;
    }
    let class = json!({
        "apiVersion": "node.k8s.io/v1", "kind": "RuntimeClass", "metadata": { "name": "gvisor" },
        "handler": "runsc",
    });
    api.create("/apis/node.k8s.io/v1/runtimeclasses", &class)?;
    for name in ["own", "foreign"] {
        make_objects(api, name)?;
    }
    let here = make_pod(api, "here", "mine", "own")?;
    let elsewhere = make_pod(api, "elsewhere", "other", "foreign")?;
    let kubeconfig = cluster.kubeconfig(&User::node("mine"))?;
    let mut runtime = tokio::runtime::Builder::new_multi_thread();
    let runtime = runtime.worker_threads(1).enable_all().build()?;
    let server = runtime.block_on(server(&kubeconfig))?;
    let harness = Harness { cluster, audit, server, here, elsewhere };
    let looked = runtime.block_on(async {
        let mut tasks = JoinSet::new();
        objects_are_followed(&harness, &mut tasks).await.context("objects")?;
        tokens_are_for_own_pods(&harness).await.context("tokens")?;
        services_and_classes_are_known(&harness, &mut tasks).await.context("services")?;
        events_are_written(&harness, &mut tasks).await.context("events")
    });
    drop(runtime);
    looked?;
    let Harness { cluster, .. } = harness;
    cluster.stop()
}
