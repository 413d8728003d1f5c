//! Making a container, whatever became of earlier attempts.

use k8s_openapi::api::core::v1::Container;
use model::ids::ContainerId;
use model::observed::ContainerStatus;
use model::ports::runtime::{ContainerFilter, ImageUser, RuntimeError};
use podspec::view;
use tracing::warn;

use crate::act::PodRuntime;
use crate::container::{Instance, container_config};
use crate::create_sandbox::MOST_NAMES;
use crate::decide::{Role, TakenContainer, taken_container, with_default_tag};
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

impl PodRuntime {
    /// Makes a container under a number. What an earlier attempt left under the same name is started
    /// or removed; a name that the runtime does not give back is left to it.
    pub(crate) async fn create(
        &self,
        starting: &Starting<'_>,
        mut number: u32,
        image: Ensured,
    ) -> Result<Made, StartError> {
        let Starting { pod, container, home, .. } = *starting;
        let target = target(starting)?;
        let Ensured { image_ref, seen } = image;
        let image_user = match seen {
            Some(image) => image.user,
            None => self.image_user(container).await?,
        };
        let api = self.api_facts(pod, container).await.map_err(StartError::Config)?;
        let mut names = 0;
        loop {
            names += 1;
            let mounts = self.mounts(pod, container, &home.ips).await.map_err(StartError::Files)?;
            let instance = Instance {
                restart_count: number,
                image_ref: image_ref.clone(),
                image_user: image_user.clone(),
                ips: &home.ips,
                node_ips: &self.parts.host_ips.host_ips(),
                mounts,
                api: &api,
            };
            let mut config = container_config(pod, container, instance, &self.parts.node)
                .map_err(StartError::Config)?;
            config.pid_target.clone_from(&target);
            config.mounts.extend(self.message_mount(&home.config.pod_uid, container).await);
            let log_path = config.log_path.clone();
            let made =
                self.parts.runtime.create_container(&home.sandbox, &config, &home.config).await;
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

    /// Whom the container's image runs as.
    async fn image_user(&self, container: &Container) -> Result<Option<ImageUser>, StartError> {
        let image = container.image.clone().unwrap_or_default();
        match self.parts.runtime.image_status(&with_default_tag(&image)).await {
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
        let listed = runtime.list_containers(&filter).await?;
        let name = starting.container.name.as_str();
        let found = listed.into_iter().find(|one| &*one.name == name && one.attempt == number);
        let Some(found) = found else { return Ok(None) };
        match runtime.container_status(&found.id).await {
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
