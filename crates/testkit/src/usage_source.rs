//! Resource usage that a test sets.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use jiff::{SignedDuration, Timestamp};
use model::ports::usage::{UsageError, UsageSource};
use model::stats::{FsStats, MemoryStats, NodeStats, Summary};
use tokio::time::Instant;

/// Reports the usage that was set last. Its times are those of the requests, unless they are frozen.
#[derive(Debug)]
pub struct SetUsage {
    /// The origin of all times.
    begun: Instant,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    summary: Summary,
    frozen: Option<Timestamp>,
    broken: bool,
    summaries: usize,
    nodes: usize,
}

impl Default for SetUsage {
    fn default() -> Self {
        Self { begun: Instant::now(), state: Mutex::default() }
    }
}

impl SetUsage {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn now(&self) -> Timestamp {
        let elapsed = SignedDuration::try_from(self.begun.elapsed()).unwrap_or_default();
        Timestamp::UNIX_EPOCH + elapsed
    }

    /// Changes the usage.
    pub fn set(&self, change: impl FnOnce(&mut Summary)) {
        change(&mut self.state().summary);
    }

    /// Keeps the times of measurements as they are now, or releases them.
    pub fn freeze(&self, is_frozen: bool) {
        self.state().frozen = is_frozen.then(|| self.now());
    }

    /// Makes all measurements fail, or succeed again.
    pub fn set_broken(&self, is_broken: bool) {
        self.state().broken = is_broken;
    }

    /// How often pods were measured.
    pub fn summaries(&self) -> usize {
        self.state().summaries
    }

    /// How often the node alone was measured.
    pub fn nodes(&self) -> usize {
        self.state().nodes
    }

    fn measured(&self, state: &State) -> Result<Summary, UsageError> {
        if state.broken {
            let (step, message) = ("list containers".to_owned(), "broken by a test".to_owned());
            return Err(UsageError { step, message });
        }
        let mut summary = state.summary.clone();
        stamp(&mut summary.node, state.frozen.unwrap_or_else(|| self.now()));
        Ok(summary)
    }
}

/// Sets the times of the node's values.
fn stamp(node: &mut NodeStats, now: Timestamp) {
    let memory = |memory: &mut Option<MemoryStats>| {
        if let Some(memory) = memory {
            memory.time = now;
        }
    };
    let fs = |fs: &mut Option<FsStats>| {
        if let Some(fs) = fs {
            fs.time = now;
        }
    };
    memory(&mut node.memory);
    node.system_containers.iter_mut().for_each(|group| memory(&mut group.memory));
    fs(&mut node.fs);
    if let Some(runtime) = &mut node.runtime {
        fs(&mut runtime.image_fs);
        fs(&mut runtime.container_fs);
    }
    if let Some(limits) = &mut node.rlimit {
        limits.time = now;
    }
}

#[async_trait]
impl UsageSource for SetUsage {
    async fn summary(&self, _max_age: Duration) -> Result<Arc<Summary>, UsageError> {
        let mut state = self.state();
        state.summaries += 1;
        self.measured(&state).map(Arc::new)
    }

    async fn node(&self) -> Result<NodeStats, UsageError> {
        let mut state = self.state();
        state.nodes += 1;
        self.measured(&state).map(|summary| summary.node)
    }
}
