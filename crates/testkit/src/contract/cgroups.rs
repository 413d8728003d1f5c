//! The contract of cgroups.

use std::collections::BTreeMap;

use anyhow::{Context as _, Result, ensure};
use async_trait::async_trait;
use model::cgroup::{CgroupName, CgroupValues, cpu};
use model::ports::cgroups::{CgroupError, Cgroups};
use model::ports::files::Removed;
use model::verdict::Subject;

use super::{Play, Report};
use crate::wanted::removal;

/// The cgroups under test, with direct access that bypasses the port.
#[async_trait]
pub trait Harness: Send + Sync {
    /// The port under test.
    fn cgroups(&self) -> &dyn Cgroups;
    /// The parent of all cgroups of the cases. It exists and is empty.
    fn base(&self) -> CgroupName;
    /// Checks that a cgroup has these values; unset values are ignored.
    async fn has(&self, name: &CgroupName, values: &CgroupValues) -> Result<()>;
    /// Puts a process into a cgroup that runs until it is killed.
    async fn enter(&self, name: &CgroupName) -> Result<()>;
    /// Whether the processes that were put into cgroups are dead.
    async fn all_are_dead(&self) -> Result<bool>;
}

/// A case of the contract.
#[derive(Debug)]
pub struct Case {
    /// Its name.
    pub name: &'static str,
    play: for<'a> fn(&'a dyn Harness) -> Play<'a>,
}

cases! {
    uncreated_cgroup_is_missing
    cgroup_is_created_with_its_parents
    unset_values_stay
    written_values_are_in_effect
    update_of_a_missing_cgroup_fails
    child_cgroups_are_listed
    cgroup_is_removed_with_its_processes_and_children
    removal_of_other_subjects_is_refused
}

/// Runs all cases.
pub async fn play_all(harness: &dyn Harness) -> Vec<Report> {
    let mut reports = Vec::new();
    for case in CASES {
        reports.push(Report::of(case.name, (case.play)(harness).await));
    }
    reports
}

async fn remove(harness: &dyn Harness, name: &CgroupName) -> Result<Removed> {
    let verdict = removal(Subject::Cgroup(name.clone()));
    harness.cgroups().remove(&verdict).await.with_context(|| format!("remove {name}"))
}

fn values() -> CgroupValues {
    CgroupValues {
        cpu_shares: Some(512),
        cpu_quota: Some(50_000),
        cpu_period: Some(100_000),
        cpu_set: None,
        memory_limit: Some(64 << 20),
        pids_limit: Some(100),
        huge_pages: BTreeMap::new(),
    }
}

async fn uncreated_cgroup_is_missing(harness: &dyn Harness) -> Result<()> {
    let name = harness.base().child("never")?;
    harness.cgroups().check(&harness.base()).await.context("the base exists")?;
    let missing = harness.cgroups().check(&name).await;
    ensure!(matches!(missing, Err(CgroupError::Missing { .. })), "{missing:?}");
    ensure!(harness.cgroups().children(&name).await?.is_empty(), "no children");
    ensure!(remove(harness, &name).await? == Removed::Before, "already gone");
    Ok(())
}

async fn cgroup_is_created_with_its_parents(harness: &dyn Harness) -> Result<()> {
    let above = harness.base().child("made")?;
    let name = above.child("pod1-2")?;
    for _ in 0..2 {
        harness.cgroups().create(&name, &values()).await.context("created twice")?;
        harness.cgroups().check(&name).await?;
        harness.cgroups().check(&above).await?;
        harness.has(&name, &values()).await?;
    }
    remove(harness, &above).await?;
    Ok(())
}

async fn unset_values_stay(harness: &dyn Harness) -> Result<()> {
    let name = harness.base().child("updated")?;
    harness.cgroups().create(&name, &values()).await?;
    let some = CgroupValues {
        cpu_shares: Some(2),
        memory_limit: Some(128 << 20),
        ..CgroupValues::default()
    };
    harness.cgroups().update(&name, &some).await?;
    let expected = CgroupValues { cpu_shares: Some(2), memory_limit: Some(128 << 20), ..values() };
    harness.has(&name, &expected).await?;
    let unlimited = CgroupValues { cpu_quota: Some(-1), ..CgroupValues::default() };
    harness.cgroups().update(&name, &unlimited).await?;
    harness.has(&name, &CgroupValues { cpu_quota: Some(-1), ..expected }).await?;
    remove(harness, &name).await?;
    Ok(())
}

