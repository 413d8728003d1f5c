//! The runtime calls of a list and an inspection.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::{join, join_all};
use model::fingerprint::Fingerprint;
use model::ids::PodUid;
use model::lists;
use model::observed::{
    Container, ContainerStatus, RuntimePod, RuntimePodStatus, Sandbox, SandboxStatus, pods_by_uid,
};
use model::ports::runtime::{Code, ContainerFilter, Runtime, RuntimeError, SandboxFilter};
use model::ports::termination_message::TerminationMessageReader;

use crate::decide::{known_container, known_sandbox, pod_status, to_inspect};

/// All sandboxes and containers, by pod; `None` when they equal the known ones.
pub(crate) async fn list(
    runtime: &Runtime,
    known: Option<&Fingerprint>,
) -> Result<Option<BTreeMap<PodUid, RuntimePod>>, RuntimeError> {
    if let Some(known) = known {
        let lists = lists::everything_unless_known(runtime, known).await?;
        return Ok(lists.map(|(sandboxes, containers)| pods_by_uid(sandboxes, containers)));
    }
    let (sandboxes, containers) = lists::everything(runtime).await?;
    Ok(Some(pods_by_uid(sandboxes, containers)))
}

/// The sandboxes and containers of one pod.
pub(crate) async fn list_pod(
    runtime: &Runtime,
    uid: &PodUid,
) -> Result<Option<RuntimePod>, RuntimeError> {
    let sandbox_filter = SandboxFilter { pod_uid: Some(uid.clone()), ..SandboxFilter::default() };
    let container_filter =
        ContainerFilter { pod_uid: Some(uid.clone()), ..ContainerFilter::default() };
    let (sandboxes, containers) = join(
        lists::sandboxes(runtime, &sandbox_filter),
        lists::containers(runtime, &container_filter),
    )
    .await;
    Ok(pods_by_uid(sandboxes?, containers?).remove(uid))
}

/// The status of a pod before its inspection.
#[derive(Debug)]
pub(crate) struct PreviousStatus {
    /// The last status that could be read.
    pub(crate) status: Option<Arc<RuntimePodStatus>>,
    /// Whether statuses of unchanged containers and sandboxes can be reused.
    pub(crate) holds: bool,
}

/// The status of a pod. A status that is still valid is not read again, nor are those of older exited
/// containers. An object that vanished since the list is left out; any other failure fails the whole
/// inspection, because a partial status would start containers that already run. Containers without a pod
/// UID are not inspected: their list entries are enough.
pub(crate) async fn status(
    runtime: &Runtime,
    messages: &dyn TerminationMessageReader,
    pod: RuntimePod,
    before: &PreviousStatus,
) -> Result<RuntimePodStatus, RuntimeError> {
    if pod.uid.is_empty() {
        return Ok(RuntimePodStatus { older: pod.containers, ..RuntimePodStatus::empty(pod.uid) });
    }
    let old = before.status.as_deref().filter(|_| before.holds);
    let sandboxes = pod.sandboxes.iter().map(async |sandbox| match known_sandbox(sandbox, old) {
        Some(known) => Ok(known.clone()),
        None => sandbox_status(runtime, sandbox).await,
    });
    let containers = async {
        let (mut read, mut gone) = (BTreeMap::new(), BTreeSet::new());
        loop {
            let next = to_inspect(&pod.containers, &gone);
            let next = next.into_iter().filter(|position| !read.contains_key(position));
            let answers = join_all(next.map(async |position| {
                let listed = &pod.containers[position];
                (position, container(runtime, messages, listed, old).await)
            }));
            let answers = answers.await;
            if answers.is_empty() {
                return read;
            }
            // The next older exited container replaces one that was removed.
            let denied = answers.iter().filter(|(_, answer)| is_denial(answer));
            gone.extend(denied.map(|(position, _)| *position));
            read.extend(answers);
        }
    };
    let (sandboxes, mut containers) = join(join_all(sandboxes), containers).await;
    // A second read after a failure is believed, or the pod might never get a status.
    if before.holds
        && let Some(denial) = first_denial(&sandboxes).or_else(|| first_denial(containers.values()))
    {
        confirm(runtime, &pod, denial).await?;
    }
    // Kept for thousands of pods, so it has no spare capacity.
    let (mut statuses, mut older) = (Vec::with_capacity(containers.len()), Vec::new());
    for (position, listed) in pod.containers.into_iter().enumerate() {
        match containers.remove(&position) {
            Some(answer) => statuses.push(answer),
            None => older.push(listed),
        }
    }
    older.shrink_to_fit();
    let (containers, sandboxes) = (found(statuses)?, found(sandboxes)?);
    Ok(pod_status(pod.uid, sandboxes, containers, older, before.status.as_deref()))
}

