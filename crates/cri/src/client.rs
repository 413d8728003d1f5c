//! The CRI client: the runtime port over gRPC on a Unix socket.

use std::collections::BTreeMap;
use std::time::Duration;

use async_trait::async_trait;
use model::cgroup::CgroupDriver;
use model::fingerprint::Fingerprint;
use model::ids::{ContainerId, PodUid, SandboxId};
use model::image_access::RegistryAuth;
use model::observed::{Container, ContainerStatus, Sandbox, SandboxStatus};
use model::ports::runtime::{
    Code, ContainerEvents, ContainerFilter, ContainerService, ExecOutput, Image, ImageFsInfo,
    ImageService, ImageUse, Lists, RuntimeError, RuntimeInfo, RuntimeStatus, RuntimeVersion,
    SandboxFilter, SandboxService, WritableLayer,
};
use model::verdict::{Subject, Verdict};
use model::wanted::{ContainerConfig, LinuxResources, SandboxConfig};
use proto::runtime_v1 as cri;
use proto::runtime_v1::image_service_client::ImageServiceClient;
use proto::runtime_v1::runtime_service_client::RuntimeServiceClient;
use tonic::transport::Channel;

use crate::deadline::{Class, Deadlines};
use crate::endpoint::Endpoint;
use crate::error::{Call, on, wrong_subject};
use crate::lists::{Containers, ImageUses, Lister, Sandboxes};
use crate::operations::Operations;
use crate::service::{Service, channel};
use crate::{events, exec, from_cri, lists, to_cri, unchanged, verbose};

/// A list of some ten thousand containers is larger than gRPC's usual 4 MiB, and a node that cannot
/// list cannot clean up either.
pub(crate) const MESSAGE_LIMIT: usize = 64 << 20;

/// The object of a call that concerns no single object.
pub(crate) const ALL: &str = "of the runtime";

/// A CRI v1 runtime behind a socket. Connects on first use, and again after a broken connection.
#[derive(Debug, Clone)]
pub struct CriRuntime {
    pub(crate) runtime: Service<RuntimeServiceClient<Channel>>,
    image: Service<ImageServiceClient<Channel>>,
    /// The runtime service, for streamed responses: lists, and outputs of commands.
    lists: Service<Lister>,
}

impl CriRuntime {
    /// A client of a runtime endpoint and an image service endpoint, which may be the same. Must be called
    /// inside a tokio runtime.
    pub fn new(runtime: &Endpoint, image: &Endpoint, deadlines: Deadlines) -> Self {
        let runtime_channel = channel(runtime);
        let image_channel = if runtime == image { runtime_channel.clone() } else { channel(image) };
        let lists = Service {
            client: Lister(runtime_channel.clone()),
            endpoint: runtime.clone(),
            deadlines: deadlines.clone(),
            operations: None,
        };
        let runtime = Service {
            client: RuntimeServiceClient::new(runtime_channel)
                .max_decoding_message_size(MESSAGE_LIMIT),
            endpoint: runtime.clone(),
            deadlines: deadlines.clone(),
            operations: None,
        };
        let image = Service {
            client: ImageServiceClient::new(image_channel).max_decoding_message_size(MESSAGE_LIMIT),
            endpoint: image.clone(),
            deadlines,
            operations: None,
        };
        Self { runtime, image, lists }
    }

    /// Counts the calls of this client.
    #[must_use]
    pub fn counted(mut self, operations: &Operations) -> Self {
        self.runtime.operations = Some(operations.clone());
        self.image.operations = Some(operations.clone());
        self.lists.operations = Some(operations.clone());
        self
    }

    /// The process id of a container, if it runs and the runtime reports it.
    pub async fn container_process(&self, id: &ContainerId) -> Result<Option<i64>, RuntimeError> {
        let request = cri::ContainerStatusRequest { container_id: id.to_string(), verbose: true };
        let call = on("ContainerStatus", id.as_str());
        let method = RuntimeServiceClient::container_status;
        let answer = self.runtime.call(call, request, method).await?;
        Ok(verbose::container_process(&answer.info))
    }

