//! Listing a runtime that has very much.
//!
//! One answer may be too large for the runtime to send or for us to take: then it is asked for by
//! state, and a state by sandbox.

use std::collections::BTreeMap;

use futures_util::StreamExt as _;
use futures_util::stream::FuturesUnordered;
use model::ids::PodUid;
use model::observed::{Container, ContainerState, Sandbox, SandboxState};
use model::ports::runtime::{ContainerFilter, Runtime, RuntimeError, SandboxFilter};

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

/// All sandboxes, or those of a pod.
pub(super) async fn sandboxes(
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
pub(super) async fn containers(
    runtime: &dyn Runtime,
    pod: Option<&PodUid>,
    sandboxes: &[Sandbox],
) -> Result<Vec<Container>, RuntimeError> {
    let filter = ContainerFilter { pod_uid: pod.cloned(), ..ContainerFilter::default() };
    match runtime.list_containers(&filter).await {
        Err(error) if error.is_too_large() => {}
        listed => return listed,
    }
    let mut all = BTreeMap::new();
    for state in STATES {
        let filter = ContainerFilter { state: Some(state), ..filter.clone() };
        let listed = match runtime.list_containers(&filter).await {
            Err(error) if error.is_too_large() => by_sandbox(runtime, &filter, sandboxes).await?,
            listed => listed?,
        };
        all.extend(listed.into_iter().map(|container| (container.id.clone(), container)));
    }
    Ok(all.into_values().collect())
}

async fn by_sandbox(
    runtime: &dyn Runtime,
    filter: &ContainerFilter,
    sandboxes: &[Sandbox],
) -> Result<Vec<Container>, RuntimeError> {
    let mut waiting = sandboxes.iter();
    let (mut under_way, mut all) = (FuturesUnordered::new(), Vec::new());
    loop {
        while under_way.len() < LISTS_AT_A_TIME
            && let Some(sandbox) = waiting.next()
        {
            let sandbox_id = Some(sandbox.id.clone());
            under_way.push(list(runtime, ContainerFilter { sandbox_id, ..filter.clone() }));
        }
        match under_way.next().await {
            Some(listed) => all.append(&mut listed?),
            None => return Ok(all),
        }
    }
}

async fn list(
    runtime: &dyn Runtime,
    filter: ContainerFilter,
) -> Result<Vec<Container>, RuntimeError> {
    runtime.list_containers(&filter).await
}
