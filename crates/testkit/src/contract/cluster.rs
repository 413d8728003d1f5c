//! The contract of an API server: how pods are marked and deleted, nodes asked for, and leases written.

use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use async_trait::async_trait;
use model::cluster::{
    FailedStatus, LeaseName, LeaseRecord, PodPhase, PodRemoved, PodTarget, Version,
};
use model::ports::cluster::{ApiError, Leases, Nodes, PodWrites};
use model::ports::objects::StorageReads;
use model::storage::{ClaimName, PersistentVolumeSource};
use model::verdict::Subject;

use super::{Play, Report};
use crate::wanted::removal;

/// An API server, and how to look at it from beside.
#[async_trait]
pub trait World: Send + Sync {
    /// Writes pods.
    fn pods(&self) -> &dyn PodWrites;
    /// Tells of nodes.
    fn nodes(&self) -> &dyn Nodes;
    /// Keeps leases.
    fn leases(&self) -> &dyn Leases;
    /// Makes a pod that runs, in place of any of that name, with or without a finalizer.
    async fn make_pod(&self, name: &str, is_held: bool) -> Result<PodTarget>;
    /// The phase of a pod, if it is there.
    async fn phase(&self, name: &str) -> Result<Option<PodPhase>>;
    /// Makes a node that is not ready.
    async fn make_node(&self, name: &str) -> Result<()>;
    /// Reads claims and persistent volumes.
    fn storage(&self) -> &dyn StorageReads;
    /// Makes a claim, and a local persistent volume `/disk` for it, both of that name: the volume refers to the claim,
    /// and the claim to the volume. Nothing has bound them yet.
    async fn make_claim(&self, name: &str) -> Result<ClaimName>;
}

/// A part of the contract.
#[derive(Debug)]
pub struct Case {
    /// What it says.
    pub name: &'static str,
    play: for<'a> fn(&'a dyn World) -> Play<'a>,
}

cases! {
    patched_pod_has_a_new_resource_version
    pod_with_another_uid_is_not_patched
    pod_is_deleted_at_once_with_grace_zero
    pod_with_another_uid_or_version_is_not_deleted
    pod_with_a_finalizer_stays_with_a_new_version
    removed_pod_is_not_found
    node_is_found_or_missing
    lease_is_created_once_and_updated_from_its_last_version
    claim_and_its_volume_are_read
}

/// Plays all cases.
pub async fn play_all(world: &dyn World) -> Vec<Report> {
    let mut reports = Vec::new();
    for case in CASES {
        reports.push(Report::of(case.name, (case.play)(world).await));
    }
    reports
}

async fn fail(world: &dyn World, pod: &PodTarget) -> Result<Version, ApiError> {
    world.pods().fail_pod(pod, &FailedStatus::default()).await
}

async fn remove(world: &dyn World, pod: &PodTarget) -> Result<PodRemoved, ApiError> {
    let verdict = removal(Subject::Pod(pod.uid.to_string().into()));
    world.pods().remove_pod(pod, &verdict).await
}

/// The same pod with another uid.
fn another(pod: &PodTarget) -> PodTarget {
    PodTarget { uid: "00112233-4455-6677-8899-aabbccddeeff".into(), ..pod.clone() }
}

async fn patched_pod_has_a_new_resource_version(world: &dyn World) -> Result<()> {
    let pod = world.make_pod("marked", false).await?;
    let version = fail(world, &pod).await?;
    ensure!(version > pod.version, "{version:?} after {:?}", pod.version);
    let again = fail(world, &pod).await;
    ensure!(matches!(again, Err(ApiError::Conflict(_))), "marked as it was before: {again:?}");
    ensure!(world.phase("marked").await? == Some(PodPhase::Failed), "it failed");
    let old = remove(world, &pod).await;
    ensure!(matches!(old, Err(ApiError::Conflict(_))), "the version before: {old:?}");
    let new = remove(world, &PodTarget { version, ..pod }).await?;
    ensure!(new == PodRemoved::Gone, "{new:?}");
    Ok(())
}

async fn pod_with_another_uid_is_not_patched(world: &dyn World) -> Result<()> {
    let pod = world.make_pod("other-uid", false).await?;
    let refused = fail(world, &another(&pod)).await;
    ensure!(matches!(refused, Err(ApiError::Conflict(_))), "{refused:?}");
    ensure!(world.phase("other-uid").await? == Some(PodPhase::Running), "it runs on");
    Ok(())
}

async fn pod_is_deleted_at_once_with_grace_zero(world: &dyn World) -> Result<()> {
    let pod = world.make_pod("goes", false).await?;
    ensure!(remove(world, &pod).await? == PodRemoved::Gone, "it is gone");
    ensure!(world.phase("goes").await?.is_none(), "and cannot be seen");
    Ok(())
}

