//! The contract of an API server: marking and deleting pods, reading nodes, and writing leases.

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

/// The API server under test, with direct access that bypasses the port.
#[async_trait]
pub trait Harness: Send + Sync {
    /// Writes pods.
    fn pods(&self) -> &dyn PodWrites;
    /// Reads nodes.
    fn nodes(&self) -> &dyn Nodes;
    /// Reads and writes leases.
    fn leases(&self) -> &dyn Leases;
    /// Creates or replaces a running pod, with or without a finalizer.
    async fn make_pod(&self, name: &str, is_held: bool) -> Result<PodTarget>;
    /// The phase of a pod, if it exists.
    async fn phase(&self, name: &str) -> Result<Option<PodPhase>>;
    /// Creates a node that is not ready.
    async fn make_node(&self, name: &str) -> Result<()>;
    /// Reads claims and persistent volumes.
    fn storage(&self) -> &dyn StorageReads;
    /// Creates a claim, and a local persistent volume `/disk` for it, both with this name: the volume refers to
    /// the claim, and the claim to the volume. They are not bound yet.
    async fn make_claim(&self, name: &str) -> Result<ClaimName>;
}

/// A case of the contract.
#[derive(Debug)]
pub struct Case {
    /// Its name.
    pub name: &'static str,
    play: for<'a> fn(&'a dyn Harness) -> Play<'a>,
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

/// Runs all cases.
pub async fn play_all(harness: &dyn Harness) -> Vec<Report> {
    let mut reports = Vec::new();
    for case in CASES {
        reports.push(Report::of(case.name, (case.play)(harness).await));
    }
    reports
}

async fn fail(harness: &dyn Harness, pod: &PodTarget) -> Result<Version, ApiError> {
    harness.pods().fail_pod(pod, &FailedStatus::default()).await
}

async fn remove(harness: &dyn Harness, pod: &PodTarget) -> Result<PodRemoved, ApiError> {
    let verdict = removal(Subject::Pod(pod.uid.to_string().into()));
    harness.pods().remove_pod(pod, &verdict).await
}

/// The same pod with another uid.
fn another(pod: &PodTarget) -> PodTarget {
    PodTarget { uid: "00112233-4455-6677-8899-aabbccddeeff".into(), ..pod.clone() }
}

async fn patched_pod_has_a_new_resource_version(harness: &dyn Harness) -> Result<()> {
    let pod = harness.make_pod("marked", false).await?;
    let version = fail(harness, &pod).await?;
    ensure!(version > pod.version, "{version:?} after {:?}", pod.version);
    let again = fail(harness, &pod).await;
    ensure!(matches!(again, Err(ApiError::Conflict(_))), "marked with the old version: {again:?}");
    ensure!(harness.phase("marked").await? == Some(PodPhase::Failed), "it failed");
    let old = remove(harness, &pod).await;
    ensure!(matches!(old, Err(ApiError::Conflict(_))), "the old version: {old:?}");
    let new = remove(harness, &PodTarget { version, ..pod }).await?;
    ensure!(new == PodRemoved::Gone, "{new:?}");
    Ok(())
}

async fn pod_with_another_uid_is_not_patched(harness: &dyn Harness) -> Result<()> {
    let pod = harness.make_pod("other-uid", false).await?;
    let refused = fail(harness, &another(&pod)).await;
    ensure!(matches!(refused, Err(ApiError::Conflict(_))), "{refused:?}");
    ensure!(harness.phase("other-uid").await? == Some(PodPhase::Running), "unchanged");
    Ok(())
}

async fn pod_is_deleted_at_once_with_grace_zero(harness: &dyn Harness) -> Result<()> {
    let pod = harness.make_pod("goes", false).await?;
    ensure!(remove(harness, &pod).await? == PodRemoved::Gone, "deleted");
    ensure!(harness.phase("goes").await?.is_none(), "and not found");
    Ok(())
}

async fn pod_with_another_uid_or_version_is_not_deleted(harness: &dyn Harness) -> Result<()> {
    let first = harness.make_pod("again", false).await?;
    let second = harness.make_pod("again", false).await?;
    let newer = PodTarget { version: second.version, ..first.clone() };
    let older = PodTarget { version: first.version, ..second.clone() };
    for wrong in [&first, &newer, &older, &another(&second)] {
        let refused = remove(harness, wrong).await;
        ensure!(matches!(refused, Err(ApiError::Conflict(_))), "{wrong:?}: {refused:?}");
    }
    ensure!(harness.phase("again").await? == Some(PodPhase::Running), "unchanged");
    Ok(())
}

async fn pod_with_a_finalizer_stays_with_a_new_version(harness: &dyn Harness) -> Result<()> {
    let pod = harness.make_pod("held", true).await?;
    ensure!(remove(harness, &pod).await? == PodRemoved::Held, "a finalizer holds it");
    ensure!(harness.phase("held").await?.is_some(), "it still exists");
    let again = remove(harness, &pod).await;
    ensure!(matches!(again, Err(ApiError::Conflict(_))), "the old version: {again:?}");
    Ok(())
}

async fn removed_pod_is_not_found(harness: &dyn Harness) -> Result<()> {
    let pod = harness.make_pod("short-lived", false).await?;
    remove(harness, &pod).await?;
    let marked = fail(harness, &pod).await;
    ensure!(matches!(marked, Err(ApiError::NotFound)), "{marked:?}");
    let deleted = remove(harness, &pod).await;
    ensure!(matches!(deleted, Err(ApiError::NotFound)), "{deleted:?}");
    Ok(())
}

async fn node_is_found_or_missing(harness: &dyn Harness) -> Result<()> {
    ensure!(harness.nodes().node("contract").await?.is_none(), "not created yet");
    harness.make_node("contract").await?;
    let node = harness.nodes().node("contract").await?.context("created")?;
    ensure!(node.name == "contract" && !node.is_ready && !node.is_out_of_service, "{node:?}");
    Ok(())
}

async fn lease_is_created_once_and_updated_from_its_last_version(
    harness: &dyn Harness,
) -> Result<()> {
    let name = LeaseName { namespace: "kube-system".to_owned(), name: "contract".to_owned() };
    let leases = harness.leases();
    let record = |holder: &str| LeaseRecord {
        holder: holder.to_owned(),
        duration: Duration::from_secs(15),
        ..LeaseRecord::default()
    };
    ensure!(leases.lease(&name).await?.is_none(), "not created yet");
    let first = leases.create_lease(&name, &record("a")).await?;
    let again = leases.create_lease(&name, &record("b")).await;
    ensure!(matches!(again, Err(ApiError::Conflict(_))), "already exists: {again:?}");
    let second = leases.update_lease(&name, &first, &record("c")).await?;
    ensure!(second.version != first.version, "{second:?}");
    let late = leases.update_lease(&name, &first, &record("d")).await;
    ensure!(matches!(late, Err(ApiError::Conflict(_))), "an old version: {late:?}");
    let seen = leases.lease(&name).await?.context("created")?;
    ensure!(seen == second && seen.record == record("c"), "{seen:?}");
    Ok(())
}

async fn claim_and_its_volume_are_read(harness: &dyn Harness) -> Result<()> {
    let storage = harness.storage();
    let name = harness.make_claim("data").await?;
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