    /// The cgroup driver, if the runtime reports it.
    pub async fn cgroup_driver(&self) -> Result<Option<CgroupDriver>, RuntimeError> {
        let call = on("RuntimeConfig", ALL);
        let method = RuntimeServiceClient::runtime_config;
        let answer = self.runtime.call(call, cri::RuntimeConfigRequest {}, method).await?;
        let Some(linux) = answer.linux else { return Ok(None) };
        match cri::CgroupDriver::try_from(linux.cgroup_driver) {
            Ok(cri::CgroupDriver::Systemd) => Ok(Some(CgroupDriver::Systemd)),
            Ok(cri::CgroupDriver::Cgroupfs) => Ok(Some(CgroupDriver::Cgroupfs)),
            Err(_) => Err(call.malformed("an unknown cgroup driver")),
        }
    }
}

/// The selection of a filter, for errors.
fn selected(pod: Option<&PodUid>, id: Option<&str>) -> String {
    match (pod, id) {
        (_, Some(id)) => id.to_owned(),
        (Some(pod), None) if pod.is_empty() => "of no pod".to_owned(),
        (Some(pod), None) => format!("of pod {pod}"),
        (None, None) => "of all pods".to_owned(),
    }
}

fn selected_containers(filter: &ContainerFilter) -> String {
    selected(filter.pod_uid.as_ref(), filter.id.as_ref().map(ContainerId::as_str))
}

/// Applies a filter for objects without a pod. The runtime cannot filter by a missing label.
fn of_pod<T>(mut list: Vec<T>, pod: Option<&PodUid>, is_empty: impl Fn(&T) -> bool) -> Vec<T> {
    if pod.is_some_and(PodUid::is_empty) {
        list.retain(is_empty);
    }
    list
}

fn image_spec(image: &str) -> cri::ImageSpec {
    cri::ImageSpec { image: image.to_owned(), ..cri::ImageSpec::default() }
}

/// The id of a created object, if the response has one.
pub(crate) fn named<T: From<String>>(
    call: Call<'_>,
    id: String,
    lack: &str,
) -> Result<T, RuntimeError> {
    if id.is_empty() { Err(call.malformed(lack)) } else { Ok(id.into()) }
}

#[async_trait]
impl SandboxService for CriRuntime {
    async fn run_pod_sandbox(&self, config: &SandboxConfig) -> Result<SandboxId, RuntimeError> {
        let pod = config.pod.to_string();
        let request = cri::RunPodSandboxRequest {
            config: Some(to_cri::sandbox_config(config)),
            runtime_handler: config.runtime_handler.clone(),
        };
        let call = on("RunPodSandbox", &pod).within(Class::Sandbox);
        let method = RuntimeServiceClient::run_pod_sandbox;
        let answer = self.runtime.call(call, request, method).await?;
        named(call, answer.pod_sandbox_id, "no sandbox id")
    }

    async fn stop_pod_sandbox(&self, id: &SandboxId) -> Result<(), RuntimeError> {
        let request = cri::StopPodSandboxRequest { pod_sandbox_id: id.to_string() };
        let call = on("StopPodSandbox", id.as_str());
        self.runtime.call(call, request, RuntimeServiceClient::stop_pod_sandbox).await?;
        Ok(())
    }

    async fn remove_pod_sandbox(&self, verdict: &Verdict) -> Result<(), RuntimeError> {
        let Subject::Sandbox(id) = &verdict.subject else {
            return Err(wrong_subject("RemovePodSandbox", verdict));
        };
        let request = cri::RemovePodSandboxRequest { pod_sandbox_id: id.to_string() };
        let call = on("RemovePodSandbox", id.as_str());
        self.runtime.call(call, request, RuntimeServiceClient::remove_pod_sandbox).await?;
        Ok(())
    }

    async fn list_pod_sandboxes(
        &self,
        filter: &SandboxFilter,
    ) -> Result<Vec<Sandbox>, RuntimeError> {
        let object = selected(filter.pod_uid.as_ref(), filter.id.as_ref().map(SandboxId::as_str));
        let list = lists::sandboxes::<Sandboxes>(&self.lists, &object, filter).await?.list;
        Ok(of_pod(list, filter.pod_uid.as_ref(), |sandbox| sandbox.pod_uid.is_empty()))
    }

