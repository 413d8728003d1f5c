//! Kills by the kernel because of missing memory.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::ids::ContainerId;
use crate::verdict::{Detail, Input};

/// How many cgroups are remembered. Their containers end, so the oldest are not needed any more.
const MOST_CGROUPS: usize = 1024;

/// Whose memory was exhausted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum OomScope {
    /// That of the machine.
    Node,
    /// That of the container.
    Container,
    /// That of its pod.
    Pod,
    /// That of another cgroup.
    Cgroup(String),
}

/// Memory of a cgroup in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MemoryUsage {
    /// The usage at the kill.
    pub usage: u64,
    /// The limit.
    pub limit: u64,
}

/// A process that the kernel killed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OomKill {
    /// Its ID.
    pub pid: u32,
    /// Its name.
    pub process: String,
    /// Whose memory was exhausted.
    pub scope: OomScope,
    /// Usage and limit of that memory; unknown for the machine.
    pub memory: Option<MemoryUsage>,
}

impl OomKill {
    /// Its numbers for the journal.
    pub fn detail(&self) -> Detail {
        let number = |bytes: u64| Input::Number(bytes.try_into().unwrap_or(i64::MAX));
        let mut detail = Detail::default()
            .with("process", Input::Text(self.process.clone()))
            .with("pid", Input::Number(self.pid.into()));
        let scope = match &self.scope {
            OomScope::Container => None,
            OomScope::Node => Some("node".to_owned()),
            OomScope::Pod => Some("pod".to_owned()),
            OomScope::Cgroup(name) => Some(name.clone()),
        };
        if let Some(scope) = scope {
            detail = detail.with("scope", Input::Text(scope));
        }
        if let Some(MemoryUsage { usage, limit }) = self.memory {
            detail = detail.with("memoryLimit", number(limit)).with("memoryUsage", number(usage));
        }
        detail
    }
}

/// Kills by cgroup, since the agent started. Clones share them. The OOM watcher writes them.
#[derive(Debug, Clone, Default)]
pub struct OomKills {
    /// Never held across an await.
    state: Arc<Mutex<State>>,
}

#[derive(Debug, Default)]
struct State {
    cgroups: BTreeMap<String, CgroupKills>,
    /// Their names, the first killed one first.
    order: VecDeque<String>,
}

#[derive(Debug)]
struct CgroupKills {
    count: u64,
    container: Option<ContainerId>,
    last: OomKill,
}

impl OomKills {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a kill in a cgroup, by its path in the kernel's log, and in the container that it belongs to.
    pub fn add(&self, cgroup: &str, container: Option<ContainerId>, kill: OomKill) {
        let State { cgroups, order } = &mut *self.lock();
        if let Some(known) = cgroups.get_mut(cgroup) {
            known.count += 1;
            known.last = kill;
            return;
        }
        cgroups.insert(cgroup.to_owned(), CgroupKills { count: 1, container, last: kill });
        order.push_back(cgroup.to_owned());
        if order.len() > MOST_CGROUPS
            && let Some(oldest) = order.pop_front()
        {
            cgroups.remove(&oldest);
        }
    }

    /// The last kill in a container.
    pub fn last(&self, container: &ContainerId) -> Option<OomKill> {
        let state = self.lock();
        let of = |kills: &&CgroupKills| kills.container.as_ref() == Some(container);
        state.cgroups.values().find(of).map(|kills| kills.last.clone())
    }

    /// How many times the kernel was out of memory and killed in this cgroup, not counting those below it. The path
    /// is the agent's: in a cgroup namespace the kernel logs a longer one.
    pub fn count(&self, cgroup: &str) -> u64 {
        let state = self.lock();
        if let Some(kills) = state.cgroups.get(cgroup) {
            return kills.count;
        }
        let is_same = |path: &str| cgroup.len() > 1 && path.ends_with(cgroup);
        state.cgroups.iter().find(|(path, _)| is_same(path)).map_or(0, |(_, kills)| kills.count)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kill(pid: u32) -> OomKill {
        let memory = Some(MemoryUsage { usage: 20, limit: 30 });
        OomKill { pid, process: "hog".to_owned(), scope: OomScope::Container, memory }
    }

    #[test]
    fn kills_are_counted_by_cgroup_also_in_a_cgroup_namespace() {
        let (kills, id) = (OomKills::default(), ContainerId::from("c1"));
        kills.add("/outer/kubepods/podu/c1", Some(id.clone()), kill(1));
        kills.add("/outer/kubepods/podu/c1", Some(id.clone()), kill(2));
        kills.add("/", None, kill(3));
        let counts = ["/kubepods/podu/c1", "/outer/kubepods/podu/c1", "/c2", "/kubepods/podu", "/"]
            .map(|cgroup| kills.count(cgroup));
        assert_eq!(counts, [2, 2, 0, 0, 1]);
        assert_eq!(kills.last(&id), Some(kill(2)));
        assert_eq!(kills.last(&"c2".into()), None);
    }

    #[test]
    fn oldest_cgroups_are_forgotten() {
        let kills = OomKills::default();
        for number in 0..=MOST_CGROUPS {
            kills.add(&format!("/{number}"), None, kill(1));
        }
        assert_eq!(["/0", "/1", "/1024"].map(|cgroup| kills.count(cgroup)), [0, 1, 1]);
    }

    #[test]
    fn detail_names_the_exhausted_memory_unless_it_is_the_containers() {
        assert_eq!(
            kill(7).detail().to_string(),
            "process hog, pid 7, memoryLimit 30, memoryUsage 20"
        );
        let node = OomKill { scope: OomScope::Node, memory: None, ..kill(7) };
        assert_eq!(node.detail().to_string(), "process hog, pid 7, scope node");
    }
}
