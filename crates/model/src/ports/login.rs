//! The login manager of the machine, which delays a shutdown for programs that ask for it.

use std::fmt::Debug;
use std::time::Duration;

use async_trait::async_trait;

/// A failed request to the login manager.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("ask the login manager to {operation}: {message}")]
pub struct LoginError {
    /// The request.
    pub operation: &'static str,
    /// Why it failed.
    pub message: String,
}

/// Requests to the login manager.
#[async_trait]
pub trait LoginManager: Debug + Send + Sync {
    /// How long it delays a shutdown at most.
    async fn longest_delay(&self) -> Result<Duration, LoginError>;

    /// Makes it read its configuration again. That takes a moment.
    async fn reload(&self) -> Result<(), LoginError>;

    /// Delays shutdowns from now on. A lock that an earlier agent left in the service manager's descriptor store is used
    /// again.
    async fn delay_shutdown(&self) -> Result<Box<dyn DelayLock>, LoginError>;

    /// Whether the machine is shutting down.
    async fn is_shutting_down(&self) -> Result<bool, LoginError>;

    /// Watches for shutdowns.
    async fn watch(&self) -> Result<Box<dyn ShutdownWatch>, LoginError>;
}

/// Delays shutdowns until it is released. If the agent dies, the service manager keeps the lock for the next one, where
/// its unit allows that.
pub trait DelayLock: Debug + Send + Sync {
    /// Lets a shutdown go on.
    fn release(self: Box<Self>);
}

/// Shutdowns of the machine.
#[async_trait]
pub trait ShutdownWatch: Debug + Send {
    /// Waits until a shutdown begins (`true`) or is cancelled (`false`); `None` if the watch is lost.
    async fn next(&mut self) -> Option<bool>;
}
