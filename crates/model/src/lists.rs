//! Lists a runtime with very many objects.
//!
//! One response may be too large for the runtime to send or for us to receive, and an agent that cannot list
//! cannot clean up either. Then lists are split by state, and a state again: containers by
//! sandbox, sandboxes by the IDs in containers.

use std::collections::{BTreeMap, BTreeSet};

use futures_util::StreamExt as _;
use futures_util::future::join;
use futures_util::stream::FuturesUnordered;

use crate::fingerprint::Fingerprint;
use crate::ids::{ContainerId, SandboxId};
use crate::observed::{Container, ContainerState, Sandbox, SandboxState};
use crate::ports::runtime::{
    ContainerFilter, ImageUse, Lists, Runtime, RuntimeError, SandboxFilter,
};

/// In the order in which a container changes states: one that changes during the lists by state may
/// be listed twice, but is never missed.
const STATES: [ContainerState; 4] = [
    ContainerState::Created,
    ContainerState::Running,
    ContainerState::Unknown,
    ContainerState::Exited,
];

/// The states of sandboxes.
const SANDBOX_STATES: [SandboxState; 2] = [SandboxState::Ready, SandboxState::NotReady];

/// How many small lists run at a time.
const LISTS_AT_A_TIME: usize = 4;

/// A listed object per container.
trait OfContainer: Sized + Send {
    fn container(&self) -> &ContainerId;
    fn list<'a>(
        runtime: &'a Runtime,
        filter: &'a ContainerFilter,
    ) -> impl Future<Output = Result<Vec<Self>, RuntimeError>> + Send + 'a;
}

impl OfContainer for Container {
    fn container(&self) -> &ContainerId {
        &self.id
    }

    fn list<'a>(
        runtime: &'a Runtime,
        filter: &'a ContainerFilter,
    ) -> impl Future<Output = Result<Vec<Self>, RuntimeError>> + Send + 'a {
        runtime.containers.list_containers(filter)
    }
}

impl OfContainer for ImageUse {
    fn container(&self) -> &ContainerId {
        &self.container
    }

    fn list<'a>(
        runtime: &'a Runtime,
        filter: &'a ContainerFilter,
    ) -> impl Future<Output = Result<Vec<Self>, RuntimeError>> + Send + 'a {
        runtime.images.list_image_uses(filter)
    }
}

/// All sandboxes and all containers.
pub async fn everything(runtime: &Runtime) -> Result<Lists, RuntimeError> {
    let (sandbox_filter, container_filter) = Default::default();
    let (sandboxes, containers) =
        join(sandboxes(runtime, &sandbox_filter), containers(runtime, &container_filter)).await;
    Ok((sandboxes?, containers?))
}

/// All sandboxes and all containers, or `None` if they equal `known`. A caller that lists often and mostly sees no
/// change saves the lists if the runtime has a cheaper way.
pub async fn everything_unless_known(
    runtime: &Runtime,
    known: &Fingerprint,
) -> Result<Option<Lists>, RuntimeError> {
    match runtime.info.list_if_changed(known).await {
        Err(error) if error.is_unimplemented() || error.is_too_large() => {}
        answer => return answer,
    }
    let (sandboxes, containers) = everything(runtime).await?;
    let is_known = known.is_same(&Fingerprint::of(&sandboxes, &containers));
    Ok((!is_known).then_some((sandboxes, containers)))
}

/// Sandboxes. If there are too many even by state, one without containers is missed until
/// there are fewer: no request could find it.
pub async fn sandboxes(
    runtime: &Runtime,
    filter: &SandboxFilter,
) -> Result<Vec<Sandbox>, RuntimeError> {
    match runtime.sandboxes.list_pod_sandboxes(filter).await {
        Err(error) if error.is_too_large() && filter.id.is_none() => {}
        listed => return listed,
    }
    let states = SANDBOX_STATES.into_iter();
    let (mut all, mut too_large) = (BTreeMap::new(), None);
    for state in states.filter(|state| filter.state.is_none_or(|wanted| wanted == *state)) {
        let filter = SandboxFilter { state: Some(state), ..filter.clone() };
        match runtime.sandboxes.list_pod_sandboxes(&filter).await {
            Err(error) if error.is_too_large() => too_large = Some(error),
            listed => {
                all.extend(listed?.into_iter().map(|sandbox| (sandbox.id.clone(), sandbox)));
            }
        }
    }
    if let Some(error) = too_large {
        let named = named_by_containers(runtime, filter, error).await?;
        let missing = named.into_iter().filter(|id| !all.contains_key(id));
        let filters = missing.map(|id| SandboxFilter { id: Some(id), ..filter.clone() });
        let list =
            async |filter: SandboxFilter| runtime.sandboxes.list_pod_sandboxes(&filter).await;
        let found = side_by_side(filters.map(list)).await?;
        all.extend(found.into_iter().map(|sandbox| (sandbox.id.clone(), sandbox)));
    }
    Ok(all.into_values().collect())
}

