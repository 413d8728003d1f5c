//! The runtime service.

use futures_util::stream::BoxStream;
use model::ids::{ContainerId, SandboxId};
use model::ports::runtime::{ContainerService, RuntimeInfo, SandboxService};
use model::ports::streaming::Streaming as _;
use model::verdict::Subject;
use prost::Message as _;
use proto::runtime_v1 as cri;
use proto::runtime_v1::runtime_service_server::RuntimeService;
use tonic::{Request, Response, Status, async_trait};

use super::kept::KeptContainer;
use super::{Hollow, from_cri, logs, to_cri};
use crate::wanted::removal;

pub(super) type Answer<T> = Result<Response<T>, Status>;

pub(super) fn no_sandbox(id: &SandboxId) -> Status {
    Status::not_found(format!("sandbox {id:?}: not found"))
}

pub(super) fn no_container(id: &ContainerId) -> Status {
    Status::not_found(format!("container {id:?}: not found"))
}

impl Hollow {
    fn list_sandboxes(&self, filter: Option<cri::PodSandboxFilter>) -> Vec<cri::PodSandbox> {
        let filter = filter.unwrap_or_default();
        let state = filter.state.map(|value| value.state());
        let selection = from_cri::sandboxes(filter.id, state, filter.label_selector);
        if selection.is_partial() {
            self.gate.filtered("ListPodSandbox");
        }
        self.runtime.look(|look| {
            let records = look.sandboxes(&selection.filter);
            let records = records.filter(|record| selection.wants(&record.config.labels));
            records
                .map(|record| to_cri::sandbox(record, self.kept.runtime_handler(&record.id)))
                .collect()
        })
    }

    fn list_containers(&self, filter: Option<cri::ContainerFilter>) -> Vec<cri::Container> {
        let filter = filter.unwrap_or_default();
        let state = filter.state.map(|value| value.state());
        let (id, sandbox) = (filter.id, filter.pod_sandbox_id);
        let selection = from_cri::containers(id, sandbox, state, filter.label_selector);
        if selection.is_partial() {
            self.gate.filtered("ListContainers");
        }
        self.runtime.look(|look| {
            let records = look.containers(&selection.filter);
            let records = records.filter(|record| selection.wants(&record.config.labels));
            records.map(to_cri::container).collect()
        })
    }

    /// A list, or the error of gRPC's library for Go if it exceeds the size limit.
    pub(super) fn sendable<M: prost::Message>(&self, list: M) -> Answer<M> {
        match (self.settings.send_limit, list.encoded_len()) {
            (Some(most), size) if size > most => Err(Status::resource_exhausted(format!(
                "grpc: trying to send message larger than max ({size} vs. {most})"
            ))),
            _ => Ok(Response::new(list)),
        }
    }

    fn status_of(&self, id: &ContainerId) -> Result<cri::ContainerStatus, Status> {
        self.runtime.look(|look| {
            let record = look.container(id).ok_or_else(|| no_container(id))?;
            let kept = self.kept.container(&record.sandbox_id, id);
            Ok(to_cri::container_status(record, look.status(record), kept.as_deref()))
        })
    }

    /// The sandbox of a container.
    fn sandbox_of(&self, id: &ContainerId) -> Option<SandboxId> {
        self.runtime.look(|look| look.container(id).map(|record| record.sandbox_id.clone()))
    }

    fn write_log(&self, id: &ContainerId, line: Option<&str>) -> Result<(), Status> {
        let written = self.settings.write_logs.then(|| {
            self.runtime.look(|look| {
                look.container(id).map(|record| (look.now, look.status(record).log_path))
            })
        });
        match written.flatten() {
            Some((now, path)) => logs::write(&path, now, line)
                .map_err(|error| Status::internal(format!("write {path}: {error}"))),
            None => Ok(()),
        }
    }
}

#[async_trait]
impl RuntimeService for Hollow {
    async fn version(&self, _: Request<cri::VersionRequest>) -> Answer<cri::VersionResponse> {
        Ok(Response::new(cri::VersionResponse {
            version: "0.1.0".to_owned(),
            runtime_name: "hollow".to_owned(),
            runtime_version: env!("CARGO_PKG_VERSION").to_owned(),
            runtime_api_version: "v1".to_owned(),
        }))
    }

