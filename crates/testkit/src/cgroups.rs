//! Cgroups in memory.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::sync::{Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;
use model::cgroup::{CgroupDriver, CgroupName, CgroupValues};
use model::ports::cgroups::{CgroupError, Cgroups, Limits, subject};
use model::ports::files::Removed;
use model::verdict::Verdict;

/// A tree of cgroups. The root always exists.
#[derive(Debug, Default)]
pub struct MemoryCgroups {
    driver: CgroupDriver,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    cgroups: BTreeMap<CgroupName, CgroupValues>,
    /// The number of processes by cgroup.
    processes: BTreeMap<CgroupName, usize>,
    /// Cgroups that cannot be created, limited or removed.
    broken: BTreeSet<CgroupName>,
    /// Cgroups that can be created and removed, but not limited.
    unlimited: BTreeSet<CgroupName>,
    /// Cgroups whose limits are set, although the call returns an error.
    unanswered: BTreeSet<CgroupName>,
    /// Cgroups that cannot be read.
    unseen: BTreeSet<CgroupName>,
    /// The cgroup whose removal panics.
    panics: Option<CgroupName>,
    /// Used memory in bytes by cgroup.
    memory: BTreeMap<CgroupName, u64>,
    /// The changes so far, in order.
    effects: Vec<String>,
    /// The number of existence checks.
    looks: usize,
}

impl MemoryCgroups {
    /// An empty tree for this driver.
    pub fn new(driver: CgroupDriver) -> Self {
        Self { driver, state: Mutex::default() }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// All cgroups with the values that were written to them.
    pub fn all(&self) -> BTreeMap<CgroupName, CgroupValues> {
        self.state().cgroups.clone()
    }

    /// The changes since the last call: `create /a`, `update /a`, `remove /a`.
    pub fn effects(&self) -> Vec<String> {
        std::mem::take(&mut self.state().effects)
    }

    /// The number of existence checks since the last call.
    pub fn looks(&self) -> usize {
        std::mem::take(&mut self.state().looks)
    }

    /// Creates a cgroup.
    pub fn make(&self, name: &CgroupName) {
        self.state().make(name);
    }

    /// Puts a process into a cgroup, which is created if necessary.
    pub fn enter(&self, name: &CgroupName) {
        let mut state = self.state();
        state.make(name);
        *state.processes.entry(name.clone()).or_default() += 1;
    }

    /// Sets the used memory of a cgroup.
    pub fn use_memory(&self, name: &CgroupName, bytes: u64) {
        self.state().memory.insert(name.clone(), bytes);
    }

    /// The number of processes.
    pub fn processes(&self) -> usize {
        self.state().processes.values().sum()
    }

    /// Makes all operations on a cgroup fail, or work again.
    pub fn set_broken(&self, name: &CgroupName, broken: bool) {
        mark(&mut self.state().broken, name, broken);
    }

    /// Makes limiting a cgroup fail, or work again; it can still be created and removed.
    pub fn set_unlimited(&self, name: &CgroupName, unlimited: bool) {
        mark(&mut self.state().unlimited, name, unlimited);
    }

    /// Makes limiting a cgroup return an error although the limits are set, or work again.
    pub fn set_unanswered(&self, name: &CgroupName, unanswered: bool) {
        mark(&mut self.state().unanswered, name, unanswered);
    }

    /// Makes removals of a cgroup panic; `None` clears this.
    pub fn panic_on_removal(&self, name: Option<&CgroupName>) {
        self.state().panics = name.cloned();
    }

    /// Makes reading a cgroup fail.
    pub fn hide(&self, name: &CgroupName) {
        self.state().unseen.insert(name.clone());
    }

    /// Makes reading a cgroup work again.
    pub fn show(&self, name: &CgroupName) {
        self.state().unseen.remove(name);
    }

    /// Removes a cgroup, as another program would.
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

/// Whether a cgroup equals another or is below it.
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
            // A cgroup without written limits has none.
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
    use crate::contract::cgroups::{Harness, play_all};

    #[async_trait]
    impl Harness for MemoryCgroups {
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
