//! Listing a runtime that has very much.
//!
//! One answer may be too large for the runtime to send or for us to take: then it is asked for by
//! state, and a state by sandbox.

use std::collections::BTreeMap;

use futures_util::StreamExt as _;
use futures_util::stream::FuturesUnordered;
use model::ids::{ContainerId, PodUid};
use model::observed::{Container, ContainerState, Sandbox, SandboxState};
use model::ports::runtime::{ContainerFilter, ImageUse, Runtime, RuntimeError, SandboxFilter};
use tracing::debug;

/// In which a container goes from one to the next: one that changes while it is asked for by state may
/// be seen twice, but it is never missed.
const STATES: [ContainerState; 4] = [
    ContainerState::Created,
    ContainerState::Running,
    ContainerState::Unknown,
    ContainerState::Exited,
];

/// How many lists of a sandbox are under way at a time.
const LISTS_AT_A_TIME: usize = 4;

/// What a runtime lists, one for each container.
trait OfContainer: Sized + Send {
    fn container(&self) -> &ContainerId;
    fn list<'a>(
        runtime: &'a dyn Runtime,
        filter: &'a ContainerFilter,
    ) -> impl Future<Output = Result<Vec<Self>, RuntimeError>> + Send + 'a;
}

impl OfContainer for Container {
    fn container(&self) -> &ContainerId {
        &self.id
    }

    fn list<'a>(
        runtime: &'a dyn Runtime,
        filter: &'a ContainerFilter,
    ) -> impl Future<Output = Result<Vec<Self>, RuntimeError>> + Send + 'a {
        runtime.list_containers(filter)
    }
}

impl OfContainer for ImageUse {
    fn container(&self) -> &ContainerId {
        &self.container
    }

    fn list<'a>(
        runtime: &'a dyn Runtime,
        filter: &'a ContainerFilter,
    ) -> impl Future<Output = Result<Vec<Self>, RuntimeError>> + Send + 'a {
        runtime.list_image_uses(filter)
    }
}

/// All sandboxes, or those of a pod.
pub(crate) async fn sandboxes(
    runtime: &dyn Runtime,
    pod: Option<&PodUid>,
) -> Result<Vec<Sandbox>, RuntimeError> {
    let filter = SandboxFilter { pod_uid: pod.cloned(), ..SandboxFilter::default() };
    match runtime.list_pod_sandboxes(&filter).await {
        Err(error) if error.is_too_large() => {}
        listed => return listed,
    }
    let mut all = BTreeMap::new();
    for state in [SandboxState::Ready, SandboxState::NotReady] {
        let filter = SandboxFilter { state: Some(state), ..filter.clone() };
        let listed = runtime.list_pod_sandboxes(&filter).await?;
        all.extend(listed.into_iter().map(|sandbox| (sandbox.id.clone(), sandbox)));
    }
    Ok(all.into_values().collect())
}

/// All containers, or those of a pod. The sandboxes were listed before.
pub(crate) async fn containers(
    runtime: &dyn Runtime,
    pod: Option<&PodUid>,
    sandboxes: &[Sandbox],
) -> Result<Vec<Container>, RuntimeError> {
    let filter = ContainerFilter { pod_uid: pod.cloned(), ..ContainerFilter::default() };
    match runtime.list_containers(&filter).await {
        Err(error) if error.is_too_large() => in_parts(runtime, &filter, sandboxes).await,
        listed => listed,
    }
}

/// What all containers use.
pub(crate) async fn image_uses(runtime: &dyn Runtime) -> Result<Vec<ImageUse>, RuntimeError> {
    let filter = ContainerFilter::default();
    match runtime.list_image_uses(&filter).await {
        Err(error) if error.is_too_large() => {
            debug!(%error, "too many containers for one list; asking for parts of it");
            let sandboxes = sandboxes(runtime, None).await?;
            in_parts(runtime, &filter, &sandboxes).await
        }
        listed => listed,
    }
}

async fn in_parts<T: OfContainer>(
    runtime: &dyn Runtime,
    filter: &ContainerFilter,
    sandboxes: &[Sandbox],
) -> Result<Vec<T>, RuntimeError> {
    let mut all = BTreeMap::new();
    for state in STATES {
        let filter = ContainerFilter { state: Some(state), ..filter.clone() };
        let listed: Vec<T> = match T::list(runtime, &filter).await {
            Err(error) if error.is_too_large() => by_sandbox(runtime, &filter, sandboxes).await?,
            listed => listed?,
        };
        all.extend(listed.into_iter().map(|one| (one.container().clone(), one)));
    }
    Ok(all.into_values().collect())
}

async fn by_sandbox<T: OfContainer>(
    runtime: &dyn Runtime,
    filter: &ContainerFilter,
    sandboxes: &[Sandbox],
) -> Result<Vec<T>, RuntimeError> {
    let mut waiting = sandboxes.iter();
    let (mut under_way, mut all) = (FuturesUnordered::new(), Vec::new());
    loop {
        while under_way.len() < LISTS_AT_A_TIME
            && let Some(sandbox) = waiting.next()
        {
            let sandbox_id = Some(sandbox.id.clone());
            under_way.push(list::<T>(runtime, ContainerFilter { sandbox_id, ..filter.clone() }));
        }
        match under_way.next().await {
            Some(listed) => all.append(&mut listed?),
            None => return Ok(all),
        }
    }
}

async fn list<T: OfContainer>(
    runtime: &dyn Runtime,
    filter: ContainerFilter,
) -> Result<Vec<T>, RuntimeError> {
    T::list(runtime, &filter).await
}