    async fn status(&self, _: Request<cri::StatusRequest>) -> Answer<cri::StatusResponse> {
        let status = self.runtime.status().await.map_err(to_cri::status)?;
        let handlers = status.handlers.into_iter().map(to_cri::runtime_handler);
        let conditions = [("RuntimeReady", status.runtime), ("NetworkReady", status.network)];
        let conditions = conditions.into_iter();
        let conditions = conditions.filter_map(|(kind, one)| Some(to_cri::condition(kind, one?)));
        Ok(Response::new(cri::StatusResponse {
            status: Some(cri::RuntimeStatus { conditions: conditions.collect() }),
            runtime_handlers: handlers.collect(),
            features: Some(cri::RuntimeFeatures {
                supplemental_groups_policy: status.features.supplemental_groups_policy,
                user_namespaces_host_network: status.features.user_namespaces_host_network,
            }),
            ..cri::StatusResponse::default()
        }))
    }

    async fn runtime_config(
        &self,
        _: Request<cri::RuntimeConfigRequest>,
    ) -> Answer<cri::RuntimeConfigResponse> {
        let cgroup_driver = cri::CgroupDriver::Cgroupfs.into();
        let linux = cri::LinuxRuntimeConfiguration { cgroup_driver };
        Ok(Response::new(cri::RuntimeConfigResponse { linux: Some(linux) }))
    }

    async fn update_runtime_config(
        &self,
        request: Request<cri::UpdateRuntimeConfigRequest>,
    ) -> Answer<cri::UpdateRuntimeConfigResponse> {
        let request = request.into_inner();
        self.record("UpdateRuntimeConfig", &request)?;
        let network = request.runtime_config.and_then(|config| config.network_config);
        let pod_cidrs = network.unwrap_or_default().pod_cidr;
        self.runtime.update_runtime_config(&pod_cidrs).await.map_err(to_cri::status)?;
        Ok(Response::new(cri::UpdateRuntimeConfigResponse {}))
    }

    async fn run_pod_sandbox(
        &self,
        request: Request<cri::RunPodSandboxRequest>,
    ) -> Answer<cri::RunPodSandboxResponse> {
        let request = request.into_inner();
        self.record("RunPodSandbox", &request)?;
        let config = from_cri::sandbox_config(request.config.unwrap_or_default())?;
        let id = self.runtime.run_pod_sandbox(&config).await.map_err(to_cri::status)?;
        let pod_sandbox_id = id.to_string();
        self.kept.keep_sandbox(id, request.runtime_handler);
        Ok(Response::new(cri::RunPodSandboxResponse { pod_sandbox_id }))
    }

    async fn stop_pod_sandbox(
        &self,
        request: Request<cri::StopPodSandboxRequest>,
    ) -> Answer<cri::StopPodSandboxResponse> {
        let id = SandboxId::from(request.into_inner().pod_sandbox_id);
        self.runtime.stop_pod_sandbox(&id).await.map_err(to_cri::status)?;
        Ok(Response::new(cri::StopPodSandboxResponse {}))
    }

    async fn remove_pod_sandbox(
        &self,
        request: Request<cri::RemovePodSandboxRequest>,
    ) -> Answer<cri::RemovePodSandboxResponse> {
        let id = SandboxId::from(request.into_inner().pod_sandbox_id);
        let verdict = removal(Subject::Sandbox(id.clone()));
        self.runtime.remove_pod_sandbox(&verdict).await.map_err(to_cri::status)?;
        self.kept.forget_sandbox(&id);
        Ok(Response::new(cri::RemovePodSandboxResponse {}))
    }

    async fn pod_sandbox_status(
        &self,
        request: Request<cri::PodSandboxStatusRequest>,
    ) -> Answer<cri::PodSandboxStatusResponse> {
        let id = SandboxId::from(request.into_inner().pod_sandbox_id);
        let status = self.runtime.look(|look| {
            let record = look.sandbox(&id).ok_or_else(|| no_sandbox(&id))?;
            Ok::<_, Status>(to_cri::sandbox_status(record, self.kept.runtime_handler(&id)))
        })?;
        Ok(Response::new(cri::PodSandboxStatusResponse {
            status: Some(status),
            ..cri::PodSandboxStatusResponse::default()
        }))
    }

    async fn list_pod_sandbox(
        &self,
        request: Request<cri::ListPodSandboxRequest>,
    ) -> Answer<cri::ListPodSandboxResponse> {
        let items = self.list_sandboxes(request.into_inner().filter);
        self.sendable(cri::ListPodSandboxResponse { items })
    }