async fn written_values_are_in_effect(harness: &dyn Harness) -> Result<()> {
    let name = harness.base().child("had")?;
    let cgroups = harness.cgroups();
    let missing = cgroups.has(&name, &values()).await;
    ensure!(matches!(missing, Err(CgroupError::Missing { .. })), "{missing:?}");
    ensure!(cgroups.memory_usage(&name, None).await?.is_none(), "no memory is used");
    cgroups.create(&name, &values()).await?;
    ensure!(cgroups.has(&name, &values()).await?, "all values");
    let some = CgroupValues {
        cpu_quota: Some(50_000),
        cpu_period: Some(100_000),
        ..CgroupValues::default()
    };
    ensure!(cgroups.has(&name, &some).await?, "some values");
    for other in [
        CgroupValues { memory_limit: Some(65 << 20), ..values() },
        CgroupValues { cpu_quota: Some(-1), ..values() },
        CgroupValues { cpu_shares: Some(2), ..values() },
    ] {
        ensure!(!cgroups.has(&name, &other).await?, "{other:?}");
        harness.has(&name, &values()).await?;
    }
    let read = cgroups.values(&name).await?;
    ensure!((read.cpu_quota, read.cpu_period) == (Some(50_000), Some(100_000)), "{read:?}");
    ensure!(read.memory_limit == Some(64 << 20), "{read:?}");
    ensure!(read.cpu_shares.map(cpu::weight) == Some(cpu::weight(512)), "{read:?}");
    ensure!(cgroups.memory_usage(&name, Some("no-container")).await?.is_none(), "does not exist");
    let free = harness.base().child("free")?;
    let missing = cgroups.values(&free).await;
    ensure!(matches!(missing, Err(CgroupError::Missing { .. })), "{missing:?}");
    cgroups.create(&free, &CgroupValues::default()).await?;
    let read = cgroups.values(&free).await?;
    ensure!((read.cpu_quota, read.memory_limit) == (Some(-1), None), "{read:?}");
    remove(harness, &free).await?;
    remove(harness, &name).await?;
    Ok(())
}

async fn update_of_a_missing_cgroup_fails(harness: &dyn Harness) -> Result<()> {
    let name = harness.base().child("nowhere")?;
    let refused = harness.cgroups().update(&name, &values()).await;
    ensure!(matches!(refused, Err(CgroupError::Missing { .. })), "{refused:?}");
    Ok(())
}

async fn child_cgroups_are_listed(harness: &dyn Harness) -> Result<()> {
    let base = harness.base().child("parent")?;
    let children = [base.child("poda-b")?, base.child("podc")?];
    for child in &children {
        harness.cgroups().create(&child.child("deep")?, &CgroupValues::default()).await?;
    }
    let found = harness.cgroups().children(&base).await?;
    ensure!(found == children.clone().into(), "{found:?}");
    remove(harness, &children[0]).await?;
    let found = harness.cgroups().children(&base).await?;
    ensure!(found == children[1..].iter().cloned().collect(), "{found:?}");
    remove(harness, &base).await?;
    Ok(())
}

async fn cgroup_is_removed_with_its_processes_and_children(harness: &dyn Harness) -> Result<()> {
    let name = harness.base().child("busy")?;
    let below = name.child("container")?;
    harness.cgroups().create(&below, &CgroupValues::default()).await?;
    harness.enter(&below).await?;
    ensure!(!harness.all_are_dead().await?, "the process runs until it is killed");
    ensure!(remove(harness, &name).await? == Removed::Now, "it existed");
    ensure!(harness.all_are_dead().await?, "its processes are dead");
    ensure!(harness.cgroups().check(&name).await.is_err(), "removed");
    ensure!(remove(harness, &name).await? == Removed::Before, "already removed");
    Ok(())
}

async fn removal_of_other_subjects_is_refused(harness: &dyn Harness) -> Result<()> {
    let image = removal(Subject::Image("image".to_owned()));
    let refused = harness.cgroups().remove(&image).await;
    ensure!(matches!(refused, Err(CgroupError::NoCgroup(_))), "{refused:?}");
    let root = removal(Subject::Cgroup(CgroupName::root()));
    ensure!(harness.cgroups().remove(&root).await.is_err(), "the root stays");
    harness.cgroups().check(&harness.base()).await.context("and everything in it")
}
