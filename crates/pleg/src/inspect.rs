//! The calls that a look takes.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::{join, join_all};
use model::fingerprint::Fingerprint;
use model::ids::PodUid;
use model::lists;
use model::observed::{
    Container, ContainerStatus, PodStatus, RuntimePod, Sandbox, SandboxStatus, pods_by_uid,
};
use model::ports::termination_message::TerminationMessageReader;
use model::ports::runtime::{Code, ContainerFilter, Runtime, RuntimeError, SandboxFilter};

use crate::decide::{close, known_container, known_sandbox, pod_status};

/// Everything that the runtime has, by pod; `None` when that is just what is known.
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

/// What the runtime has of one pod.
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

/// What was known of a pod before it is inspected.
#[derive(Debug)]
pub(crate) struct Before {
    /// The last status that could be read.
    pub(crate) status: Option<Arc<PodStatus>>,
    /// Whether parts of it that did not change need not be read again.
    pub(crate) holds: bool,
}

/// The status of all parts of a pod; what is known and still holds is not read again, nor what has ended
/// long ago. What vanished since it was listed is left out; any other failure fails the whole, because
/// half a status would start containers that already run. What is nobody's nobody asks about: that it is
/// there will do.
pub(crate) async fn status(
    runtime: &Runtime,
    words: &dyn TerminationMessageReader,
    pod: RuntimePod,
    before: &Before,
) -> Result<PodStatus, RuntimeError> {
    if pod.uid.is_empty() {
        return Ok(PodStatus { older: pod.containers, ..PodStatus::empty(pod.uid) });
    }
    let old = before.status.as_deref().filter(|_| before.holds);
    let sandboxes = pod.sandboxes.iter().map(async |sandbox| match known_sandbox(sandbox, old) {
        Some(known) => Ok(known.clone()),
        None => sandbox_status(runtime, sandbox).await,
    });
    let containers = async {
        let (mut read, mut gone) = (BTreeMap::new(), BTreeSet::new());
        loop {
            let next = close(&pod.containers, &gone);
            let next = next.into_iter().filter(|position| !read.contains_key(position));
            let answers = join_all(next.map(async |position| {
                let listed = &pod.containers[position];
                (position, container(runtime, words, listed, old).await)
            }));
            let answers = answers.await;
            if answers.is_empty() {
                return read;
            }
            // In the place of one that is gone comes the one that ended before it.
            let denied = answers.iter().filter(|(_, answer)| is_denial(answer));
            gone.extend(denied.map(|(position, _)| *position));
            read.extend(answers);
        }
    };
    let (sandboxes, mut containers) = join(join_all(sandboxes), containers).await;
    // One that is read again after a failure is taken at its word, or the pod might never be.
    if before.holds
        && let Some(denial) = first_denial(&sandboxes).or_else(|| first_denial(containers.values()))
    {
        confirm(runtime, &pod, denial).await?;
    }
    // What is kept of thousands of pods is no larger than it needs to be.
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
    words: &dyn TerminationMessageReader,
    listed: &Container,
    old: Option<&PodStatus>,
) -> Result<ContainerStatus, RuntimeError> {
    if let Some(known) = known_container(listed, old) {
        return Ok(known.clone());
    }
    let mut status = runtime.containers.container_status(&listed.id).await?;
    status.sandbox_id = listed.sandbox_id.clone();
    share(&mut status.id, &listed.id);
    share(&mut status.name, &listed.name);
    share(&mut status.image_ref, &listed.image_ref);
    words.add(&mut status).await;
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

/// Lets a status that is kept of thousands of pods share what it has in common with what else is kept.
fn share<T: Clone + PartialEq>(told: &mut T, listed: &T) {
    if told == listed {
        told.clone_from(listed);
    }
}

fn is_denial<T>(answer: &Result<T, RuntimeError>) -> bool {
    answer.as_ref().is_err_and(RuntimeError::is_not_found)
}

/// The first part that the runtime says it does not have.
fn first_denial<'a, T: 'a>(
    answers: impl IntoIterator<Item = &'a Result<T, RuntimeError>>,
) -> Option<&'a RuntimeError> {
    let mut errors = answers.into_iter().filter_map(|answer| answer.as_ref().err());
    errors.find(|error| error.is_not_found())
}

/// Lists the pod again: a runtime that still lists what it denies contradicts itself, and who believed
/// the denial would start a container that runs.
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

/// What a look gives, or an error when it takes too long.
pub(crate) async fn within<T>(
    deadline: Duration,
    method: &'static str,
    uid: &PodUid,
    look: impl Future<Output = Result<T, RuntimeError>>,
) -> Result<T, RuntimeError> {
    tokio::time::timeout(deadline, look).await.unwrap_or_else(|_| {
        Err(RuntimeError {
            method,
            object: format!("of pod {uid}"),
            code: Code::DeadlineExceeded,
            message: "context deadline exceeded".to_owned(),
        })
    })
}
