//! Creating a container, whatever became of earlier attempts.

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

/// A container that was made.
pub(crate) struct Made {
    pub(crate) id: ContainerId,
    /// Its log below the pod's log directory.
    pub(crate) log_path: String,
    /// Whether it runs already.
    pub(crate) runs: bool,
    /// Whether an earlier attempt made it.
    pub(crate) adopted: bool,
    /// Its restart count.
    pub(crate) number: u32,
}

/// What all attempts to make a container have in common.
struct Prepared {
    /// The container into which it looks.
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
    /// The API; none for an agent that stands alone.
    pub(crate) api: Option<ApiParts>,
    pub(crate) remover: Arc<ContainerRemover>,
    pub(crate) volumes: ContainerVolumes,
}

impl ContainerCreator {
    /// The container to start: one that an earlier attempt made as wanted, or a new one.
    pub(crate) async fn adopt_or_create(
        &self,
        starting: &StartContext<'_>,
        image: Ensured,
        volumes: &ImageVolumes,
    ) -> Result<Made, StartError> {
        let latest = starting.latest();
        let logs = self.files.logs.pod_logs.join(starting.logs());
        let number = async {
            let number = self.files.restart_count(latest, &logs).await;
            let container = || starting.container.name.clone();
            number.map_err(|source| StartError::Logs { container: container(), source })
        };
        if latest.is_none() {
            // Only the logs tell, which are looked at while the rest is made.
            let (number, prepared) = join(number, self.prepare(starting, image, volumes)).await;
            return self.create(starting, number?, &prepared?).await;
        }
        let number = number.await?;
        let sandbox = &starting.sandbox.id;
        if let Some(waiting) = startable(latest, starting.container, sandbox) {
            info!(id = %waiting.id, container = %waiting.name, "starting what an earlier attempt made");
            let log_path = LogLayout::container_log(&waiting.name, number);
            let id = waiting.id.clone();
            return Ok(Made { id, log_path, runs: false, adopted: true, number });
        }
        if let Some(unused) = latest.filter(|latest| latest.state == ContainerState::Created) {
            let removed = self.remover.never_started(starting, &unused.id, "never-started").await;
            removed.map_err(StartError::RemoveUnused)?;
        }
        let prepared = self.prepare(starting, image, volumes).await?;
        self.create(starting, number, &prepared).await
    }

    /// Makes a container under a number. What an earlier attempt left under the same name is started
    /// or removed; a name that the runtime does not give back is left to it.
    async fn create(
        &self,
        starting: &StartContext<'_>,
        mut number: u32,
        prepared: &Prepared,
    ) -> Result<Made, StartError> {
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
                Ok(id) => return Ok(Made { id, log_path, runs: false, adopted: false, number }),
                Err(error) => error,
            };
            if !error.is_name_taken() || names == MOST_NAMES {
                return Err(StartError::Create(error));
            }
            warn!(pod = %sandbox.config.pod, container = container.name, %error, "the name of a container is taken");
            let found = self.named(starting, number).await.map_err(StartError::Create)?;
            match taken_container(found.as_ref(), container, &sandbox.id) {
                TakenContainer::Start(id) => {
                    return Ok(Made { id, log_path, runs: false, adopted: true, number });
                }
                TakenContainer::Runs(id) => {
                    return Ok(Made { id, log_path, runs: true, adopted: true, number });
                }
                TakenContainer::Remove(id) => {
                    // One that does not go keeps its name to itself.
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

    /// What a container needs, whatever its number. It is made in upstream's order, so that one that is
    /// refused leaves behind what it leaves there; its files are made side by side.
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

    /// What the runtime is asked for. From here on the container has a place for its log.
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
        // Where all containers see one another's processes, or the node's, it sees the target's anyway, also when
        // the target does not run.
        if config.pid == NamespaceMode::Container {
            config.pid_target.clone_from(&prepared.target);
        }
        config.mounts.extend(messages);
        Ok(config)
    }

    /// Whom the container's image runs as.
    async fn image_user(&self, container: &Container) -> Result<Option<ImageUser>, StartError> {
        let image = container.image.clone().unwrap_or_default();
        match self.runtime.images.image_status(&with_default_tag(&image)).await {
            Ok(image) => Ok(image.and_then(|image| image.user)),
            Err(source) => Err(StartError::ImageUser { image, source }),
        }
    }

    /// What the runtime has under the name and number.
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

/// The container into which an ephemeral one looks.
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
