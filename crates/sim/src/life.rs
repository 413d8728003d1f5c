//! The life of one agent: its calls are counted, and it may die during one.

use std::future::pending;
use std::sync::{Arc, Mutex, PoisonError};

use tokio_util::sync::CancellationToken;

use crate::history::Event;
use crate::outside::Outside;
use crate::plan::PlannedDeath;

/// The name of killed agents among faults.
pub(crate) const AGENT_KILLED: &str = "agent killed";

/// An agent's life. After its death, none of its calls takes effect or returns.
#[derive(Debug)]
pub(crate) struct Life {
    /// The number of the agent.
    pub(crate) number: u32,
    /// Cancelled when the agent dies.
    pub(crate) over: CancellationToken,
    outside: Arc<Outside>,
    planned_death: Mutex<Option<PlannedDeath>>,
}

impl Life {
    pub(crate) fn new(number: u32, outside: Arc<Outside>) -> Self {
        Self { number, over: CancellationToken::new(), outside, planned_death: Mutex::default() }
    }

    /// Plans its death, unless one is planned already.
    pub(crate) fn plan_death(&self, death: PlannedDeath) {
        self.planned_death.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(death);
    }

    /// A call, from before its beginning until after its response.
    pub(crate) async fn call<T>(&self, what: &str, call: impl Future<Output = T>) -> T {
        let now = self.count();
        if let Some(death) = now.filter(|death| death.before) {
            self.end("before", what, death);
        }
        self.go_on().await;
        let answer = call.await;
        if let Some(death) = now {
            self.end("after", what, death);
        }
        self.go_on().await;
        answer
    }

    /// Counts a call; returns the planned death during it, if there is one. Calls of a dead agent are not
    /// counted.
    fn count(&self) -> Option<PlannedDeath> {
        if self.over.is_cancelled() {
            return None;
        }
        let mut planned = self.planned_death.lock().unwrap_or_else(PoisonError::into_inner);
        let waiting = planned.as_mut()?;
        waiting.nth = waiting.nth.saturating_sub(1);
        if waiting.nth == 0 { planned.take() } else { None }
    }

    fn end(&self, when: &str, what: &str, death: PlannedDeath) {
        if self.over.is_cancelled() {
            return;
        }
        let number = self.number;
        self.outside.happened(AGENT_KILLED);
        self.outside.record(Event::AgentDied);
        self.outside.say(format!("FAULT    agent {number} dies {when} {what}"));
        // The downtime is read by the code that starts the next agent.
        *self.planned_death.lock().unwrap_or_else(PoisonError::into_inner) = Some(death);
        self.over.cancel();
    }

    /// The death that happened, or the planned one.
    pub(crate) fn death(&self) -> Option<PlannedDeath> {
        *self.planned_death.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn go_on(&self) {
        if self.over.is_cancelled() {
            pending::<()>().await;
        }
    }
}