    async fn pod_sandbox_status(&self, id: &SandboxId) -> Result<SandboxStatus, RuntimeError> {
        let request =
            cri::PodSandboxStatusRequest { pod_sandbox_id: id.to_string(), verbose: false };
        let call = on("PodSandboxStatus", id.as_str());
        let method = RuntimeServiceClient::pod_sandbox_status;
        let answer = self.runtime.call(call, request, method).await?;
        let status = answer.status.and_then(from_cri::sandbox_status);
        status.ok_or_else(|| call.malformed("no status, or one without id or metadata"))
    }

    async fn update_pod_sandbox_resources(
        &self,
        id: &SandboxId,
        overhead: &LinuxResources,
        resources: &LinuxResources,
    ) -> Result<(), RuntimeError> {
        let request = cri::UpdatePodSandboxResourcesRequest {
            pod_sandbox_id: id.to_string(),
            overhead: Some(to_cri::resources(overhead)),
            resources: Some(to_cri::resources(resources)),
        };
        let call = on("UpdatePodSandboxResources", id.as_str());
        let method = RuntimeServiceClient::update_pod_sandbox_resources;
        self.runtime.call(call, request, method).await?;
        Ok(())
    }

    async fn sandbox_image(&self, id: &SandboxId) -> Result<Option<String>, RuntimeError> {
        let request =
            cri::PodSandboxStatusRequest { pod_sandbox_id: id.to_string(), verbose: true };
        let call = on("PodSandboxStatus", id.as_str());
        let method = RuntimeServiceClient::pod_sandbox_status;
        let answer = self.runtime.call(call, request, method).await?;
        Ok(verbose::sandbox_image(&answer.info))
    }
}

#[async_trait]
impl ContainerService for CriRuntime {
    async fn create_container(
        &self,
        sandbox: &SandboxId,
        config: &ContainerConfig,
        sandbox_config: &SandboxConfig,
    ) -> Result<ContainerId, RuntimeError> {
        let object = format!("{} of {}", config.name, sandbox_config.pod);
        let request = cri::CreateContainerRequest {
            pod_sandbox_id: sandbox.to_string(),
            config: Some(to_cri::container_config(config, sandbox_config)),
            sandbox_config: Some(to_cri::sandbox_config(sandbox_config)),
        };
        let call = on("CreateContainer", &object);
        let sending = self.runtime.call(call, request, RuntimeServiceClient::create_container);
        // The largest request by far, so it is boxed.
        let answer = Box::pin(sending).await?;
        named(call, answer.container_id, "no container id")
    }

    async fn start_container(&self, id: &ContainerId) -> Result<(), RuntimeError> {
        let request = cri::StartContainerRequest { container_id: id.to_string() };
        let call = on("StartContainer", id.as_str());
        self.runtime.call(call, request, RuntimeServiceClient::start_container).await?;
        Ok(())
    }

    async fn stop_container(&self, id: &ContainerId, grace: Duration) -> Result<(), RuntimeError> {
        let request = cri::StopContainerRequest {
            container_id: id.to_string(),
            timeout: to_cri::grace(grace),
        };
        let call = on("StopContainer", id.as_str()).within(Class::Stop(grace));
        self.runtime.call(call, request, RuntimeServiceClient::stop_container).await?;
        Ok(())
    }

    async fn update_container_resources(
        &self,
        id: &ContainerId,
        resources: &LinuxResources,
    ) -> Result<(), RuntimeError> {
        let request = cri::UpdateContainerResourcesRequest {
            container_id: id.to_string(),
            linux: Some(to_cri::resources(resources)),
            ..cri::UpdateContainerResourcesRequest::default()
        };
        let call = on("UpdateContainerResources", id.as_str());
        let method = RuntimeServiceClient::update_container_resources;
        self.runtime.call(call, request, method).await?;
        Ok(())
    }

    async fn remove_container(&self, verdict: &Verdict) -> Result<(), RuntimeError> {
        let Subject::Container(id) = &verdict.subject else {
            return Err(wrong_subject("RemoveContainer", verdict));
        };
        let request = cri::RemoveContainerRequest { container_id: id.to_string() };
        let call = on("RemoveContainer", id.as_str());
        self.runtime.call(call, request, RuntimeServiceClient::remove_container).await?;
        Ok(())
    }