    async fn update_pod_sandbox_resources(
        &self,
        request: Request<cri::UpdatePodSandboxResourcesRequest>,
    ) -> Answer<cri::UpdatePodSandboxResourcesResponse> {
        let id = SandboxId::from(request.into_inner().pod_sandbox_id);
        self.runtime.look(|look| look.sandbox(&id).map(drop)).ok_or_else(|| no_sandbox(&id))?;
        Ok(Response::new(cri::UpdatePodSandboxResourcesResponse {}))
    }

    async fn create_container(
        &self,
        request: Request<cri::CreateContainerRequest>,
    ) -> Answer<cri::CreateContainerResponse> {
        let mut request = request.into_inner();
        self.record("CreateContainer", &request)?;
        let sandbox = SandboxId::from(request.pod_sandbox_id);
        let config = request.config.get_or_insert_default();
        let kept = KeptContainer {
            mounts: std::mem::take(&mut config.mounts),
            resources: config.linux.as_mut().and_then(|linux| linux.resources.take()),
            stop_signal: config.stop_signal,
        };
        let config = from_cri::container_config(request.config.unwrap_or_default())?;
        let pod = from_cri::sandbox_config(request.sandbox_config.unwrap_or_default())?;
        let made = self.runtime.create_container(&sandbox, &config, &pod).await;
        let id = made.map_err(to_cri::status)?;
        let container_id = id.to_string();
        self.kept.keep_container(sandbox, id, kept);
        Ok(Response::new(cri::CreateContainerResponse { container_id }))
    }

    async fn start_container(
        &self,
        request: Request<cri::StartContainerRequest>,
    ) -> Answer<cri::StartContainerResponse> {
        let id = ContainerId::from(request.into_inner().container_id);
        self.runtime.start_container(&id).await.map_err(to_cri::status)?;
        self.write_log(&id, Some("started"))?;
        Ok(Response::new(cri::StartContainerResponse {}))
    }

    async fn stop_container(
        &self,
        request: Request<cri::StopContainerRequest>,
    ) -> Answer<cri::StopContainerResponse> {
        let request = request.into_inner();
        let (id, grace) =
            (ContainerId::from(request.container_id), from_cri::grace(request.timeout));
        self.runtime.stop_container(&id, grace).await.map_err(to_cri::status)?;
        Ok(Response::new(cri::StopContainerResponse {}))
    }

    async fn remove_container(
        &self,
        request: Request<cri::RemoveContainerRequest>,
    ) -> Answer<cri::RemoveContainerResponse> {
        let id = ContainerId::from(request.into_inner().container_id);
        let sandbox = self.sandbox_of(&id);
        let verdict = removal(Subject::Container(id.clone()));
        self.runtime.remove_container(&verdict).await.map_err(to_cri::status)?;
        if let Some(sandbox) = sandbox {
            self.kept.forget_container(&sandbox, &id);
        }
        Ok(Response::new(cri::RemoveContainerResponse {}))
    }

    async fn container_status(
        &self,
        request: Request<cri::ContainerStatusRequest>,
    ) -> Answer<cri::ContainerStatusResponse> {
        let status = self.status_of(&request.into_inner().container_id.into())?;
        Ok(Response::new(cri::ContainerStatusResponse {
            status: Some(status),
            ..cri::ContainerStatusResponse::default()
        }))
    }

    async fn list_containers(
        &self,
        request: Request<cri::ListContainersRequest>,
    ) -> Answer<cri::ListContainersResponse> {
        let containers = Self::list_containers(self, request.into_inner().filter);
        self.sendable(cri::ListContainersResponse { containers })
    }

    async fn update_container_resources(
        &self,
        request: Request<cri::UpdateContainerResourcesRequest>,
    ) -> Answer<cri::UpdateContainerResourcesResponse> {
        let request = request.into_inner();
        let id = ContainerId::from(request.container_id);
        let sandbox = self.sandbox_of(&id).ok_or_else(|| no_container(&id))?;
        let kept = self.kept.container(&sandbox, &id);
        let mut kept = kept.map(|kept| (*kept).clone()).unwrap_or_default();
        // Unset fields are kept: that is how messages merge.
        let change = request.linux.unwrap_or_default().encode_to_vec();
        let merged = kept.resources.get_or_insert_default().merge(&*change);
        merged.map_err(|error| Status::internal(error.to_string()))?;
        self.kept.keep_container(sandbox, id, kept);
        Ok(Response::new(cri::UpdateContainerResourcesResponse {}))
    }

