//! Direct access to the runtime: its running containers, and their removal.

mod bare_pods;
mod deaths;
mod pod_requests;

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use hyper_util::rt::TokioIo;
use proto::runtime_v1 as cri;
use proto::runtime_v1::runtime_service_client::RuntimeServiceClient;
use tokio::net::UnixStream;
use tokio::runtime::Handle;
use tokio::task::JoinSet;
use tonic::transport::{Channel, Endpoint, Uri};
use tower::service_fn;

pub use bare_pods::{BarePod, StartedPod};
pub use deaths::Deaths;
pub use pod_requests::PodRequests;

/// The timeout of a call.
const CALL: Duration = Duration::from_mins(1);

/// How many pods are removed at a time.
const AT_A_TIME: usize = 4;

/// A list of thousands is larger than gRPC's usual limit.
const MESSAGE_LIMIT: usize = 64 << 20;

/// A client of the runtime without a proxy.
#[derive(Debug, Clone)]
pub struct Direct {
    client: RuntimeServiceClient<Channel>,
    /// Like `client`, without a timeout.
    patient: RuntimeServiceClient<Channel>,
    handle: Handle,
}

impl Direct {
    /// A client of the runtime at a socket.
    pub fn to(socket: &Path, handle: &Handle) -> Self {
        let _inside = handle.enter();
        let socket = socket.to_owned();
        let connect = service_fn(move |_: Uri| {
            let socket = socket.clone();
            async move { UnixStream::connect(socket).await.map(TokioIo::new) }
        });
        let endpoint = Endpoint::from(Uri::from_static("http://localhost"));
        let client = |endpoint: Endpoint| {
            let channel = endpoint.connect_with_connector_lazy(connect.clone());
            RuntimeServiceClient::new(channel).max_decoding_message_size(MESSAGE_LIMIT)
        };
        let (patient, client) = (client(endpoint.clone()), client(endpoint.timeout(CALL)));
        Self { client, patient, handle: handle.clone() }
    }

    /// The ids of all running containers, by the names of their pods.
    pub fn running(&self) -> Result<BTreeMap<String, String>> {
        let running =
            cri::ContainerStateValue { state: cri::ContainerState::ContainerRunning.into() };
        let filter = cri::ContainerFilter { state: Some(running), ..Default::default() };
        let request = cri::ListContainersRequest { filter: Some(filter) };
        let mut client = self.client.clone();
        let listing = async move { client.list_containers(request).await };
        let listed = self.handle.block_on(listing).context("list the containers that run")?;
        let name = "io.kubernetes.pod.name";
        let pair =
            |one: cri::Container| (one.labels.get(name).cloned().unwrap_or_default(), one.id);
        Ok(listed.into_inner().containers.into_iter().map(pair).collect())
    }

    /// The number of containers, dead or alive.
    pub fn containers(&self) -> Result<usize> {
        let mut client = self.client.clone();
        let listing =
            async move { client.list_containers(cri::ListContainersRequest::default()).await };
        let listed = self.handle.block_on(listing).context("list all containers")?;
        Ok(listed.into_inner().containers.len())
    }

    /// Removes all pods.
    pub fn empty(&self) -> Result<()> {
        self.handle.block_on(async {
            let request = cri::ListPodSandboxRequest::default();
            let listed = self.client.clone().list_pod_sandbox(request).await;
            let mut left = listed.context("list the pods")?.into_inner().items.into_iter();
            let mut removing = JoinSet::new();
            for sandbox in left.by_ref().take(AT_A_TIME) {
                removing.spawn(remove(self.client.clone(), sandbox.id));
            }
            while let Some(removed) = removing.join_next().await {
                removed.context("remove a pod")??;
                if let Some(sandbox) = left.next() {
                    removing.spawn(remove(self.client.clone(), sandbox.id));
                }
            }
            anyhow::Ok(())
        })?;
        let running = self.running()?;
        ensure!(running.is_empty(), "still running after all pods were removed: {running:?}");
        Ok(())
    }
}

async fn remove(mut client: RuntimeServiceClient<Channel>, id: String) -> Result<()> {
    let stop = cri::StopPodSandboxRequest { pod_sandbox_id: id.clone() };
    client.stop_pod_sandbox(stop).await.with_context(|| format!("stop sandbox {id}"))?;
    let remove = cri::RemovePodSandboxRequest { pod_sandbox_id: id.clone() };
    client.remove_pod_sandbox(remove).await.with_context(|| format!("remove sandbox {id}"))?;
    Ok(())
}