    async fn list_containers(
        &self,
        filter: &ContainerFilter,
    ) -> Result<Vec<Container>, RuntimeError> {
        let object = selected_containers(filter);
        let list = lists::containers::<Containers>(&self.lists, &object, filter).await?.list;
        Ok(of_pod(list, filter.pod_uid.as_ref(), |container| container.pod_uid.is_empty()))
    }

    async fn container_status(&self, id: &ContainerId) -> Result<ContainerStatus, RuntimeError> {
        let request = cri::ContainerStatusRequest { container_id: id.to_string(), verbose: false };
        let call = on("ContainerStatus", id.as_str());
        let method = RuntimeServiceClient::container_status;
        let answer = self.runtime.call(call, request, method).await?;
        let status = answer.status.and_then(from_cri::container_status);
        status.ok_or_else(|| call.malformed("no status, or one without id or metadata"))
    }

    async fn list_writable_layers(&self) -> Result<Vec<WritableLayer>, RuntimeError> {
        let request = cri::ListContainerStatsRequest { filter: None };
        let call = on("ListContainerStats", "of all pods");
        let method = RuntimeServiceClient::list_container_stats;
        let answer = self.runtime.call(call, request, method).await?;
        Ok(answer.stats.into_iter().filter_map(from_cri::writable_layer).collect())
    }

    async fn reopen_container_log(&self, id: &ContainerId) -> Result<(), RuntimeError> {
        let request = cri::ReopenContainerLogRequest { container_id: id.as_str().to_owned() };
        let call = on("ReopenContainerLog", id.as_str());
        self.runtime.call(call, request, RuntimeServiceClient::reopen_container_log).await?;
        Ok(())
    }

    async fn exec_sync(
        &self,
        id: &ContainerId,
        command: &[String],
        timeout: Option<Duration>,
    ) -> Result<ExecOutput, RuntimeError> {
        let request = cri::ExecSyncRequest {
            container_id: id.to_string(),
            cmd: command.to_vec(),
            // The runtime takes 0 as no timeout, so a timeout below a second is rounded up.
            timeout: timeout.map_or(0, |timeout| to_cri::grace(timeout).max(1)),
        };
        let call = on("ExecSync", id.as_str()).within(Class::Exec(timeout));
        let answer = self.lists.call(call, request, exec::exec_sync).await?;
        Ok(ExecOutput { stdout: answer.stdout, stderr: answer.stderr, exit_code: answer.exit_code })
    }
}

#[async_trait]
impl ImageService for CriRuntime {
    async fn image_status(&self, image: &str) -> Result<Option<Image>, RuntimeError> {
        let request = cri::ImageStatusRequest { image: Some(image_spec(image)), verbose: false };
        let call = on("ImageStatus", image);
        let answer = self.image.call(call, request, ImageServiceClient::image_status).await?;
        let Some(image) = answer.image else { return Ok(None) };
        from_cri::image(image).map(Some).ok_or_else(|| call.malformed("an image without id"))
    }

    async fn pull_image(
        &self,
        image: &str,
        sandbox: Option<&SandboxConfig>,
        auth: Option<&RegistryAuth>,
    ) -> Result<String, RuntimeError> {
        let annotations = sandbox.map(|sandbox| sandbox.annotations.clone());
        let image_spec =
            cri::ImageSpec { annotations: annotations.unwrap_or_default(), ..image_spec(image) };
        let request = cri::PullImageRequest {
            image: Some(image_spec),
            auth: auth.map(to_cri::auth),
            sandbox_config: sandbox.map(to_cri::sandbox_config),
        };
        let call = on("PullImage", image).within(Class::Pull);
        let answer = self.image.call(call, request, ImageServiceClient::pull_image).await?;
        if answer.image_ref.is_empty() {
            // Upstream's text. Upstream does not return it as a gRPC error, so it has no code.
            return Err(RuntimeError {
                method: "PullImage",
                object: image.to_owned(),
                code: Code::Unknown,
                message: format!("imageRef of image {image:?} is not set"),
            });
        }
        Ok(answer.image_ref)
    }