async fn pod_with_another_uid_or_version_is_not_deleted(world: &dyn World) -> Result<()> {
    let first = world.make_pod("again", false).await?;
    let second = world.make_pod("again", false).await?;
    let newer = PodTarget { version: second.version, ..first.clone() };
    let older = PodTarget { version: first.version, ..second.clone() };
    for wrong in [&first, &newer, &older, &another(&second)] {
        let refused = remove(world, wrong).await;
        ensure!(matches!(refused, Err(ApiError::Conflict(_))), "{wrong:?}: {refused:?}");
    }
    ensure!(world.phase("again").await? == Some(PodPhase::Running), "it runs on");
    Ok(())
}

async fn pod_with_a_finalizer_stays_with_a_new_version(world: &dyn World) -> Result<()> {
    let pod = world.make_pod("held", true).await?;
    ensure!(remove(world, &pod).await? == PodRemoved::Held, "something holds it");
    ensure!(world.phase("held").await?.is_some(), "it is there");
    let again = remove(world, &pod).await;
    ensure!(matches!(again, Err(ApiError::Conflict(_))), "the version before: {again:?}");
    Ok(())
}

async fn removed_pod_is_not_found(world: &dyn World) -> Result<()> {
    let pod = world.make_pod("short-lived", false).await?;
    remove(world, &pod).await?;
    let marked = fail(world, &pod).await;
    ensure!(matches!(marked, Err(ApiError::NotFound)), "{marked:?}");
    let deleted = remove(world, &pod).await;
    ensure!(matches!(deleted, Err(ApiError::NotFound)), "{deleted:?}");
    Ok(())
}

async fn node_is_found_or_missing(world: &dyn World) -> Result<()> {
    ensure!(world.nodes().node("contract").await?.is_none(), "nobody made it yet");
    world.make_node("contract").await?;
    let node = world.nodes().node("contract").await?.context("it was made")?;
    ensure!(node.name == "contract" && !node.is_ready && !node.is_out_of_service, "{node:?}");
    Ok(())
}

async fn lease_is_created_once_and_updated_from_its_last_version(world: &dyn World) -> Result<()> {
    let name = LeaseName { namespace: "kube-system".to_owned(), name: "contract".to_owned() };
    let leases = world.leases();
    let record = |holder: &str| LeaseRecord {
        holder: holder.to_owned(),
        duration: Duration::from_secs(15),
        ..LeaseRecord::default()
    };
    ensure!(leases.lease(&name).await?.is_none(), "nobody made it yet");
    let first = leases.create_lease(&name, &record("a")).await?;
    let again = leases.create_lease(&name, &record("b")).await;
    ensure!(matches!(again, Err(ApiError::Conflict(_))), "it exists: {again:?}");
    let second = leases.update_lease(&name, &first, &record("c")).await?;
    ensure!(second.version != first.version, "{second:?}");
    let late = leases.update_lease(&name, &first, &record("d")).await;
    ensure!(matches!(late, Err(ApiError::Conflict(_))), "it is another version: {late:?}");
    let seen = leases.lease(&name).await?.context("it was made")?;
    ensure!(seen == second && seen.record == record("c"), "{seen:?}");
    Ok(())
}

async fn claim_and_its_volume_are_read(world: &dyn World) -> Result<()> {
    let storage = world.storage();
    let name = world.make_claim("data").await?;
    let claim = storage.claim(&name).await?.context("the claim")?;
    ensure!(&*claim.volume == "data" && !claim.uid.is_empty(), "{claim:?}");
    ensure!(!claim.is_bound && !claim.is_being_deleted, "{claim:?}");
    let volume = storage.persistent_volume("data").await?.context("the volume")?;
    ensure!(volume.claim_uid.as_ref() == Some(&claim.uid), "{volume:?} is not for {claim:?}");
    ensure!(volume.mode.as_deref() == Some("Filesystem"), "{volume:?}");
    ensure!(volume.access_modes == ["ReadWriteOnce"], "{volume:?}");
    ensure!(volume.node_affinity.as_ref().is_some_and(|terms| terms.len() == 1), "{volume:?}");
    let source = PersistentVolumeSource::Local { path: "/disk".to_owned(), fs_type: None };
    ensure!(volume.source == source, "{volume:?}");
    let other = ClaimName { name: "none".into(), ..name };
    ensure!(storage.claim(&other).await?.is_none(), "a claim that was not created");
    ensure!(storage.persistent_volume("none").await?.is_none(), "a volume that was not created");
    Ok(())
}
