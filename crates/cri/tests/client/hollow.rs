//! The client with the in-memory runtime behind a real socket. Both ends convert messages; together they must
//! show the state of the runtime.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use ::cri::{CriRuntime, Deadlines, Endpoint};
use async_trait::async_trait;
use model::fingerprint::Fingerprint;
use model::ids::{ObjectId, PodName, PodUid};
use model::lists;
use model::ports::runtime::{
    ContainerFilter, ContainerService, Runtime, RuntimeInfo, SandboxFilter, SandboxService,
};
use tempfile::TempDir;
use testkit::contract::assert_kept;
use testkit::contract::runtime::{CASES, Harness};
use testkit::hollow::{Count, Failure, Hollow, Population, Settings, serve};
use testkit::runtime::RemoteImage;
use testkit::socket::bind;
use testkit::wanted;
use tokio::task::JoinSet;

const IMAGE: &str = "ferrolet.test/workload:1";
const REMOTE: &str = "ferrolet.test/remote:1";
const DISPOSABLE: &str = "ferrolet.test/disposable:1";

/// A hollow runtime with its own socket, and a client.
struct Served {
    hollow: Hollow,
    client: Arc<CriRuntime>,
    pods: AtomicU32,
    _serving: JoinSet<()>,
    _directory: TempDir,
}

impl fmt::Debug for Served {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Served").finish_non_exhaustive()
    }
}

fn served() -> Served {
    sending(None)
}

/// A runtime that sends lists of at most this many bytes.
fn sending(send_limit: Option<usize>) -> Served {
    let directory = tempfile::tempdir().unwrap();
    let socket = directory.path().join("cri.sock");
    let hollow = Hollow::new(Settings {
        images: Some(vec![REMOTE.into()]),
        image_directory: directory.path().into(),
        write_logs: false,
        users: BTreeMap::new(),
        requests: None,
        send_limit,
    });
    hollow.runtime().add_image(&RemoteImage::new(IMAGE));
    let mut serving = JoinSet::new();
    let listener = bind(&socket).unwrap();
    let server = serve(hollow.clone(), listener);
    serving.spawn(async { server.await.unwrap() });
    let endpoint = Endpoint::parse(socket.to_str().unwrap()).unwrap();
    let client = Arc::new(CriRuntime::new(&endpoint, &endpoint, Deadlines::default()));
    Served { hollow, client, pods: AtomicU32::new(0), _serving: serving, _directory: directory }
}

#[async_trait]
impl Harness for Served {
    fn runtime(&self) -> Runtime {
        Runtime::new(Arc::clone(&self.client))
    }

    fn image(&self) -> String {
        IMAGE.into()
    }

    fn absent_image(&self) -> String {
        "ferrolet.test/absent:1".into()
    }

    fn unused_pod(&self) -> (PodName, PodUid) {
        let number = self.pods.fetch_add(1, Ordering::Relaxed);
        (PodName::new("contract", format!("pod-{number}")), format!("uid-{number}").into())
    }

    async fn kill(&self, id: &ObjectId) -> bool {
        match id {
            ObjectId::Container(id) => self.hollow.runtime().kill_container(id, 137),
            ObjectId::Sandbox(id) => self.hollow.runtime().kill_sandbox(id),
        }
    }

    fn pullable_image(&self) -> Option<String> {
        Some(REMOTE.into())
    }

    async fn disposable_image(&self) -> Option<String> {
        self.hollow.runtime().add_image(&RemoteImage::new(DISPOSABLE));
        Some(DISPOSABLE.into())
    }
}

#[tokio::test]
async fn hollow_runtime_passes_every_case_of_the_contract() {
    let served = Arc::new(served());
    let mut playing = JoinSet::new();
    for case in CASES {
        let served = Arc::clone(&served);
        playing.spawn(async move { case.run(&*served).await });
    }
    let reports = playing.join_all().await;
    assert_eq!(reports.len(), CASES.len());
    assert_eq!(assert_kept(&reports), [], "these cases were skipped");
    assert_eq!(served.hollow.runtime().sandboxes(), [], "the cases clean up");
}

