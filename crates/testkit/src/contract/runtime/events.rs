//! The event stream.

use anyhow::{Context, Result, ensure};
use futures_util::StreamExt;
use model::ids::{ContainerId, ObjectId};
use model::ports::runtime::{ContainerEventKind, ContainerEvents};
use model::verdict::Subject;
use tokio::time::{Instant, timeout_at};

use super::bench::{Bench, Pod, SOON};
use crate::wanted::removal;

use ContainerEventKind::{Created, Deleted, Started, Stopped};

/// Waits until all of these events have arrived, in any order and among others. Events of their objects must
/// have the UID of the pod.
async fn expect_events(
    events: &mut ContainerEvents,
    pod: &Pod,
    expected: &[(ObjectId, ContainerEventKind)],
) -> Result<()> {
    let deadline = Instant::now() + SOON;
    let mut missing = expected.to_vec();
    while !missing.is_empty() {
        let next = timeout_at(deadline, events.next()).await;
        let next = next.with_context(|| format!("no event within {SOON:?}: {missing:?}"))?;
        let event = next.with_context(|| format!("the stream ended before {missing:?}"))??;
        if expected.iter().any(|(object, _)| *object == event.object) {
            ensure!(event.pod_uid == pod.config.pod_uid, "{event:?} names another pod");
        }
        missing.retain(|(object, kind)| *object != event.object || *kind != event.kind);
    }
    Ok(())
}

fn container(id: &ContainerId) -> ObjectId {
    ObjectId::Container(id.clone())
}

fn sandbox(pod: &Pod) -> ObjectId {
    ObjectId::Sandbox(pod.sandbox.clone())
}

pub(super) async fn container_start_and_exit_events_carry_the_pod(bench: &Bench<'_>) -> Result<()> {
    let pod = bench.pod().await?;
    let mut events = bench.runtime.info.container_events().await?;
    let id = bench.create(&pod, &bench.container_config(&pod, &["sleep", "1s"])).await?;
    expect_events(&mut events, &pod, &[(container(&id), Created)]).await?;
    bench.runtime.containers.start_container(&id).await?;
    expect_events(&mut events, &pod, &[(container(&id), Started)]).await?;
    expect_events(&mut events, &pod, &[(container(&id), Stopped)]).await?;
    // A caller that got the event must see the exit in the status.
    bench.exited(&id).await?;
    let verdict = removal(Subject::Container(id.clone()));
    bench.runtime.containers.remove_container(&verdict).await?;
    expect_events(&mut events, &pod, &[(container(&id), Deleted)]).await
}

pub(super) async fn unexpected_exit_sends_an_event(bench: &Bench<'_>) -> Result<()> {
    let pod = bench.pod().await?;
    let id = bench.start(&pod, &["sleep", "forever"]).await?;
    let mut events = bench.runtime.info.container_events().await?;
    bench.kill(container(&id)).await?;
    expect_events(&mut events, &pod, &[(container(&id), Stopped)]).await?;
    bench.kill(sandbox(&pod)).await?;
    expect_events(&mut events, &pod, &[(sandbox(&pod), Stopped)]).await
}

pub(super) async fn sandbox_sends_events_from_creation_to_removal(bench: &Bench<'_>) -> Result<()> {
    let mut events = bench.runtime.info.container_events().await?;
    let pod = bench.pod().await?;
    expect_events(&mut events, &pod, &[(sandbox(&pod), Created), (sandbox(&pod), Started)]).await?;
    bench.runtime.sandboxes.stop_pod_sandbox(&pod.sandbox).await?;
    expect_events(&mut events, &pod, &[(sandbox(&pod), Stopped)]).await?;
    let verdict = removal(Subject::Sandbox(pod.sandbox.clone()));
    bench.runtime.sandboxes.remove_pod_sandbox(&verdict).await?;
    expect_events(&mut events, &pod, &[(sandbox(&pod), Deleted)]).await
}

pub(super) async fn containers_removed_with_their_sandbox_send_events(
    bench: &Bench<'_>,
) -> Result<()> {
    let pod = bench.pod().await?;
    let id = bench.start(&pod, &["sleep", "forever"]).await?;
    let mut events = bench.runtime.info.container_events().await?;
    let verdict = removal(Subject::Sandbox(pod.sandbox.clone()));
    bench.runtime.sandboxes.remove_pod_sandbox(&verdict).await?;
    let expected = [
        (container(&id), Stopped),
        (sandbox(&pod), Stopped),
        (container(&id), Deleted),
        (sandbox(&pod), Deleted),
    ];
    expect_events(&mut events, &pod, &expected).await
}

pub(super) async fn every_stream_receives_every_event(bench: &Bench<'_>) -> Result<()> {
    let pod = bench.pod().await?;
    let mut one = bench.runtime.info.container_events().await?;
    let mut two = bench.runtime.info.container_events().await?;
    let id = bench.start(&pod, &["sleep", "forever"]).await?;
    let expected = [(container(&id), Started)];
    expect_events(&mut one, &pod, &expected).await?;
    drop(one);
    expect_events(&mut two, &pod, &expected).await?;
    bench.runtime.containers.stop_container(&id, SOON).await?;
    expect_events(&mut two, &pod, &[(container(&id), Stopped)]).await
}
