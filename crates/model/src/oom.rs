//! Kills by the kernel because of missing memory.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::ids::ContainerId;
use crate::verdict::{Detail, Input};

/// How many containers are remembered. They end, so the oldest are not needed any more.
const MOST_CONTAINERS: usize = 1024;

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

/// The last kill in each container, since the agent started. Clones share them. The OOM watcher writes them.
#[derive(Debug, Clone, Default)]
pub struct OomKills {
    /// Never held across an await.
    state: Arc<Mutex<State>>,
}

#[derive(Debug, Default)]
struct State {
    kills: BTreeMap<ContainerId, OomKill>,
    /// Their containers, the first killed one first.
    order: VecDeque<ContainerId>,
}

impl OomKills {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a kill in a container.
    pub fn add(&self, container: ContainerId, kill: OomKill) {
        let State { kills, order } = &mut *self.lock();
        if kills.insert(container.clone(), kill).is_some() {
            return;
        }
        order.push_back(container);
        if order.len() > MOST_CONTAINERS
            && let Some(oldest) = order.pop_front()
        {
            kills.remove(&oldest);
        }
    }

    /// The last kill in a container.
    pub fn last(&self, container: &ContainerId) -> Option<OomKill> {
        self.lock().kills.get(container).cloned()
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
    fn last_kill_of_a_container_is_kept() {
        let (kills, id) = (OomKills::default(), ContainerId::from("c1"));
        kills.add(id.clone(), kill(1));
        kills.add(id.clone(), kill(2));
        kills.add("c3".into(), kill(3));
        assert_eq!(kills.last(&id), Some(kill(2)));
        assert_eq!(kills.last(&"c2".into()), None);
    }

    #[test]
    fn oldest_containers_are_forgotten() {
        let kills = OomKills::default();
        for number in 0..=MOST_CONTAINERS {
            kills.add(number.to_string().as_str().into(), kill(1));
        }
        let known = ["0", "1", "1024"].map(|id| kills.last(&id.into()).is_some());
        assert_eq!(known, [false, true, true]);
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
