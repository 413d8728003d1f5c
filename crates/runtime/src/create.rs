//! Creates a container, after any outcome of earlier attempts.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::Arc;

use futures_util::future::join;
use k8s_openapi::api::core::v1::Container;
use model::environment::Environment;
use model::ids::ContainerId;
use model::lists;
use model::log_layout::LogLayout;
use model::observed::{ContainerState, ContainerStatus};
use model::ports::addresses::HostIps;
use model::ports::runtime::{ContainerFilter, ImageUser, Runtime, RuntimeError};
use model::wanted::{ContainerConfig, Device, Mount, NamespaceMode};
use podspec::view;
use tracing::{info, warn};

use crate::api::ApiParts;
use crate::container_config::{Instance, container_config};
use crate::container_files::ContainerFiles;
use crate::container_volumes::{ContainerVolumeMounts, ContainerVolumes};
use crate::decide::{
    ApiFacts, EnvironmentSources, NodeSettings, Role, TakenContainer, environment, startable,
    taken_container, with_default_tag,
};
use crate::error::StartError;
use crate::image::Ensured;
use crate::image_volumes::ImageVolumes;
use crate::layout::create_log_directory;
use crate::remover::ContainerRemover;
use crate::sandboxes::MOST_NAMES;
use crate::start_context::StartContext;

/// A created container.
pub(crate) struct CreatedContainer {
    pub(crate) id: ContainerId,
    /// Its log below the pod's log directory.
    pub(crate) log_path: String,
    /// Whether it is running already.
    pub(crate) runs: bool,
    /// Whether an earlier attempt created it.
    pub(crate) adopted: bool,
    /// Its restart count.
    pub(crate) number: u32,
}

/// The inputs of all attempts to create a container.
struct Prepared {
    /// The target of an ephemeral container.
    target: Option<ContainerId>,
    image_ref: String,
    image_user: Option<ImageUser>,
    envs: Environment,
    mounts: Vec<Mount>,
    devices: Vec<Device>,
    groups: BTreeSet<i64>,
    /// The directory of its termination messages, below the directories of pods.
    messages: Option<PathBuf>,
}

/// Creates containers, or finds those that earlier attempts created.
#[derive(Debug)]
pub(crate) struct ContainerCreator {
    pub(crate) runtime: Runtime,
    pub(crate) files: Arc<ContainerFiles>,
    pub(crate) node: Arc<NodeSettings>,
    pub(crate) host_ips: Arc<dyn HostIps>,
    /// The API; `None` for a standalone agent.
    pub(crate) api: Option<ApiParts>,
    pub(crate) remover: Arc<ContainerRemover>,
    pub(crate) volumes: ContainerVolumes,
}

impl ContainerCreator {
    /// The container to start: a matching one of an earlier attempt, or a new one.
    pub(crate) async fn adopt_or_create(
        &self,
        starting: &StartContext<'_>,
        image: Ensured,
        volumes: &ImageVolumes,
    ) -> Result<CreatedContainer, StartError> {
        let latest = starting.latest();
        let logs = self.files.logs.pod_logs.join(starting.logs());
        let number = async {
            let number = self.files.restart_count(latest, &logs).await;
            let container = || starting.container.name.clone();
            number.map_err(|source| StartError::Logs { container: container(), source })
        };
        if latest.is_none() {
            // The logs decide; they are listed while the rest is prepared.
            let (number, prepared) = join(number, self.prepare(starting, image, volumes)).await;
            return self.create(starting, number?, &prepared?).await;
        }
        let number = number.await?;
        let sandbox = &starting.sandbox.id;
        if let Some(waiting) = startable(latest, starting.container, sandbox) {
            info!(id = %waiting.id, container = %waiting.name, "Starting container created by an earlier attempt");
            let log_path = LogLayout::container_log(&waiting.name, number);
            let id = waiting.id.clone();
            return Ok(CreatedContainer { id, log_path, runs: false, adopted: true, number });
        }
        if let Some(unused) = latest.filter(|latest| latest.state == ContainerState::Created) {
            let removed = self.remover.never_started(starting, &unused.id, "never-started").await;
            removed.map_err(StartError::RemoveUnused)?;
        }
        let prepared = self.prepare(starting, image, volumes).await?;
        self.create(starting, number, &prepared).await
    }

    /// Creates a container with a restart count. A container of an earlier attempt with the same name is started
    /// or removed; a name that the runtime keeps reserved is skipped.
    async fn create(
        &self,
        starting: &StartContext<'_>,
        mut number: u32,
        prepared: &Prepared,
    ) -> Result<CreatedContainer, StartError> {
        let StartContext { container, sandbox, .. } = *starting;
        let mut names = 0;
        loop {
            names += 1;
            let config = self.configure(starting, number, prepared).await?;
            let log_path = config.log_path.clone();
            let made = self
                .runtime
                .containers
                .create_container(&sandbox.id, &config, &sandbox.config)
                .await;
            let error = match made {
                Ok(id) => {
                    return Ok(CreatedContainer {
                        id,
                        log_path,
                        runs: false,
                        adopted: false,
                        number,
                    });
                }
                Err(error) => error,
            };
            if !error.is_name_taken() || names == MOST_NAMES {
                return Err(StartError::Create(error));
            }
            warn!(pod = %sandbox.config.pod, container = container.name, %error, "Container name is taken");
            let found = self.named(starting, number).await.map_err(StartError::Create)?;
            match taken_container(found.as_ref(), container, &sandbox.id) {
                TakenContainer::Start(id) => {
                    return Ok(CreatedContainer {
                        id,
                        log_path,
                        runs: false,
                        adopted: true,
                        number,
                    });
                }
                TakenContainer::Runs(id) => {
                    return Ok(CreatedContainer {
                        id,
                        log_path,
                        runs: true,
                        adopted: true,
                        number,
                    });
                }
                TakenContainer::Remove(id) => {
                    // If the removal fails, its name stays taken.
                    let removed = self.remover.unused(starting, &id, "name-taken").await;
                    if removed.is_err() {
                        number = number.saturating_add(1);
                    }
                }
                TakenContainer::LookAgain => return Err(StartError::Create(error)),
                TakenContainer::NextNumber => number = number.saturating_add(1),
            }
        }
    }

