use std::sync::Arc;
use std::time::Duration;

use model::objects::{ServiceName, ServicePort, ServiceRecord};
use model::ports::objects::{RuntimeHandlers as _, ServiceVariables as _};
use testkit::cluster::{ApiCall, MemoryCluster};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, timeout};
use tokio_util::sync::CancellationToken;

use crate::{RuntimeClasses, Services};

fn service(namespace: &str, name: &str, ip: &str) -> ServiceRecord {
    ServiceRecord {
        name: ServiceName { namespace: namespace.into(), name: name.into() },
        cluster_ip: ip.into(),
        ports: vec![ServicePort { name: "".into(), protocol: "TCP".into(), port: 80 }],
    }
}

fn hosts(services: &Services, namespace: &str, links: bool) -> Option<Vec<String>> {
    let all = services.variables(namespace, links)?;
    let hosts = all.into_iter().filter(|(name, _)| name.ends_with("_SERVICE_HOST"));
    Some(hosts.map(|(name, _)| name.replace("_SERVICE_HOST", "").to_lowercase()).collect())
}

async fn wait(what: &str, is_so: impl Fn() -> bool) {
    let wait = async {
        while !is_so() {
            sleep(Duration::from_millis(10)).await;
        }
    };
    assert!(timeout(Duration::from_mins(1), wait).await.is_ok(), "{what}");
}

// behaviour: OBJ-17, OBJ-18
#[tokio::test(start_paused = true)]
async fn services_are_known_after_the_first_list_and_follow_changes() {
    let cluster = MemoryCluster::default();
    for one in [
        service("default", "kubernetes", "10.0.0.1"),
        service("ns", "web", "10.0.0.2"),
        service("ns", "headless", "None"),
        service("nt", "far", "10.0.0.3"),
    ] {
        cluster.put_service(one);
    }
    let services = Services::default();
    assert_eq!(hosts(&services, "ns", true), None);
    let mut tasks = JoinSet::new();
    tasks.spawn(services.clone().run(Arc::new(cluster.clone()), CancellationToken::new()));
    wait("all listed", || hosts(&services, "ns", true).is_some()).await;
    assert_eq!(hosts(&services, "ns", true).unwrap(), ["kubernetes", "web"]);
    assert_eq!(hosts(&services, "n", true).unwrap(), ["kubernetes"]);
    assert_eq!(hosts(&services, "default", true).unwrap(), ["kubernetes"]);
    cluster.put_service(service("ns", "new", "10.0.0.4"));
    // A service that loses its cluster IP has no variables.
    cluster.put_service(service("ns", "web", ""));
    let expected = ["kubernetes", "new"];
    wait("changed", || hosts(&services, "ns", true).unwrap() == expected).await;
    assert_eq!(hosts(&services, "ns", false).unwrap(), ["kubernetes"]);
    cluster.drop_service(ServiceName { namespace: "ns".into(), name: "new".into() });
    wait("gone", || hosts(&services, "ns", true).unwrap() == ["kubernetes"]).await;
}

// behaviour: OBJ-4
#[tokio::test(start_paused = true)]
async fn first_list_of_services_is_awaited_for_three_seconds() {
    let (cluster, services) = (MemoryCluster::default(), Services::default());
    let start = Instant::now();
    services.first_list().await;
    assert_eq!(start.elapsed(), Duration::from_secs(3));
    let mut tasks = JoinSet::new();
    let (followed, feed) = (services.clone(), Arc::new(cluster));
    tasks.spawn(async move {
        sleep(Duration::from_secs(1)).await;
        followed.run(feed, CancellationToken::new()).await;
    });
    let start = Instant::now();
    services.first_list().await;
    assert!(services.variables("ns", true).is_some());
    assert!(start.elapsed() < Duration::from_secs(2), "{:?}", start.elapsed());
}

// behaviour: OBJ-20, OBJ-21
#[tokio::test(start_paused = true)]
async fn classes_are_watched_from_the_first_lookup_on() {
    let cluster = MemoryCluster::default();
    cluster.put_runtime_class("gvisor", "runsc");
    let classes = RuntimeClasses::default();
    let error = classes.handler("gvisor").await.unwrap_err().to_string();
    assert!(error.starts_with("failed to lookup RuntimeClass gvisor: "), "{error}");
    let classes = RuntimeClasses::default();
    let mut tasks = JoinSet::new();
    tasks.spawn(classes.clone().run(Arc::new(cluster.clone()), CancellationToken::new()));
    sleep(Duration::from_hours(1)).await;
    assert_eq!(cluster.calls_of(ApiCall::Watch), [""; 0]);
    assert_eq!(classes.handler("gvisor").await.unwrap(), "runsc");
    let error = classes.handler("kata").await.unwrap_err();
    assert_eq!(error.to_string(), "runtimeclass.node.k8s.io \"kata\" not found");
    cluster.put_runtime_class("kata", "kata-qemu");
    cluster.drop_runtime_class("gvisor");
    let changed = async {
        while classes.handler("gvisor").await.is_ok() {
            sleep(Duration::from_millis(10)).await;
        }
    };
    timeout(Duration::from_mins(1), changed).await.unwrap();
    assert_eq!(classes.handler("kata").await.unwrap(), "kata-qemu");
    assert_eq!(cluster.calls_of(ApiCall::Watch), ["runtimeclasses"]);
}
