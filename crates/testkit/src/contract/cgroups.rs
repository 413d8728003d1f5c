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

/// Cgroups, and how to look at them from beside.
#[async_trait]
pub trait World: Send + Sync {
    /// Those under test.
    fn cgroups(&self) -> &dyn Cgroups;
    /// One in which everything happens. It is there, and empty.
    fn base(&self) -> CgroupName;
    /// That a cgroup has these values, as far as they are given.
    async fn has(&self, name: &CgroupName, values: &CgroupValues) -> Result<()>;
    /// Puts a process into a cgroup that ends only when it is killed.
    async fn enter(&self, name: &CgroupName) -> Result<()>;
    /// Whether the processes that were put into cgroups are dead.
    async fn all_are_dead(&self) -> Result<bool>;
}

/// A part of the contract.
#[derive(Debug)]
pub struct Case {
    /// What it says.
    pub name: &'static str,
    play: for<'a> fn(&'a dyn World) -> Play<'a>,
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

/// Plays all cases.
pub async fn play_all(world: &dyn World) -> Vec<Report> {
    let mut reports = Vec::new();
    for case in CASES {
        reports.push(Report::of(case.name, (case.play)(world).await));
    }
    reports
}

async fn remove(world: &dyn World, name: &CgroupName) -> Result<Removed> {
    let verdict = removal(Subject::Cgroup(name.clone()));
    world.cgroups().remove(&verdict).await.with_context(|| format!("remove {name}"))
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

async fn uncreated_cgroup_is_missing(world: &dyn World) -> Result<()> {
    let name = world.base().child("never")?;
    world.cgroups().check(&world.base()).await.context("the base is there")?;
    let missing = world.cgroups().check(&name).await;
    ensure!(matches!(missing, Err(CgroupError::Missing { .. })), "{missing:?}");
    ensure!(world.cgroups().children(&name).await?.is_empty(), "and has none in it");
    ensure!(remove(world, &name).await? == Removed::Before, "and is gone");
    Ok(())
}

async fn cgroup_is_created_with_its_parents(world: &dyn World) -> Result<()> {
    let above = world.base().child("made")?;
    let name = above.child("pod1-2")?;
    for _ in 0..2 {
        world.cgroups().create(&name, &values()).await.context("once and again")?;
        world.cgroups().check(&name).await?;
        world.cgroups().check(&above).await?;
        world.has(&name, &values()).await?;
    }
    remove(world, &above).await?;
    Ok(())
}

async fn unset_values_stay(world: &dyn World) -> Result<()> {
    let name = world.base().child("updated")?;
    world.cgroups().create(&name, &values()).await?;
    let some = CgroupValues {
        cpu_shares: Some(2),
        memory_limit: Some(128 << 20),
        ..CgroupValues::default()
    };
    world.cgroups().update(&name, &some).await?;
    let expected = CgroupValues { cpu_shares: Some(2), memory_limit: Some(128 << 20), ..values() };
    world.has(&name, &expected).await?;
    let unlimited = CgroupValues { cpu_quota: Some(-1), ..CgroupValues::default() };
    world.cgroups().update(&name, &unlimited).await?;
    world.has(&name, &CgroupValues { cpu_quota: Some(-1), ..expected }).await?;
    remove(world, &name).await?;
    Ok(())
}

async fn written_values_are_in_effect(world: &dyn World) -> Result<()> {
    let name = world.base().child("had")?;
    let cgroups = world.cgroups();
    let missing = cgroups.has(&name, &values()).await;
    ensure!(matches!(missing, Err(CgroupError::Missing { .. })), "{missing:?}");
    ensure!(cgroups.memory_usage(&name, None).await?.is_none(), "nothing is used in it");
    cgroups.create(&name, &values()).await?;
    ensure!(cgroups.has(&name, &values()).await?, "all of it");
    let some = CgroupValues {
        cpu_quota: Some(50_000),
        cpu_period: Some(100_000),
        ..CgroupValues::default()
    };
    ensure!(cgroups.has(&name, &some).await?, "a part of it");
    for other in [
        CgroupValues { memory_limit: Some(65 << 20), ..values() },
        CgroupValues { cpu_quota: Some(-1), ..values() },
        CgroupValues { cpu_shares: Some(2), ..values() },
    ] {
        ensure!(!cgroups.has(&name, &other).await?, "{other:?}");
        world.has(&name, &values()).await?;
    }
    let read = cgroups.values(&name).await?;
    ensure!((read.cpu_quota, read.cpu_period) == (Some(50_000), Some(100_000)), "{read:?}");
    ensure!(read.memory_limit == Some(64 << 20), "{read:?}");
    ensure!(read.cpu_shares.map(cpu::weight) == Some(cpu::weight(512)), "{read:?}");
    ensure!(cgroups.memory_usage(&name, Some("no-container")).await?.is_none(), "not there");
    let free = world.base().child("free")?;
    let missing = cgroups.values(&free).await;
    ensure!(matches!(missing, Err(CgroupError::Missing { .. })), "{missing:?}");
    cgroups.create(&free, &CgroupValues::default()).await?;
    let read = cgroups.values(&free).await?;
    ensure!((read.cpu_quota, read.memory_limit) == (Some(-1), None), "{read:?}");
    remove(world, &free).await?;
    remove(world, &name).await?;
    Ok(())
}

async fn update_of_a_missing_cgroup_fails(world: &dyn World) -> Result<()> {
    let name = world.base().child("nowhere")?;
    let refused = world.cgroups().update(&name, &values()).await;
    ensure!(matches!(refused, Err(CgroupError::Missing { .. })), "{refused:?}");
    Ok(())
}

async fn child_cgroups_are_listed(world: &dyn World) -> Result<()> {
    let base = world.base().child("parent")?;
    let children = [base.child("poda-b")?, base.child("podc")?];
    for child in &children {
        world.cgroups().create(&child.child("deep")?, &CgroupValues::default()).await?;
    }
    let told = world.cgroups().children(&base).await?;
    ensure!(told == children.clone().into(), "{told:?}");
    remove(world, &children[0]).await?;
    let told = world.cgroups().children(&base).await?;
    ensure!(told == children[1..].iter().cloned().collect(), "{told:?}");
    remove(world, &base).await?;
    Ok(())
}

async fn cgroup_is_removed_with_its_processes_and_children(world: &dyn World) -> Result<()> {
    let name = world.base().child("busy")?;
    let below = name.child("container")?;
    world.cgroups().create(&below, &CgroupValues::default()).await?;
    world.enter(&below).await?;
    ensure!(!world.all_are_dead().await?, "it runs until it is killed");
    ensure!(remove(world, &name).await? == Removed::Now, "it was there");
    ensure!(world.all_are_dead().await?, "what was in it is dead");
    ensure!(world.cgroups().check(&name).await.is_err(), "it is gone");
    ensure!(remove(world, &name).await? == Removed::Before, "and goes once");
    Ok(())
}

async fn removal_of_other_subjects_is_refused(world: &dyn World) -> Result<()> {
    let image = removal(Subject::Image("image".to_owned()));
    let refused = world.cgroups().remove(&image).await;
    ensure!(matches!(refused, Err(CgroupError::NoCgroup(_))), "{refused:?}");
    let root = removal(Subject::Cgroup(CgroupName::root()));
    ensure!(world.cgroups().remove(&root).await.is_err(), "the root stays");
    world.cgroups().check(&world.base()).await.context("and so does all in it")
}
