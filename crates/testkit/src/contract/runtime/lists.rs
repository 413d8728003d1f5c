//! Lists and their filters.

use anyhow::{Context as _, Result, ensure};
use model::ids::{ContainerId, PodName, PodUid, SandboxId};
use model::observed::{ContainerState, SandboxState};
use model::ports::runtime::{ContainerFilter, SandboxFilter};
use model::wanted::SandboxConfig;

use super::bench::{Bench, Pod, unknown_id};

async fn sandboxes(bench: &Bench<'_>, filter: SandboxFilter) -> Result<Vec<SandboxId>> {
    let listed = bench.runtime.sandboxes.list_pod_sandboxes(&filter).await?;
    Ok(listed.into_iter().map(|sandbox| sandbox.id).collect())
}

async fn containers(bench: &Bench<'_>, filter: ContainerFilter) -> Result<Vec<ContainerId>> {
    let listed = bench.runtime.containers.list_containers(&filter).await?;
    Ok(listed.into_iter().map(|container| container.id).collect())
}

pub(super) async fn sandboxes_are_listed_by_pod_state_and_id(bench: &Bench<'_>) -> Result<()> {
    let [ready, stopped] = [bench.pod().await?, bench.pod().await?];
    bench.stop_sandbox(&stopped).await?;
    let all = sandboxes(bench, SandboxFilter::default()).await?;
    ensure!(all.contains(&ready.sandbox) && all.contains(&stopped.sandbox), "all: {all:?}");
    for (pod, other, state) in
        [(&ready, &stopped, SandboxState::Ready), (&stopped, &ready, SandboxState::NotReady)]
    {
        let uid = Some(pod.config.pod_uid.clone());
        let by_pod = SandboxFilter { pod_uid: uid.clone(), ..SandboxFilter::default() };
        let found = sandboxes(bench, by_pod).await?;
        ensure!(found == [pod.sandbox.clone()], "by pod: {found:?}");

        let by_id = SandboxFilter { id: Some(pod.sandbox.clone()), ..SandboxFilter::default() };
        let found = sandboxes(bench, by_id).await?;
        ensure!(found == [pod.sandbox.clone()], "by id: {found:?}");

        let by_state = SandboxFilter { state: Some(state), ..SandboxFilter::default() };
        let found = sandboxes(bench, by_state).await?;
        ensure!(found.contains(&pod.sandbox), "{state:?}: {found:?}");
        ensure!(!found.contains(&other.sandbox), "{state:?}: {found:?}");

        let id = Some(other.sandbox.clone());
        let found = sandboxes(bench, SandboxFilter { id, state: None, pod_uid: uid }).await?;
        ensure!(
            found.is_empty(),
            "filtered by the UID of one pod and the id of the other: {found:?}"
        );
    }
    Ok(())
}

pub(super) async fn containers_are_listed_by_pod_sandbox_state_and_id(
    bench: &Bench<'_>,
) -> Result<()> {
    let [one, two] = [bench.pod().await?, bench.pod().await?];
    let running = bench.start(&one, &["sleep", "forever"]).await?;
    let exited = bench.start(&two, &["exit", "0"]).await?;
    bench.exited(&exited).await?;
    let mut waiting = bench.container_config(&two, &["sleep", "forever"]);
    waiting.name = "waiting".into();
    let created = bench.create(&two, &waiting).await?;

    let all = containers(bench, ContainerFilter::default()).await?;
    for id in [&running, &exited, &created] {
        ensure!(all.contains(id), "{id} is missing in {all:?}");
        let by_id = ContainerFilter { id: Some(id.clone()), ..ContainerFilter::default() };
        let found = containers(bench, by_id).await?;
        ensure!(found == [id.clone()], "by id: {found:?}");
    }
    let both = [&exited, &created];
    for (pod, expected) in [(&one, &[&running][..]), (&two, &both[..])] {
        let by_pod = of_pod(pod);
        let by_sandbox =
            ContainerFilter { sandbox_id: Some(pod.sandbox.clone()), ..ContainerFilter::default() };
        for filter in [by_pod, by_sandbox] {
            let found = containers(bench, filter.clone()).await?;
            let complete = expected.iter().all(|id| found.contains(id));
            ensure!(complete && found.len() == expected.len(), "{filter:?}: {found:?}");
        }
    }
    for (state, expected) in [
        (ContainerState::Running, None),
        (ContainerState::Exited, Some(&exited)),
        (ContainerState::Created, Some(&created)),
    ] {
        let filter = ContainerFilter { state: Some(state), ..of_pod(&two) };
        let found = containers(bench, filter).await?;
        ensure!(found.iter().eq(expected), "{state:?}: {found:?}");
    }
    Ok(())
}

