//! Cgroups in memory.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::sync::{Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;
use model::cgroup::{CgroupDriver, CgroupName, CgroupValues};
use model::ports::cgroups::{CgroupError, Cgroups, Limits, subject};
use model::ports::files::Removed;
use model::verdict::Verdict;

/// A tree of cgroups. The root is always there.
#[derive(Debug, Default)]
pub struct MemoryCgroups {
    driver: CgroupDriver,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    cgroups: BTreeMap<CgroupName, CgroupValues>,
    /// How many processes are in each.
    processes: BTreeMap<CgroupName, usize>,
    /// Cgroups that cannot be made, limited or removed.
    broken: BTreeSet<CgroupName>,
    /// Cgroups that can be made and removed, and not limited.
    unlimited: BTreeSet<CgroupName>,
    /// Cgroups that can be limited, which is said to have failed.
    unanswered: BTreeSet<CgroupName>,
    /// Cgroups that cannot be looked at.
    unseen: BTreeSet<CgroupName>,
    /// The cgroup whose removal panics.
    panics: Option<CgroupName>,
    /// Bytes of memory that are used in each.
    memory: BTreeMap<CgroupName, u64>,
    /// What was done, in this order.
    effects: Vec<String>,
    /// How often it was looked whether one is there.
    looks: usize,
}

impl MemoryCgroups {
    /// An empty tree of this driver.
    pub fn new(driver: CgroupDriver) -> Self {
        Self { driver, state: Mutex::default() }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// All cgroups that there are, with what was written to them.
    pub fn all(&self) -> BTreeMap<CgroupName, CgroupValues> {
        self.state().cgroups.clone()
    }

    /// What was done since the last question: `create /a`, `update /a`, `remove /a`.
    pub fn effects(&self) -> Vec<String> {
        std::mem::take(&mut self.state().effects)
    }

    /// How often it was looked whether a cgroup is there, since the last question.
    pub fn looks(&self) -> usize {
        std::mem::take(&mut self.state().looks)
    }

    /// Makes a cgroup.
    pub fn make(&self, name: &CgroupName) {
        self.state().make(name);
    }

    /// Puts a process into a cgroup, which is made.
    pub fn enter(&self, name: &CgroupName) {
        let mut state = self.state();
        state.make(name);
        *state.processes.entry(name.clone()).or_default() += 1;
    }

    /// So many bytes of memory are used in a cgroup from now on.
    pub fn use_memory(&self, name: &CgroupName, bytes: u64) {
        self.state().memory.insert(name.clone(), bytes);
    }

    /// How many processes there are.
    pub fn processes(&self) -> usize {
        self.state().processes.values().sum()
    }

    /// Nothing can be done to a cgroup any more, or again.
    pub fn set_broken(&self, name: &CgroupName, broken: bool) {
        mark(&mut self.state().broken, name, broken);
    }

    /// A cgroup cannot be limited any more, or again; it can be made and removed.
    pub fn set_unlimited(&self, name: &CgroupName, unlimited: bool) {
        mark(&mut self.state().unlimited, name, unlimited);
    }

    /// That a cgroup is limited is said to fail from now on, though it is done; or is answered again.
    pub fn set_unanswered(&self, name: &CgroupName, unanswered: bool) {
        mark(&mut self.state().unanswered, name, unanswered);
    }

    /// From now on removals of a cgroup panic, or of none.
    pub fn panic_on_removal(&self, name: Option<&CgroupName>) {
        self.state().panics = name.cloned();
    }

    /// A cgroup cannot be looked at any more.
    pub fn hide(&self, name: &CgroupName) {
        self.state().unseen.insert(name.clone());
    }

    /// A cgroup can be looked at again.
    pub fn show(&self, name: &CgroupName) {
        self.state().unseen.remove(name);
    }

    /// Somebody else removes a cgroup.
    pub fn vanish(&self, name: &CgroupName) {
        self.state().cgroups.retain(|one, _| !is_in(one, name));
    }
}

fn mark(all: &mut BTreeSet<CgroupName>, name: &CgroupName, is_one: bool) {
    if is_one {
        all.insert(name.clone());
    } else {
        all.remove(name);
    }
}

/// Whether a cgroup is another or somewhere in it.
fn is_in(name: &CgroupName, other: &CgroupName) -> bool {
    name == other || name.parent().is_some_and(|parent| is_in(&parent, other))
}

fn denied(operation: &str, name: &CgroupName) -> CgroupError {
    CgroupError::File {
        operation: operation.to_owned(),
        path: name.to_string().into(),
        source: io::ErrorKind::PermissionDenied.into(),
    }
}

impl State {
    fn make(&mut self, name: &CgroupName) {
        if let Some(parent) = name.parent() {
            self.make(&parent);
            self.cgroups.entry(name.clone()).or_default();
        }
    }

    fn act(&mut self, operation: &str, name: &CgroupName) -> Result<(), CgroupError> {
        if self.broken.contains(name) {
            return Err(denied(operation, name));
        }
        self.effects.push(format!("{operation} {name}"));
        Ok(())
    }

