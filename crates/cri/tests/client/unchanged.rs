//! Full lists, which are returned only if they changed.

use model::fingerprint::Fingerprint;
use model::ports::runtime::{
    Code, ContainerFilter, ContainerService, RuntimeInfo, SandboxFilter, SandboxService,
};
use proto::runtime_v1 as cri;

use crate::server::Server;
use crate::wanted::pod_labels;

fn sandbox(id: &str, state: cri::PodSandboxState) -> cri::PodSandbox {
    let metadata = cri::PodSandboxMetadata {
        name: "web".into(),
        uid: "uid-1".into(),
        namespace: "shop".into(),
        attempt: 1,
    };
    let labels = pod_labels();
    let state = state.into();
    cri::PodSandbox { id: id.into(), metadata: Some(metadata), state, labels, ..Default::default() }
}

fn container(id: &str, state: cri::ContainerState) -> cri::Container {
    cri::Container {
        id: id.into(),
        pod_sandbox_id: "s1".into(),
        metadata: Some(cri::ContainerMetadata { name: "app".into(), attempt: 4 }),
        state: state.into(),
        labels: pod_labels(),
        ..Default::default()
    }
}

fn answer(server: &Server, items: Vec<cri::PodSandbox>, containers: Vec<cri::Container>) {
    server.answer("ListPodSandbox", &cri::ListPodSandboxResponse { items });
    server.answer("ListContainers", &cri::ListContainersResponse { containers });
}

// behaviour: PLEG-48
#[tokio::test]
async fn unchanged_list_is_not_returned_for_any_order() {
    use cri::ContainerState::{ContainerCreated, ContainerExited, ContainerRunning};
    use cri::PodSandboxState::{SandboxNotready, SandboxReady};
    let (server, nothing) = (Server::running(), Fingerprint::default());
    let client = server.client();
    let (ready, dead) = (sandbox("s1", SandboxReady), sandbox("s2", SandboxNotready));
    let (runs, ended) = (container("c1", ContainerRunning), container("c2", ContainerExited));
    answer(&server, vec![ready.clone(), dead.clone()], vec![runs.clone(), ended.clone()]);

    let (sandboxes, containers) = client.list_if_changed(&nothing).await.unwrap().unwrap();
    assert_eq!(sandboxes, client.list_pod_sandboxes(&SandboxFilter::default()).await.unwrap());
    assert_eq!(containers, client.list_containers(&ContainerFilter::default()).await.unwrap());
    let known = Fingerprint::of(&sandboxes, &containers);
    assert_eq!(client.list_if_changed(&known).await.unwrap(), None);

    answer(&server, vec![dead.clone(), ready.clone()], vec![ended.clone(), runs.clone()]);
    assert_eq!(client.list_if_changed(&known).await.unwrap(), None);

    let died = container("c1", ContainerExited);
    let started_again = container("c2", ContainerRunning);
    let more = container("c3", ContainerCreated);
    let changed = [
        (vec![ready.clone(), dead.clone()], vec![died, ended.clone()]),
        (vec![ready.clone(), dead.clone()], vec![runs.clone(), started_again]),
        (vec![ready.clone(), dead.clone()], vec![runs.clone(), ended.clone(), more]),
        (vec![ready.clone(), dead.clone()], vec![runs.clone()]),
        (vec![sandbox("s1", SandboxNotready), dead], vec![runs.clone(), ended.clone()]),
        (vec![ready], vec![runs, ended]),
    ];
    for (sandboxes, containers) in changed {
        let count = (sandboxes.len(), containers.len());
        answer(&server, sandboxes, containers);
        let (sandboxes, containers) = client.list_if_changed(&known).await.unwrap().unwrap();
        assert_eq!((sandboxes.len(), containers.len()), count);
    }
}

#[tokio::test]
async fn malformed_list_is_an_error() {
    let server = Server::running();
    answer(&server, vec![], vec![]);
    server.answer_bytes("ListContainers", vec![0x0a, 0x7f, 1]);
    let error = server.client().list_if_changed(&Fingerprint::default()).await.unwrap_err();
    assert_eq!((error.method, error.code), ("ListContainers", Code::DataLoss));
    server.fail("ListPodSandbox", tonic::Code::Unavailable, "not now");
    let error = server.client().list_if_changed(&Fingerprint::default()).await.unwrap_err();
    assert_eq!((error.method, error.code), ("ListPodSandbox", Code::Unavailable));
}