    async fn list_images(&self) -> Result<Vec<Image>, RuntimeError> {
        let request = cri::ListImagesRequest { filter: None };
        let call = on("ListImages", ALL);
        let answer = self.image.call(call, request, ImageServiceClient::list_images).await?;
        // Images without an id are included: the caller reports them.
        Ok(answer.images.into_iter().map(from_cri::listed_image).collect())
    }

    async fn remove_image(&self, verdict: &Verdict) -> Result<(), RuntimeError> {
        let Subject::Image(id) = &verdict.subject else {
            return Err(wrong_subject("RemoveImage", verdict));
        };
        let request = cri::RemoveImageRequest { image: Some(image_spec(id)) };
        self.image.call(on("RemoveImage", id), request, ImageServiceClient::remove_image).await?;
        Ok(())
    }

    async fn list_image_uses(
        &self,
        filter: &ContainerFilter,
    ) -> Result<Vec<ImageUse>, RuntimeError> {
        let object = selected_containers(filter);
        let list = lists::containers::<ImageUses>(&self.lists, &object, filter).await?.list;
        Ok(of_pod(list, filter.pod_uid.as_ref(), |one| one.pod_uid.is_none()))
    }

    async fn image_labels(&self, image: &str) -> Result<BTreeMap<String, String>, RuntimeError> {
        let request = cri::ImageStatusRequest { image: Some(image_spec(image)), verbose: true };
        let call = on("ImageStatus", image);
        let answer = self.image.call(call, request, ImageServiceClient::image_status).await?;
        Ok(verbose::image_labels(&answer.info))
    }

    async fn image_fs_info(&self) -> Result<ImageFsInfo, RuntimeError> {
        let call = on("ImageFsInfo", ALL);
        let request = cri::ImageFsInfoRequest {};
        let answer = self.image.call(call, request, ImageServiceClient::image_fs_info).await?;
        let all = |found: Vec<cri::FilesystemUsage>| {
            found.into_iter().filter_map(from_cri::image_filesystem).collect()
        };
        Ok(ImageFsInfo {
            images: all(answer.image_filesystems),
            containers: all(answer.container_filesystems),
        })
    }
}

#[async_trait]
impl RuntimeInfo for CriRuntime {
    async fn version(&self) -> Result<RuntimeVersion, RuntimeError> {
        let request = cri::VersionRequest { version: "v1".to_owned() };
        let call = on("Version", ALL);
        let answer = self.runtime.call(call, request, RuntimeServiceClient::version).await?;
        Ok(RuntimeVersion {
            name: answer.runtime_name,
            version: answer.runtime_version,
            api_version: answer.runtime_api_version,
        })
    }

    async fn status(&self) -> Result<RuntimeStatus, RuntimeError> {
        let request = cri::StatusRequest { verbose: false };
        let call = on("Status", ALL);
        let answer = self.runtime.call(call, request, RuntimeServiceClient::status).await?;
        let handlers = answer.runtime_handlers.into_iter().map(from_cri::runtime_handler).collect();
        let features = answer.features.unwrap_or_default();
        let status =
            answer.status.map(|status| from_cri::runtime_status(&status, handlers, features));
        status.ok_or_else(|| call.malformed("no status"))
    }

    async fn update_runtime_config(&self, pod_cidrs: &str) -> Result<(), RuntimeError> {
        let network = cri::NetworkConfig { pod_cidr: pod_cidrs.to_owned() };
        let config = cri::RuntimeConfig { network_config: Some(network) };
        let request = cri::UpdateRuntimeConfigRequest { runtime_config: Some(config) };
        let call = on("UpdateRuntimeConfig", pod_cidrs);
        self.runtime.call(call, request, RuntimeServiceClient::update_runtime_config).await?;
        Ok(())
    }

    async fn list_if_changed(&self, known: &Fingerprint) -> Result<Option<Lists>, RuntimeError> {
        unchanged::list_if_changed(&self.lists, known).await
    }

    async fn container_events(&self) -> Result<ContainerEvents, RuntimeError> {
        events::open(&self.runtime).await
    }
}