    fn check(&self, name: &CgroupName) -> Result<(), CgroupError> {
        if name.is_root() || self.cgroups.contains_key(name) {
            return Ok(());
        }
        Err(CgroupError::Missing { name: name.clone(), missing: "memory".to_owned() })
    }

    fn write(&mut self, name: &CgroupName, values: &CgroupValues) {
        let Some(kept) = self.cgroups.get_mut(name) else { return };
        *kept = kept.with(values);
    }
}

#[async_trait]
impl Cgroups for MemoryCgroups {
    fn driver(&self) -> CgroupDriver {
        self.driver
    }

    async fn check(&self, name: &CgroupName) -> Result<(), CgroupError> {
        let mut state = self.state();
        state.looks += 1;
        if state.unseen.contains(name) {
            return Err(denied("open", name));
        }
        state.check(name)
    }

    async fn create(
        &self,
        name: &CgroupName,
        values: &CgroupValues,
    ) -> Result<Limits, CgroupError> {
        let mut state = self.state();
        state.act("create", name)?;
        state.make(name);
        if state.unlimited.contains(name) {
            return Ok(Limits::Lacking);
        }
        state.write(name, values);
        Ok(Limits::Written)
    }

    async fn update(&self, name: &CgroupName, values: &CgroupValues) -> Result<(), CgroupError> {
        let mut state = self.state();
        state.check(name)?;
        if state.unlimited.contains(name) {
            return Err(denied("update", name));
        }
        state.act("update", name)?;
        state.write(name, values);
        if state.unanswered.contains(name) {
            return Err(denied("update", name));
        }
        Ok(())
    }

    async fn has(&self, name: &CgroupName, values: &CgroupValues) -> Result<bool, CgroupError> {
        let mut state = self.state();
        state.check(name)?;
        let before = state.cgroups.get(name).cloned();
        state.write(name, values);
        let after = state.cgroups.get(name).cloned();
        let is_same = before == after;
        state.cgroups.extend(before.map(|before| (name.clone(), before)));
        Ok(is_same)
    }

    async fn values(&self, name: &CgroupName) -> Result<CgroupValues, CgroupError> {
        let state = self.state();
        state.check(name)?;
        let found = state.cgroups.get(name).cloned().unwrap_or_default();
        Ok(CgroupValues {
            cpu_shares: found.cpu_shares,
            // What was never limited is not.
            cpu_quota: found.cpu_quota.or(Some(-1)),
            cpu_period: found.cpu_period,
            memory_limit: found.memory_limit,
            ..CgroupValues::default()
        })
    }

    async fn memory_usage(
        &self,
        name: &CgroupName,
        part: Option<&str>,
    ) -> Result<Option<u64>, CgroupError> {
        let state = self.state();
        let is_meant = |one: &CgroupName| match part {
            Some(part) => one.parent().as_ref() == Some(name) && one.last().contains(part),
            None => one == name,
        };
        Ok(state.memory.iter().find(|(one, _)| is_meant(one)).map(|(_, bytes)| *bytes))
    }

    async fn children(&self, name: &CgroupName) -> Result<BTreeSet<CgroupName>, CgroupError> {
        let state = self.state();
        if state.unseen.contains(name) {
            return Err(denied("list", name));
        }
        let is_child = |one: &&CgroupName| one.parent().as_ref() == Some(name);
        Ok(state.cgroups.keys().filter(is_child).cloned().collect())
    }

    async fn remove(&self, verdict: &Verdict) -> Result<Removed, CgroupError> {
        let name = subject(verdict)?;
        let mut state = self.state();
        assert!(state.panics.as_ref() != Some(name), "injected into the removal of {name}");
        if name.is_root() {
            return Err(CgroupError::Busy { name: name.clone(), pids: BTreeSet::new() });
        }
        if state.check(name).is_err() {
            return Ok(Removed::Before);
        }
        state.act("remove", name)?;
        state.cgroups.retain(|one, _| !is_in(one, name));
        state.processes.retain(|one, _| !is_in(one, name));
        Ok(Removed::Now)
    }
}

#[cfg(test)]
mod tests {
    use anyhow::{Result, ensure};

    use super::*;
    use crate::contract::assert_kept;
    use crate::contract::cgroups::{World, play_all};

    #[async_trait]
    impl World for MemoryCgroups {
        fn cgroups(&self) -> &dyn Cgroups {
            self
        }
        fn base(&self) -> CgroupName {
            CgroupName::root()
        }
        async fn has(&self, name: &CgroupName, values: &CgroupValues) -> Result<()> {
            let all = self.all();
            ensure!(all.get(name) == Some(values), "{name}: {:?}", all.get(name));
            Ok(())
        }
        async fn enter(&self, name: &CgroupName) -> Result<()> {
            self.enter(name);
            Ok(())
        }
        async fn all_are_dead(&self) -> Result<bool> {
            Ok(self.processes() == 0)
        }
    }

    #[tokio::test]
    async fn memory_cgroups_pass_the_contract() {
        for driver in [CgroupDriver::Cgroupfs, CgroupDriver::Systemd] {
            assert_eq!(assert_kept(&play_all(&MemoryCgroups::new(driver)).await), []);
        }
    }
}