/// The sandboxes of containers; the given error if the containers are too many as well.
async fn named_by_containers(
    runtime: &Runtime,
    filter: &SandboxFilter,
    error: RuntimeError,
) -> Result<BTreeSet<SandboxId>, RuntimeError> {
    let mut named = BTreeSet::new();
    for state in STATES {
        let pod_uid = filter.pod_uid.clone();
        let filter = ContainerFilter { state: Some(state), pod_uid, ..ContainerFilter::default() };
        match runtime.containers.list_containers(&filter).await {
            Err(other) if other.is_too_large() => return Err(error),
            listed => named.extend(listed?.into_iter().map(|container| container.sandbox_id)),
        }
    }
    Ok(named)
}

/// Containers.
pub async fn containers(
    runtime: &Runtime,
    filter: &ContainerFilter,
) -> Result<Vec<Container>, RuntimeError> {
    of_containers(runtime, filter).await
}

/// The image uses of containers.
pub async fn image_uses(
    runtime: &Runtime,
    filter: &ContainerFilter,
) -> Result<Vec<ImageUse>, RuntimeError> {
    of_containers(runtime, filter).await
}

async fn of_containers<T: OfContainer>(
    runtime: &Runtime,
    filter: &ContainerFilter,
) -> Result<Vec<T>, RuntimeError> {
    match T::list(runtime, filter).await {
        Err(error) if error.is_too_large() && filter.id.is_none() => {}
        listed => return listed,
    }
    // Listed before the first container of one of them, and only if needed.
    let mut sandboxes: Option<Vec<SandboxId>> = None;
    let mut all = BTreeMap::new();
    let states = STATES.into_iter();
    for state in states.filter(|state| filter.state.is_none_or(|wanted| wanted == *state)) {
        let filter = ContainerFilter { state: Some(state), ..filter.clone() };
        let listed: Vec<T> = match T::list(runtime, &filter).await {
            Err(error) if error.is_too_large() && filter.sandbox_id.is_none() => {
                let ids = match sandboxes.take() {
                    Some(ids) => ids,
                    None => ids_of_sandboxes(runtime, &filter).await?,
                };
                let listed = by_sandbox(runtime, &filter, &ids).await?;
                sandboxes = Some(ids);
                listed
            }
            listed => listed?,
        };
        all.extend(listed.into_iter().map(|one| (one.container().clone(), one)));
    }
    Ok(all.into_values().collect())
}

async fn ids_of_sandboxes(
    runtime: &Runtime,
    filter: &ContainerFilter,
) -> Result<Vec<SandboxId>, RuntimeError> {
    let filter = SandboxFilter { pod_uid: filter.pod_uid.clone(), ..SandboxFilter::default() };
    let listed = sandboxes(runtime, &filter).await?;
    Ok(listed.into_iter().map(|sandbox| sandbox.id).collect())
}

async fn by_sandbox<T: OfContainer>(
    runtime: &Runtime,
    filter: &ContainerFilter,
    sandboxes: &[SandboxId],
) -> Result<Vec<T>, RuntimeError> {
    let filters = sandboxes.iter();
    let filters =
        filters.map(|id| ContainerFilter { sandbox_id: Some(id.clone()), ..filter.clone() });
    side_by_side(filters.map(async |filter| T::list(runtime, &filter).await)).await
}

/// The items of all lists, with a few lists at a time.
async fn side_by_side<T, F: Future<Output = Result<Vec<T>, RuntimeError>>>(
    mut lists: impl Iterator<Item = F>,
) -> Result<Vec<T>, RuntimeError> {
    let (mut under_way, mut all) = (FuturesUnordered::new(), Vec::new());
    loop {
        while under_way.len() < LISTS_AT_A_TIME
            && let Some(list) = lists.next()
        {
            under_way.push(list);
        }
        match under_way.next().await {
            Some(listed) => all.append(&mut listed?),
            None => return Ok(all),
        }
    }
}
