//! The life of one agent, counted in calls to the outside.

use std::future::pending;
use std::sync::{Arc, Mutex, PoisonError};

use tokio_util::sync::CancellationToken;

use crate::history::Event;
use crate::outside::Outside;
use crate::plan::Doom;

/// What the killing of an agent is called among faults.
pub(crate) const AGENT_KILLED: &str = "agent killed";

/// An agent's life. Once it is over, none of its calls does anything or returns.
#[derive(Debug)]
pub(crate) struct Life {
    /// Agents are counted.
    pub(crate) number: u32,
    /// Told when the agent dies.
    pub(crate) over: CancellationToken,
    outside: Arc<Outside>,
    doom: Mutex<Option<Doom>>,
}

impl Life {
    pub(crate) fn new(number: u32, outside: Arc<Outside>) -> Self {
        Self { number, over: CancellationToken::new(), outside, doom: Mutex::default() }
    }

    /// Says when it ends, unless that was said before.
    pub(crate) fn doom(&self, doom: Doom) {
        self.doom.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(doom);
    }

    /// A call, from before it begins until after it was answered.
    pub(crate) async fn call<T>(&self, what: &str, call: impl Future<Output = T>) -> T {
        let now = self.count();
        if let Some(doom) = now.filter(|doom| doom.before) {
            self.end("before", what, doom);
        }
        self.go_on().await;
        let answer = call.await;
        if let Some(doom) = now {
            self.end("after", what, doom);
        }
        self.go_on().await;
        answer
    }

    /// Counts a call; the doom that comes with it, if one does. What the dead still ask for does not count.
    fn count(&self) -> Option<Doom> {
        if self.over.is_cancelled() {
            return None;
        }
        let mut doom = self.doom.lock().unwrap_or_else(PoisonError::into_inner);
        let waiting = doom.as_mut()?;
        waiting.nth = waiting.nth.saturating_sub(1);
        if waiting.nth == 0 { doom.take() } else { None }
    }

    fn end(&self, when: &str, what: &str, doom: Doom) {
        if self.over.is_cancelled() {
            return;
        }
        let number = self.number;
        self.outside.happened(AGENT_KILLED);
        self.outside.record(Event::AgentDied);
        self.outside.say(format!("FAULT    agent {number} dies {when} {what}"));
        // How long it stays away is read by whoever buries it.
        *self.doom.lock().unwrap_or_else(PoisonError::into_inner) = Some(doom);
        self.over.cancel();
    }

    /// The doom that came, or that is in store.
    pub(crate) fn fate(&self) -> Option<Doom> {
        *self.doom.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn go_on(&self) {
        if self.over.is_cancelled() {
            pending::<()>().await;
        }
    }
}
