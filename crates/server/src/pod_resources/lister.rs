//! The responses.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use model::pod_resources::PodResources;
use model::ports::clock::WallClock;
use model::tokens::Tokens;
use proto::podresources_v1::pod_resources_lister_server::PodResourcesLister;
use proto::podresources_v1::{
    AllocatableResourcesRequest, AllocatableResourcesResponse, GetPodResourcesRequest,
    GetPodResourcesResponse, ListPodResourcesRequest, ListPodResourcesResponse,
};
use proto::podresources_v1alpha1 as v1alpha1;
use tonic::{Request, Response, Status};

use super::metrics::{Metrics, V1, V1ALPHA1};
use super::to_proto::{old_pod, pod};

/// The burst of calls, and the interval of one more.
const BURST: u32 = 10;
const ONE_IN: Duration = Duration::from_millis(10);

/// The pods of a list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Listed {
    /// The pods that use resources of the node, or will.
    Active,
    /// All pods of the node.
    All,
}

/// Reports the resources of pods.
#[derive(Debug)]
pub struct Lister {
    pods: Arc<dyn PodResources>,
    listed: Listed,
    clock: Arc<dyn WallClock>,
    /// The tokens of the rate limit. Never held across an await.
    tokens: Mutex<Tokens>,
    metrics: Metrics,
}

impl Lister {
    /// Reports these pods.
    pub fn new(
        pods: Arc<dyn PodResources>,
        listed: Listed,
        clock: Arc<dyn WallClock>,
        metrics: Metrics,
    ) -> Self {
        let tokens = Mutex::new(Tokens::new(BURST, ONE_IN, clock.now()));
        Self { pods, listed, clock, tokens, metrics }
    }

    /// Refuses calls above the rate limit. As upstream's, such calls are not counted.
    fn enter(&self, version: &str) -> Result<(), Status> {
        let mut tokens = self.tokens.lock().unwrap_or_else(PoisonError::into_inner);
        if !tokens.take(self.clock.now()) {
            return Err(Status::resource_exhausted("rejected by rate limit"));
        }
        self.metrics.requests.with_label_values(&[version]).inc();
        Ok(())
    }
}

#[tonic::async_trait]
impl PodResourcesLister for Lister {
    async fn list(
        &self,
        _: Request<ListPodResourcesRequest>,
    ) -> Result<Response<ListPodResourcesResponse>, Status> {
        self.enter(V1)?;
        self.metrics.lists.with_label_values(&[V1]).inc();
        let pods = match self.listed {
            Listed::Active => self.pods.active(),
            Listed::All => self.pods.all(),
        };
        let pod_resources = pods.into_iter().map(pod).collect();
        Ok(Response::new(ListPodResourcesResponse { pod_resources }))
    }

    async fn get_allocatable_resources(
        &self,
        _: Request<AllocatableResourcesRequest>,
    ) -> Result<Response<AllocatableResourcesResponse>, Status> {
        self.enter(V1)?;
        self.metrics.gets_of_allocatable.with_label_values(&[V1]).inc();
        // No exclusive resources are allocated, as in upstream with disabled managers.
        Ok(Response::new(AllocatableResourcesResponse::default()))
    }

    async fn get(
        &self,
        request: Request<GetPodResourcesRequest>,
    ) -> Result<Response<GetPodResourcesResponse>, Status> {
        self.enter(V1)?;
        self.metrics.gets.with_label_values(&[V1]).inc();
        let GetPodResourcesRequest { pod_name, pod_namespace } = request.into_inner();
        let Some(found) = self.pods.named(&pod_namespace, &pod_name) else {
            self.metrics.failed_gets.with_label_values(&[V1]).inc();
            // With upstream's code and text.
            let why = format!("pod {pod_name} in namespace {pod_namespace} not found");
            return Err(Status::unknown(why));
        };
        Ok(Response::new(GetPodResourcesResponse { pod_resources: Some(pod(found)) }))
    }
}

#[tonic::async_trait]
impl v1alpha1::pod_resources_lister_server::PodResourcesLister for Lister {
    async fn list(
        &self,
        _: Request<v1alpha1::ListPodResourcesRequest>,
    ) -> Result<Response<v1alpha1::ListPodResourcesResponse>, Status> {
        self.enter(V1ALPHA1)?;
        let pod_resources = self.pods.all().into_iter().map(old_pod).collect();
        Ok(Response::new(v1alpha1::ListPodResourcesResponse { pod_resources }))
    }
}
