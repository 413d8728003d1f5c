use std::sync::Arc;
use std::time::Duration;

use proto::podresources_v1::pod_resources_lister_client::PodResourcesListerClient;
use proto::podresources_v1::pod_resources_lister_server::PodResourcesListerServer;
use proto::podresources_v1::{
    AllocatableResourcesRequest, AllocatableResourcesResponse, ContainerResources,
    GetPodResourcesRequest, ListPodResourcesRequest, PodResources,
};
use proto::podresources_v1alpha1 as v1alpha1;
use server::pod_resources::{Listed, Lister};
use tonic::Code;
use v1alpha1::pod_resources_lister_client::PodResourcesListerClient as OldClient;
use v1alpha1::pod_resources_lister_server::PodResourcesListerServer as OldServer;

use crate::node::Node;

fn client(node: &Node) -> PodResourcesListerClient<PodResourcesListerServer<Lister>> {
    PodResourcesListerClient::new(PodResourcesListerServer::from_arc(Arc::clone(&node.lister)))
}

async fn listed(node: &Node) -> Vec<PodResources> {
    let answer = client(node).list(ListPodResourcesRequest {}).await.unwrap();
    answer.into_inner().pod_resources
}

fn names(pods: &[PodResources]) -> Vec<(String, Vec<&str>)> {
    let name = |pod: &PodResources| format!("{}/{}", pod.namespace, pod.name);
    pods.iter()
        .map(|pod| (name(pod), pod.containers.iter().map(|one| &*one.name).collect()))
        .collect()
}

fn get(namespace: &str, name: &str) -> GetPodResourcesRequest {
    GetPodResourcesRequest { pod_name: name.to_owned(), pod_namespace: namespace.to_owned() }
}

// behaviour: PRS-1
#[tokio::test(start_paused = true)]
async fn list_has_active_pods_with_sidecars_first_and_no_devices() {
    let pods = listed(&Node::new(Listed::Active)).await;
    assert_eq!(names(&pods), [("shop/web".to_owned(), vec!["proxy", "main", "log"])]);
    let nothing = ContainerResources { name: "main".to_owned(), ..ContainerResources::default() };
    assert_eq!(pods[0].containers[1], nothing);
}

// behaviour: PRS-3
#[tokio::test(start_paused = true)]
async fn list_includes_inactive_pods_on_request() {
    let pods = listed(&Node::new(Listed::All)).await;
    let all: Vec<String> = names(&pods).into_iter().map(|(pod, _)| pod).collect();
    assert_eq!(all, ["shop/job", "shop/web"]);
}

// behaviour: PRS-4
#[tokio::test(start_paused = true)]
async fn v1alpha1_lists_all_pods_with_containers_only() {
    let node = Node::new(Listed::Active);
    let mut client = OldClient::new(OldServer::from_arc(Arc::clone(&node.lister)));
    let answer = client.list(v1alpha1::ListPodResourcesRequest {}).await.unwrap();
    let pods = answer.into_inner().pod_resources;
    let answered: Vec<(&str, Vec<&str>)> = pods
        .iter()
        .map(|pod| (&*pod.name, pod.containers.iter().map(|one| &*one.name).collect()))
        .collect();
    assert_eq!(answered, [("job", vec!["work"]), ("web", vec!["main", "log"])]);
}

// behaviour: PRS-5
#[tokio::test(start_paused = true)]
async fn get_returns_active_pods_by_name() {
    let node = Node::new(Listed::Active);
    let found = client(&node).get(get("shop", "web")).await.unwrap().into_inner();
    assert_eq!(found.pod_resources, listed(&node).await.pop());
    for (namespace, name) in [("shop", "job"), ("default", "web"), ("", "")] {
        let error = client(&node).get(get(namespace, name)).await.unwrap_err();
        let text = format!("pod {name} in namespace {namespace} not found");
        assert_eq!((error.code(), error.message()), (Code::Unknown, &*text));
    }
}

// behaviour: PRS-6
#[tokio::test(start_paused = true)]
async fn allocatable_resources_are_empty() {
    let node = Node::new(Listed::Active);
    let answer =
        client(&node).get_allocatable_resources(AllocatableResourcesRequest {}).await.unwrap();
    assert_eq!(answer.into_inner(), AllocatableResourcesResponse::default());
}

// behaviour: PRS-7
#[tokio::test(start_paused = true)]
async fn calls_above_the_rate_limit_are_refused_until_tokens_refill() {
    let node = Node::new(Listed::Active);
    let mut old = OldClient::new(OldServer::from_arc(Arc::clone(&node.lister)));
    for _ in 0..5 {
        client(&node).list(ListPodResourcesRequest {}).await.unwrap();
        old.list(v1alpha1::ListPodResourcesRequest {}).await.unwrap();
    }
    let refusals = [
        client(&node).list(ListPodResourcesRequest {}).await.unwrap_err(),
        client(&node).get(get("shop", "web")).await.unwrap_err(),
        old.list(v1alpha1::ListPodResourcesRequest {}).await.unwrap_err(),
    ];
    for refusal in refusals {
        let answered = (refusal.code(), refusal.message());
        assert_eq!(answered, (Code::ResourceExhausted, "rejected by rate limit"));
    }
    tokio::time::advance(Duration::from_millis(10)).await;
    client(&node).list(ListPodResourcesRequest {}).await.unwrap();
    client(&node).list(ListPodResourcesRequest {}).await.unwrap_err();
}

// behaviour: PRS-11
#[tokio::test(start_paused = true)]
async fn calls_are_counted_by_version_except_refused_ones() {
    let node = Node::new(Listed::Active);
    let mut old = OldClient::new(OldServer::from_arc(Arc::clone(&node.lister)));
    old.list(v1alpha1::ListPodResourcesRequest {}).await.unwrap();
    client(&node).get_allocatable_resources(AllocatableResourcesRequest {}).await.unwrap();
    client(&node).get(get("shop", "web")).await.unwrap();
    client(&node).get(get("shop", "job")).await.unwrap_err();
    for _ in 0..6 {
        client(&node).list(ListPodResourcesRequest {}).await.unwrap();
    }
    client(&node).list(ListPodResourcesRequest {}).await.unwrap_err();
    let text = node.metrics();
    for (name, version, count) in [
        ("requests_total", "v1", 9),
        ("requests_total", "v1alpha1", 1),
        ("requests_list", "v1", 6),
        ("requests_get", "v1", 2),
        ("requests_get_allocatable", "v1", 1),
        ("errors_get", "v1", 1),
    ] {
        let name = format!("kubelet_pod_resources_endpoint_{name}");
        let line = format!("{name}{{server_api_version=\"{version}\"}} {count}\n");
        assert!(text.contains(&line), "{line}: {text}");
    }
    assert!(!text.contains("requests_list{server_api_version=\"v1alpha1\"}"), "{text}");
}