#[tokio::test]
async fn lists_and_statuses_match_the_state_of_the_runtime() {
    let Served { hollow, client, .. } = &served();
    let pod = wanted::sandbox(&PodName::new("shop", "web"), &"uid-1".into());
    let sandbox = client.run_pod_sandbox(&pod).await.unwrap();
    let config = wanted::container(&pod, "main", IMAGE, &["sleep", "forever"]);
    let id = client.create_container(&sandbox, &config, &pod).await.unwrap();
    client.start_container(&id).await.unwrap();
    let runtime = hollow.runtime();
    let all = SandboxFilter::default();
    assert_eq!(client.list_pod_sandboxes(&all).await.unwrap(), runtime.sandboxes());
    let all = ContainerFilter::default();
    assert_eq!(client.list_containers(&all).await.unwrap(), runtime.containers());
    let status = client.container_status(&id).await.unwrap();
    assert_eq!(status, runtime.container_status(&id).await.unwrap());
    let status = client.pod_sandbox_status(&sandbox).await.unwrap();
    assert_eq!(status, runtime.pod_sandbox_status(&sandbox).await.unwrap());
    client.stop_container(&id, Duration::from_secs(9)).await.unwrap();
    let status = client.container_status(&id).await.unwrap();
    assert_eq!(status, runtime.container_status(&id).await.unwrap());
}

#[tokio::test]
async fn ten_thousand_containers_are_listed() {
    let Served { hollow, client, .. } = &served();
    hollow.populate(&Population::of(1_000, 10)).await.unwrap();
    let containers = client.list_containers(&ContainerFilter::default()).await.unwrap();
    assert_eq!(containers, hollow.runtime().containers());
    assert_eq!(containers.len(), 10_000);
    let uid = containers[0].pod_uid.clone();
    let of_pod = ContainerFilter { pod_uid: Some(uid), ..ContainerFilter::default() };
    assert_eq!(client.list_containers(&of_pod).await.unwrap().len(), 10);
    let counted = Count { calls: 2, filtered: 1, failed: 0 };
    assert_eq!(hollow.gate().counts()["ListContainers"], counted);
}

// behaviour: GC-83, PLEG-53
#[tokio::test]
async fn large_lists_are_read_in_parts_and_compared_with_known_ones() {
    let Served { hollow, client, .. } = &sending(Some(16 << 10));
    hollow.populate(&Population::dead(10, 20)).await.unwrap();
    let error = client.list_containers(&ContainerFilter::default()).await.unwrap_err();
    assert!(error.is_too_large(), "{error}");
    assert!(error.message.contains("trying to send message larger than max"), "{error}");
    let all = (hollow.runtime().sandboxes(), hollow.runtime().containers());
    let runtime = Runtime::new(Arc::clone(client));
    assert_eq!(lists::everything(&runtime).await.unwrap(), all);
    let known = Fingerprint::of(&all.0, &all.1);
    assert_eq!(lists::everything_unless_known(&runtime, &known).await.unwrap(), None);
    let nothing = Fingerprint::default();
    assert_eq!(lists::everything_unless_known(&runtime, &nothing).await.unwrap(), Some(all));
}

#[tokio::test]
async fn injected_failure_reaches_the_client_with_its_code() {
    use model::ports::runtime::Code;

    let Served { hollow, client, .. } = &served();
    for (text, code) in
        [("Version=Aborted:1", Code::Aborted), ("Version=data_loss", Code::DataLoss)]
    {
        hollow.gate().fail(Failure::parse(text).unwrap());
        assert_eq!(client.version().await.unwrap_err().code, code);
    }
    hollow.gate().clear();
    client.version().await.unwrap();
}