    /// Prepares everything that does not depend on the restart count, in upstream's order, so that a rejected
    /// container leaves the same files as upstream. The files are created in parallel.
    async fn prepare(
        &self,
        starting: &StartContext<'_>,
        image: Ensured,
        images: &ImageVolumes,
    ) -> Result<Prepared, StartError> {
        let StartContext { pod, container, sandbox, .. } = *starting;
        let target = target(starting)?;
        let mut api = match &self.api {
            Some(api) => api.facts(pod, container).await.map_err(StartError::Config)?,
            None => ApiFacts::default(),
        };
        api.files = self.volumes.env_files(starting).await;
        let node_ips = self.host_ips.host_ips();
        let (ips, node) = (&sandbox.ips, &*self.node);
        let sources = EnvironmentSources { ips, node_ips: &node_ips, node, api: &api };
        let envs = environment(pod, container, &sources).map_err(StartError::Config)?;
        let volumes = self.volumes.mount(starting, &envs, images).await;
        let volumes = volumes.map_err(StartError::Config)?;
        let hosts = self.files.mounts(pod, container, ips);
        let messages = self.files.message_directory(&sandbox.config.pod_uid, container);
        let (hosts, messages) = join(hosts, messages).await;
        let ContainerVolumeMounts { mut mounts, devices, groups } = volumes;
        mounts.extend(hosts.map_err(StartError::Files)?);
        let image_user = match image.seen {
            Some(image) => image.user,
            None => self.image_user(container).await?,
        };
        let (envs, image_ref) = (envs.into(), image.image_ref);
        Ok(Prepared { target, image_ref, image_user, envs, mounts, devices, groups, messages })
    }

    /// The configuration for the runtime. From here on the container has a log path.
    async fn configure(
        &self,
        starting: &StartContext<'_>,
        number: u32,
        prepared: &Prepared,
    ) -> Result<ContainerConfig, StartError> {
        let StartContext { pod, container, .. } = *starting;
        let instance = Instance {
            restart_count: number,
            image_ref: prepared.image_ref.clone(),
            image_user: prepared.image_user.clone(),
            envs: prepared.envs.clone(),
            mounts: prepared.mounts.clone(),
            devices: prepared.devices.clone(),
            groups: prepared.groups.clone(),
        };
        let mut config =
            container_config(pod, container, instance, &self.node).map_err(StartError::Config)?;
        let logs = starting.logs();
        let messages = async {
            let directory = prepared.messages.as_deref()?;
            self.files.message_mount(directory, container).await
        };
        let logs = create_log_directory(&*self.files.files, &self.files.logs, &logs);
        let (logs, messages) = join(logs, messages).await;
        logs.map_err(|source| {
            let container = container.name.clone();
            StartError::LogDirectory { container, source }
        })?;
        // With a shared or host PID namespace it sees the target's processes anyway, even if
        // the target does not run.
        if config.pid == NamespaceMode::Container {
            config.pid_target.clone_from(&prepared.target);
        }
        config.mounts.extend(messages);
        Ok(config)
    }

    /// The user of the container's image.
    async fn image_user(&self, container: &Container) -> Result<Option<ImageUser>, StartError> {
        let image = container.image.clone().unwrap_or_default();
        match self.runtime.images.image_status(&with_default_tag(&image)).await {
            Ok(image) => Ok(image.and_then(|image| image.user)),
            Err(source) => Err(StartError::ImageUser { image, source }),
        }
    }

    /// The container with this name and restart count in the runtime.
    async fn named(
        &self,
        starting: &StartContext<'_>,
        number: u32,
    ) -> Result<Option<ContainerStatus>, RuntimeError> {
        let pod_uid = Some(starting.sandbox.config.pod_uid.clone());
        let filter = ContainerFilter { pod_uid, ..ContainerFilter::default() };
        let listed = lists::containers(&self.runtime, &filter).await?;
        let name = starting.container.name.as_str();
        let found = listed.into_iter().find(|one| &*one.name == name && one.attempt == number);
        let Some(found) = found else { return Ok(None) };
        match self.runtime.containers.container_status(&found.id).await {
            Ok(status) => Ok(Some(ContainerStatus { sandbox_id: found.sandbox_id, ..status })),
            Err(error) if error.is_not_found() => Ok(None),
            Err(error) => Err(error),
        }
    }
}

/// The target of an ephemeral container.
fn target(starting: &StartContext<'_>) -> Result<Option<ContainerId>, StartError> {
    if starting.role != Role::Ephemeral {
        return Ok(None);
    }
    let ephemeral = view::spec(starting.pod).and_then(|spec| spec.ephemeral_containers.as_deref());
    let ephemeral = ephemeral.unwrap_or_default().iter();
    let mut named = ephemeral.filter(|one| one.name == starting.container.name);
    let target = named.next().and_then(|one| one.target_container_name.as_deref());
    let Some(target) = target.filter(|target| !target.is_empty()) else { return Ok(None) };
    match starting.status.latest(target) {
        Some(latest) => Ok(Some(latest.id.clone())),
        None => Err(StartError::NoTarget { container: target.to_owned() }),
    }
}
