//! The endpoints for containers of a pod.

use std::fmt::Debug;
use std::net::IpAddr;
use std::sync::Arc;

use async_trait::async_trait;
use hyper::Request;
use hyper::body::Incoming;
use model::ids::PodName;

use crate::container_logs::{ContainerLogPath, container_logs};
use crate::decide::{ContainerTarget, PodEndpoint, PodTarget};
use crate::parts::LogParts;
use crate::respond::Answer;
use crate::streaming::{Checkpoints, StreamCaller, StreamPath, Streams};

/// The client of an authorised request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Client {
    /// The user name; empty on the read-only port.
    pub user: String,
    /// The address of the peer.
    pub address: Option<IpAddr>,
}

/// Logs, exec, attach, port-forward, run and checkpoints.
#[async_trait]
pub trait PodEndpoints: Debug + Send + Sync {
    /// Answers an authorised request. The connection allows upgrades.
    async fn answer(
        &self,
        endpoint: PodEndpoint,
        request: Request<Incoming>,
        client: &Client,
    ) -> Answer;
}

/// The endpoints for containers of this node.
#[derive(Debug)]
pub struct ContainerEndpoints {
    /// Exec, attach, port-forward and run.
    pub streams: Arc<Streams>,
    /// Logs.
    pub logs: LogParts,
    /// Checkpoints.
    pub checkpoints: Checkpoints,
    /// The feature gate `PodLogsQuerySplitStreams`.
    pub split_streams: bool,
}

#[async_trait]
impl PodEndpoints for ContainerEndpoints {
    async fn answer(
        &self,
        endpoint: PodEndpoint,
        request: Request<Incoming>,
        client: &Client,
    ) -> Answer {
        let caller = StreamCaller { user: client.user.clone(), address: client.address };
        let streams = &self.streams;
        match endpoint {
            PodEndpoint::Exec(target) => streams.exec(&path(target), request, &caller).await,
            PodEndpoint::Attach(target) => streams.attach(&path(target), request, &caller).await,
            PodEndpoint::Run(target) => {
                streams.run(&path(target), request.uri().query(), &caller).await
            }
            PodEndpoint::PortForward(PodTarget { namespace, pod, uid }) => {
                let target = ContainerTarget { namespace, pod, uid, container: String::new() };
                streams.port_forward(&path(target), request, &caller).await
            }
            PodEndpoint::ContainerLogs(ContainerTarget { namespace, pod, container, .. }) => {
                let path = ContainerLogPath { namespace, pod, container };
                let query = request.uri().query();
                container_logs(&self.logs, &path, query, self.split_streams).await
            }
            PodEndpoint::Checkpoint(target) => {
                let query = request.uri().query();
                streams.checkpoint(&path(target), query, &self.checkpoints).await
            }
        }
    }
}

fn path(target: ContainerTarget) -> StreamPath {
    let ContainerTarget { namespace, pod, uid, container } = target;
    let uid = uid.as_deref().map(Into::into);
    StreamPath { pod: PodName::new(namespace, pod), uid, container }
}
