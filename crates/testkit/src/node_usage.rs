//! Cgroup usage and network traffic in memory.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;
use jiff::Timestamp;
use model::cgroup::usage::CgroupSample;
use model::ports::cgroup_usage::{CgroupUsage, Detail, Selection};
use model::ports::cgroups::CgroupError;
use model::ports::files::FileError;
use model::ports::node_usage::{InterfaceCounters, NodeUsage, TaskCounts};

/// Usage that a test sets.
#[derive(Debug, Default)]
pub struct MemoryUsage {
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    cgroups: BTreeMap<String, CgroupSample>,
    interfaces: BTreeMap<i32, Vec<InterfaceCounters>>,
    tasks: TaskCounts,
    measurements: Vec<(Selection, Detail)>,
}

impl MemoryUsage {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sets the usage of a cgroup, at its path.
    pub fn set_cgroup(&self, sample: CgroupSample) {
        self.state().cgroups.insert(sample.path.clone(), sample);
    }

    /// Sets the interfaces in the network namespace of a process.
    pub fn set_interfaces(&self, process: i32, interfaces: Vec<InterfaceCounters>) {
        self.state().interfaces.insert(process, interfaces);
    }

    /// Sets the tasks.
    pub fn set_tasks(&self, tasks: TaskCounts) {
        self.state().tasks = tasks;
    }

    /// The measurements of cgroups since the last call.
    pub fn measurements(&self) -> Vec<(Selection, Detail)> {
        std::mem::take(&mut self.state().measurements)
    }
}

#[async_trait]
impl CgroupUsage for MemoryUsage {
    async fn measure(
        &self,
        selection: &Selection,
        detail: Detail,
    ) -> Result<Vec<CgroupSample>, CgroupError> {
        let mut state = self.state();
        state.measurements.push((selection.clone(), detail));
        let is_below = |path: &str| {
            selection.with_children.iter().any(|above| {
                let rest = path.strip_prefix(above.trim_end_matches('/'));
                rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
            })
        };
        let chosen = state
            .cgroups
            .values()
            .filter(|sample| selection.alone.contains(&sample.path) || is_below(&sample.path));
        Ok(chosen.cloned().collect())
    }
}

#[async_trait]
impl NodeUsage for MemoryUsage {
    async fn interfaces(
        &self,
        processes: &[i32],
    ) -> Result<BTreeMap<i32, Vec<InterfaceCounters>>, FileError> {
        let state = self.state();
        let found = processes
            .iter()
            .filter_map(|process| Some((*process, state.interfaces.get(process)?.clone())));
        Ok(found.collect())
    }

    async fn tasks(&self) -> Result<TaskCounts, FileError> {
        Ok(self.state().tasks)
    }

    async fn devices(
        &self,
        numbers: &[(u32, u32)],
    ) -> Result<BTreeMap<(u32, u32), String>, FileError> {
        let name = |number: &(u32, u32)| (*number, format!("/dev/{}-{}", number.0, number.1));
        Ok(numbers.iter().map(name).collect())
    }

    async fn booted_at(&self) -> Result<Timestamp, FileError> {
        Ok(Timestamp::UNIX_EPOCH)
    }
}