fn of_pod(pod: &Pod) -> ContainerFilter {
    ContainerFilter { pod_uid: Some(pod.config.pod_uid.clone()), ..ContainerFilter::default() }
}

/// The pod of a container comes from its labels only: without labels it has none, regardless of its
/// sandbox.
pub(super) async fn container_without_labels_has_no_pod(bench: &Bench<'_>) -> Result<()> {
    let pod = bench.pod().await?;
    let labelled = bench.start(&pod, &["sleep", "forever"]).await?;
    let mut config = bench.container_config(&pod, &["sleep", "forever"]);
    (config.name, config.attempt) = ("bare".into(), 7);
    config.labels.clear();
    let id = bench.create(&pod, &config).await?;
    let found = containers(bench, of_pod(&pod)).await?;
    ensure!(found == [labelled.clone()], "of its pod: {found:?}");

    let all = bench.runtime.containers.list_containers(&ContainerFilter::default()).await?;
    let bare = all.iter().find(|one| one.id == id).context("not in the full list")?;
    ensure!(bare.pod_uid.is_empty() && bare.pod == PodName::new("", ""), "{bare:?}");
    ensure!((&*bare.name, bare.attempt, &bare.sandbox_id) == ("bare", 7, &pod.sandbox), "{bare:?}");

    let without_pod = ContainerFilter { pod_uid: Some("".into()), ..ContainerFilter::default() };
    let found = containers(bench, without_pod.clone()).await?;
    ensure!(found.contains(&id) && !found.contains(&labelled), "of no pod: {found:?}");
    let running = ContainerFilter { state: Some(ContainerState::Running), ..without_pod };
    let found = containers(bench, running).await?;
    ensure!(!found.contains(&id), "of no pod, and running: {found:?}");
    let status = bench.runtime.containers.container_status(&id).await?;
    ensure!(&*status.name == "bare", "{status:?}");
    Ok(())
}

/// The pod of a sandbox is part of its creation; without a UID it has none, regardless of its
/// labels.
pub(super) async fn sandbox_without_uid_has_no_pod(bench: &Bench<'_>) -> Result<()> {
    let config = SandboxConfig { pod_uid: "".into(), ..bench.sandbox_config() };
    let sandbox = bench.runtime.sandboxes.run_pod_sandbox(&config).await?;
    let pod = Pod { config, sandbox };
    let without_pod = SandboxFilter { pod_uid: Some("".into()), ..SandboxFilter::default() };
    let listed = bench.runtime.sandboxes.list_pod_sandboxes(&without_pod).await?;
    ensure!(listed.iter().all(|sandbox| sandbox.pod_uid.is_empty()), "{listed:?}");
    let found = listed.iter().find(|sandbox| sandbox.id == pod.sandbox);
    let found = found.context("not in the list without pod")?;
    ensure!(found.pod == pod.config.pod, "{found:?}");
    let status = bench.runtime.sandboxes.pod_sandbox_status(&pod.sandbox).await?;
    ensure!(status.pod_uid.is_empty() && status.pod == pod.config.pod, "{status:?}");
    Ok(())
}

pub(super) async fn unknown_objects_are_not_listed(bench: &Bench<'_>) -> Result<()> {
    let uid: PodUid = bench.harness.unused_pod().1;
    for filter in [
        SandboxFilter { id: Some(unknown_id()), ..SandboxFilter::default() },
        SandboxFilter { pod_uid: Some(uid.clone()), ..SandboxFilter::default() },
    ] {
        let found = sandboxes(bench, filter.clone()).await?;
        ensure!(found.is_empty(), "{filter:?}: {found:?}");
    }
    for filter in [
        ContainerFilter { id: Some(unknown_id()), ..ContainerFilter::default() },
        ContainerFilter { sandbox_id: Some(unknown_id()), ..ContainerFilter::default() },
        ContainerFilter { pod_uid: Some(uid), ..ContainerFilter::default() },
    ] {
        let found = containers(bench, filter.clone()).await?;
        ensure!(found.is_empty(), "{filter:?}: {found:?}");
    }
    Ok(())
}
