//! A login manager in memory.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use model::ports::login::{DelayLock, LoginError, LoginManager, ShutdownWatch};
use tokio::sync::{mpsc, watch};

/// A login manager that a test controls. Clones share it.
#[derive(Debug, Clone, Default)]
pub struct MemoryLogin {
    state: Arc<Mutex<State>>,
}

#[derive(Debug)]
struct State {
    longest: Duration,
    /// The longest delay after a reload.
    configured: Option<Duration>,
    is_shutting_down: bool,
    /// Why requests fail, if they do.
    fault: Option<&'static str>,
    watches: Vec<mpsc::UnboundedSender<bool>>,
    /// How many locks there are.
    locks: watch::Sender<usize>,
    /// How many locks were given.
    given: usize,
    /// Locks that the service manager keeps for the next agent.
    stored: usize,
}

impl Default for State {
    fn default() -> Self {
        Self {
            longest: Duration::from_secs(5),
            configured: None,
            is_shutting_down: false,
            fault: None,
            watches: Vec::new(),
            locks: watch::Sender::new(0),
            given: 0,
            stored: 0,
        }
    }
}

impl MemoryLogin {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Begins a shutdown, or cancels it.
    pub fn prepare(&self, begins: bool) {
        let mut state = self.state();
        state.is_shutting_down = begins;
        state.watches.retain(|watch| watch.send(begins).is_ok());
    }

    /// Loses all watches.
    pub fn lose_watches(&self) {
        self.state().watches.clear();
    }

    /// Makes requests fail, or work again.
    pub fn set_fault(&self, fault: Option<&'static str>) {
        self.state().fault = fault;
    }

    /// Sets the longest delay after the next reload.
    pub fn configure(&self, longest: Duration) {
        self.state().configured = Some(longest);
    }

    /// How many locks delay a shutdown, and how many were given in all.
    pub fn locks(&self) -> (usize, usize) {
        let state = self.state();
        (*state.locks.borrow(), state.given)
    }

    /// Waits until no lock delays a shutdown.
    pub async fn unlocked(&self) {
        let mut locks = self.state().locks.subscribe();
        locks.wait_for(|locks| *locks == 0).await.map(drop).unwrap_or_default();
    }

    fn ask<T>(
        &self,
        operation: &'static str,
        answer: impl FnOnce(&mut State) -> T,
    ) -> Result<T, LoginError> {
        let mut state = self.state();
        match state.fault {
            Some(fault) => Err(LoginError { operation, message: fault.to_owned() }),
            None => Ok(answer(&mut state)),
        }
    }
}

#[async_trait]
impl LoginManager for MemoryLogin {
    async fn longest_delay(&self) -> Result<Duration, LoginError> {
        self.ask("report its longest delay", |state| state.longest)
    }

    async fn reload(&self) -> Result<(), LoginError> {
        self.ask("read its configuration again", |state| {
            state.longest = state.configured.unwrap_or(state.longest);
        })
    }

    async fn delay_shutdown(&self) -> Result<Box<dyn DelayLock>, LoginError> {
        let login = self.clone();
        let given = self.ask("delay shutdowns", |state| {
            if state.stored > 0 {
                state.stored -= 1;
                return true;
            }
            if state.is_shutting_down {
                return false;
            }
            state.given += 1;
            state.locks.send_modify(|locks| *locks += 1);
            true
        })?;
        if given {
            return Ok(Box::new(Lock { login, is_released: false }));
        }
        let message = "the operation is already running".to_owned();
        Err(LoginError { operation: "delay shutdowns", message })
    }

    async fn is_shutting_down(&self) -> Result<bool, LoginError> {
        self.ask("report shutdowns", |state| state.is_shutting_down)
    }

    async fn watch(&self) -> Result<Box<dyn ShutdownWatch>, LoginError> {
        let (sender, receiver) = mpsc::unbounded_channel();
        self.ask("report shutdowns", |state| state.watches.push(sender))?;
        Ok(Box::new(Watch(receiver)))
    }
}

#[derive(Debug)]
struct Lock {
    login: MemoryLogin,
    is_released: bool,
}

impl DelayLock for Lock {
    fn release(mut self: Box<Self>) {
        self.is_released = true;
        self.login.state().locks.send_modify(|locks| *locks -= 1);
    }
}

impl Drop for Lock {
    fn drop(&mut self) {
        // The agent died: the service manager keeps its copy.
        if !self.is_released {
            self.login.state().stored += 1;
        }
    }
}

#[derive(Debug)]
struct Watch(mpsc::UnboundedReceiver<bool>);

#[async_trait]
impl ShutdownWatch for Watch {
    async fn next(&mut self) -> Option<bool> {
        self.0.recv().await
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::contract::login::login_contract;

    #[tokio::test]
    async fn memory_adapter_passes_the_contract() {
        let login = MemoryLogin::default();
        let control = login.clone();
        login_contract(&login, async |begins| control.prepare(begins)).await.unwrap();
        assert_eq!(login.locks(), (0, 2));
    }

    #[tokio::test]
    async fn lock_of_a_dead_agent_is_given_to_the_next_one() {
        let login = MemoryLogin::default();
        drop(login.delay_shutdown().await.unwrap());
        login.prepare(true);
        assert_eq!(login.locks(), (1, 1), "it delays the shutdown");
        login.delay_shutdown().await.unwrap().release();
        assert_eq!(login.locks(), (0, 1));
    }
}