    async fn reopen_container_log(
        &self,
        request: Request<cri::ReopenContainerLogRequest>,
    ) -> Answer<cri::ReopenContainerLogResponse> {
        let id = ContainerId::from(request.into_inner().container_id);
        self.sandbox_of(&id).ok_or_else(|| no_container(&id))?;
        self.write_log(&id, None)?;
        Ok(Response::new(cri::ReopenContainerLogResponse {}))
    }

    async fn exec_sync(
        &self,
        request: Request<cri::ExecSyncRequest>,
    ) -> Answer<cri::ExecSyncResponse> {
        let request = request.into_inner();
        let id = ContainerId::from(request.container_id);
        let timeout = Some(from_cri::grace(request.timeout)).filter(|time| !time.is_zero());
        let output = self.runtime.exec_sync(&id, &request.cmd, timeout).await;
        let output = output.map_err(to_cri::status)?;
        Ok(Response::new(cri::ExecSyncResponse {
            stdout: output.stdout,
            stderr: output.stderr,
            exit_code: output.exit_code,
        }))
    }

    async fn exec(&self, request: Request<cri::ExecRequest>) -> Answer<cri::ExecResponse> {
        let request = from_cri::exec(request.into_inner());
        let url = self.runtime.exec(&request).await.map_err(to_cri::status)?;
        Ok(Response::new(cri::ExecResponse { url }))
    }

    async fn attach(&self, request: Request<cri::AttachRequest>) -> Answer<cri::AttachResponse> {
        let request = from_cri::attach(request.into_inner());
        let url = self.runtime.attach(&request).await.map_err(to_cri::status)?;
        Ok(Response::new(cri::AttachResponse { url }))
    }

    async fn port_forward(
        &self,
        request: Request<cri::PortForwardRequest>,
    ) -> Answer<cri::PortForwardResponse> {
        let request = from_cri::port_forward(request.into_inner())?;
        let url = self.runtime.port_forward(&request).await.map_err(to_cri::status)?;
        Ok(Response::new(cri::PortForwardResponse { url }))
    }

    async fn checkpoint_container(
        &self,
        request: Request<cri::CheckpointContainerRequest>,
    ) -> Answer<cri::CheckpointContainerResponse> {
        let request = from_cri::checkpoint(request.into_inner());
        self.runtime.checkpoint_container(&request).await.map_err(to_cri::status)?;
        Ok(Response::new(cri::CheckpointContainerResponse {}))
    }

    async fn container_stats(
        &self,
        request: Request<cri::ContainerStatsRequest>,
    ) -> Answer<cri::ContainerStatsResponse> {
        let stats = self.stats_of_container(&request.into_inner().container_id.into())?;
        Ok(Response::new(cri::ContainerStatsResponse { stats: Some(stats) }))
    }

    async fn list_container_stats(
        &self,
        request: Request<cri::ListContainerStatsRequest>,
    ) -> Answer<cri::ListContainerStatsResponse> {
        let stats = self.stats_of_containers(request.into_inner().filter);
        Ok(Response::new(cri::ListContainerStatsResponse { stats }))
    }

    async fn pod_sandbox_stats(
        &self,
        request: Request<cri::PodSandboxStatsRequest>,
    ) -> Answer<cri::PodSandboxStatsResponse> {
        let stats = self.stats_of_sandbox(&request.into_inner().pod_sandbox_id.into())?;
        Ok(Response::new(cri::PodSandboxStatsResponse { stats: Some(stats) }))
    }

    async fn list_pod_sandbox_stats(
        &self,
        request: Request<cri::ListPodSandboxStatsRequest>,
    ) -> Answer<cri::ListPodSandboxStatsResponse> {
        let stats = self.stats_of_sandboxes(request.into_inner().filter);
        Ok(Response::new(cri::ListPodSandboxStatsResponse { stats }))
    }

    async fn list_metric_descriptors(
        &self,
        _: Request<cri::ListMetricDescriptorsRequest>,
    ) -> Answer<cri::ListMetricDescriptorsResponse> {
        Ok(Response::new(cri::ListMetricDescriptorsResponse::default()))
    }

    async fn list_pod_sandbox_metrics(
        &self,
        _: Request<cri::ListPodSandboxMetricsRequest>,
    ) -> Answer<cri::ListPodSandboxMetricsResponse> {
        let pod_metrics = self.metrics_of_sandboxes();
        Ok(Response::new(cri::ListPodSandboxMetricsResponse { pod_metrics }))
    }

    async fn get_container_events(
        &self,
        _: Request<cri::GetEventsRequest>,
    ) -> Answer<BoxStream<'static, Result<cri::ContainerEventResponse, Status>>> {
        Ok(Response::new(self.events()))
    }
}