async fn container(
    runtime: &Runtime,
    messages: &dyn TerminationMessageReader,
    listed: &Container,
    old: Option<&RuntimePodStatus>,
) -> Result<ContainerStatus, RuntimeError> {
    if let Some(known) = known_container(listed, old) {
        return Ok(known.clone());
    }
    let mut status = runtime.containers.container_status(&listed.id).await?;
    status.sandbox_id = listed.sandbox_id.clone();
    share(&mut status.id, &listed.id);
    share(&mut status.name, &listed.name);
    share(&mut status.image_ref, &listed.image_ref);
    messages.add(&mut status).await;
    Ok(status)
}

async fn sandbox_status(
    runtime: &Runtime,
    listed: &Sandbox,
) -> Result<SandboxStatus, RuntimeError> {
    let mut status = runtime.sandboxes.pod_sandbox_status(&listed.id).await?;
    share(&mut status.id, &listed.id);
    share(&mut status.pod_uid, &listed.pod_uid);
    share(&mut status.pod, &listed.pod);
    Ok(status)
}

/// Shares equal values between a status and its list entry: both are kept for thousands of pods.
fn share<T: Clone + PartialEq>(value: &mut T, listed: &T) {
    if value == listed {
        value.clone_from(listed);
    }
}

fn is_denial<T>(answer: &Result<T, RuntimeError>) -> bool {
    answer.as_ref().is_err_and(RuntimeError::is_not_found)
}

/// The first `NotFound` error.
fn first_denial<'a, T: 'a>(
    answers: impl IntoIterator<Item = &'a Result<T, RuntimeError>>,
) -> Option<&'a RuntimeError> {
    let mut errors = answers.into_iter().filter_map(|answer| answer.as_ref().err());
    errors.find(|error| error.is_not_found())
}

/// Lists the pod again: a runtime that still lists an object that it did not find contradicts itself, and
/// an agent that believed the error would start a container that already runs.
async fn confirm(
    runtime: &Runtime,
    pod: &RuntimePod,
    denial: &RuntimeError,
) -> Result<(), RuntimeError> {
    let now = list_pod(runtime, &pod.uid).await?;
    let (sandboxes, containers) =
        now.map(|now| (now.sandboxes, now.containers)).unwrap_or_default();
    let contradicted = sandboxes.iter().any(|sandbox| sandbox.id.as_str() == denial.object)
        || containers.iter().any(|container| container.id.as_str() == denial.object);
    if contradicted { Err(denial.clone()) } else { Ok(()) }
}

fn found<T>(answers: Vec<Result<T, RuntimeError>>) -> Result<Vec<T>, RuntimeError> {
    answers.into_iter().filter(|answer| !is_denial(answer)).collect()
}

/// The result of a call, or an error after the deadline.
pub(crate) async fn within<T>(
    deadline: Duration,
    method: &'static str,
    uid: &PodUid,
    call: impl Future<Output = Result<T, RuntimeError>>,
) -> Result<T, RuntimeError> {
    tokio::time::timeout(deadline, call).await.unwrap_or_else(|_| {
        Err(RuntimeError {
            method,
            object: format!("of pod {uid}"),
            code: Code::DeadlineExceeded,
            message: "context deadline exceeded".to_owned(),
        })
    })
}
