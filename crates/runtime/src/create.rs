//! Making a container, whatever became of earlier attempts.

use std::path::PathBuf;

use futures_util::future::join;
use k8s_openapi::api::core::v1::Container;
use model::environment::Environment;
use model::ids::ContainerId;
use model::lists;
use model::observed::ContainerStatus;
use model::ports::runtime::{ContainerFilter, ImageUser, RuntimeError};
use model::wanted::{ContainerConfig, Mount, NamespaceMode};
use podspec::view;
use tracing::warn;

use crate::act::PodRuntime;
use crate::container::{Instance, container_config};
use crate::create_sandbox::MOST_NAMES;
use crate::decide::{
    EnvironmentSources, Role, TakenContainer, environment, taken_container, with_default_tag,
};
use crate::error::StartError;
use crate::image::Ensured;
use crate::start::Starting;

/// A container that was made.
pub(crate) struct Made {
    pub(crate) id: ContainerId,
    /// Its log below the pod's log directory.
    pub(crate) log_path: String,
    /// Whether it runs already.
    pub(crate) runs: bool,
    /// Whether an earlier attempt made it.
    pub(crate) adopted: bool,
}

/// What all attempts to make a container have in common.
pub(crate) struct Prepared {
    /// The container into which it looks.
    target: Option<ContainerId>,
    image_ref: String,
    image_user: Option<ImageUser>,
    envs: Environment,
    mounts: Vec<Mount>,
    /// Where its last words go, below the directories of pods.
    messages: Option<PathBuf>,
}

impl PodRuntime {
    /// Makes a container under a number. What an earlier attempt left under the same name is started
    /// or removed; a name that the runtime does not give back is left to it.
    pub(crate) async fn create(
        &self,
        starting: &Starting<'_>,
        mut number: u32,
        prepared: &Prepared,
    ) -> Result<Made, StartError> {
        let Starting { container, home, .. } = *starting;
        let mut names = 0;
        loop {
            names += 1;
            let config = self.configure(starting, number, prepared).await?;
            let log_path = config.log_path.clone();
            let made = self
                .parts
                .runtime
                .containers
                .create_container(&home.sandbox, &config, &home.config)
                .await;
            let error = match made {
                Ok(id) => return Ok(Made { id, log_path, runs: false, adopted: false }),
                Err(error) => error,
            };
            if !error.is_name_taken() || names == MOST_NAMES {
                return Err(StartError::Create(error));
            }
            warn!(pod = %home.config.pod, container = container.name, %error, "the name of a container is taken");
            let found = self.named(starting, number).await.map_err(StartError::Create)?;
            match taken_container(found.as_ref(), container, &home.sandbox) {
                TakenContainer::Start(id) => {
                    return Ok(Made { id, log_path, runs: false, adopted: true });
                }
                TakenContainer::Runs(id) => {
                    return Ok(Made { id, log_path, runs: true, adopted: true });
                }
                TakenContainer::Remove(id) => {
                    // One that does not go keeps its name to itself.
                    let removed = self.remove_unused(starting, &id, "name-taken").await;
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
    pub(crate) async fn prepare(
        &self,
        starting: &Starting<'_>,
        image: Ensured,
    ) -> Result<Prepared, StartError> {
        let Starting { pod, container, home, .. } = *starting;
        let target = target(starting)?;
        let api = self.api_facts(pod, container).await.map_err(StartError::Config)?;
        let node_ips = self.parts.host_ips.host_ips();
        let (ips, node) = (&home.ips, &self.parts.node);
        let sources = EnvironmentSources { ips, node_ips: &node_ips, node, api: &api };
        let envs = environment(pod, container, &sources).map_err(StartError::Config)?;
        let mounts = self.mounts(pod, container, ips);
        let messages = self.message_directory(&home.config.pod_uid, container);
        let (mounts, messages) = join(mounts, messages).await;
        let mounts = mounts.map_err(StartError::Files)?;
        let image_user = match image.seen {
            Some(image) => image.user,
            None => self.image_user(container).await?,
        };
        let (envs, image_ref) = (envs.into(), image.image_ref);
        Ok(Prepared { target, image_ref, image_user, envs, mounts, messages })
    }

    /// What the runtime is asked for. From here on the container has a place for its log.
    async fn configure(
        &self,
        starting: &Starting<'_>,
        number: u32,
        prepared: &Prepared,
    ) -> Result<ContainerConfig, StartError> {
        let Starting { pod, container, .. } = *starting;
        let instance = Instance {
            restart_count: number,
            image_ref: prepared.image_ref.clone(),
            image_user: prepared.image_user.clone(),
            envs: prepared.envs.clone(),
            mounts: prepared.mounts.clone(),
        };
        let mut config = container_config(pod, container, instance, &self.parts.node)
            .map_err(StartError::Config)?;
        let logs = starting.logs();
        let messages = async {
            let directory = prepared.messages.as_deref()?;
            self.message_mount(directory, container).await
        };
        let (logs, messages) = join(self.create_log_directory(&logs), messages).await;
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
        match self.parts.runtime.images.image_status(&with_default_tag(&image)).await {
            Ok(image) => Ok(image.and_then(|image| image.user)),
            Err(source) => Err(StartError::ImageUser { image, source }),
        }
    }

    /// What the runtime has under the name and number.
    async fn named(
        &self,
        starting: &Starting<'_>,
        number: u32,
    ) -> Result<Option<ContainerStatus>, RuntimeError> {
        let runtime = &self.parts.runtime;
        let pod_uid = Some(starting.home.config.pod_uid.clone());
        let filter = ContainerFilter { pod_uid, ..ContainerFilter::default() };
        let listed = lists::containers(runtime, &filter).await?;
        let name = starting.container.name.as_str();
        let found = listed.into_iter().find(|one| &*one.name == name && one.attempt == number);
        let Some(found) = found else { return Ok(None) };
        match runtime.containers.container_status(&found.id).await {
            Ok(status) => Ok(Some(ContainerStatus { sandbox_id: found.sandbox_id, ..status })),
            Err(error) if error.is_not_found() => Ok(None),
            Err(error) => Err(error),
        }
    }
}

/// The container into which an ephemeral one looks.
fn target(starting: &Starting<'_>) -> Result<Option<ContainerId>, StartError> {
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
