//! The long tasks of a program, by name.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::error::Error;
use std::time::Duration;

use model::chain::Chain;
use tokio::task::{Id, JoinSet};
use tokio_util::sync::CancellationToken;
use tracing::warn;

/// All long tasks. No task may end before it is stopped. If one does, the whole program ends, so that its supervisor
/// restarts it.
#[derive(Debug, Default)]
pub struct Tasks {
    set: JoinSet<Result<(), Reason>>,
    names: BTreeMap<Id, &'static str>,
    stop: CancellationToken,
}

/// How long tasks may take to stop.
const PATIENCE: Duration = Duration::from_secs(5);

/// Why a task fails.
type Reason = Box<dyn Error + Send + Sync>;

/// A long task that ended too early.
#[derive(Debug, thiserror::Error)]
pub enum TaskEnded {
    /// It returned.
    #[error("task {0} ended")]
    Returned(&'static str),
    /// It failed.
    #[error("task {0}: {1}")]
    Failed(&'static str, String),
    /// It panicked.
    #[error("task {0} panicked")]
    Panicked(&'static str),
}

impl Tasks {
    /// Starts a task with the token that stops it.
    pub fn spawn<F>(&mut self, name: &'static str, task: impl FnOnce(CancellationToken) -> F)
    where
        F: Future<Output = ()> + Send + 'static,
    {
        let task = task(self.stop.child_token());
        self.spawn_fallible(name, |_| async move {
            task.await;
            Ok::<(), Infallible>(())
        });
    }

    /// Starts a task that may fail.
    pub fn spawn_fallible<F, E>(
        &mut self,
        name: &'static str,
        task: impl FnOnce(CancellationToken) -> F,
    ) where
        F: Future<Output = Result<(), E>> + Send + 'static,
        E: Error + Send + Sync + 'static,
    {
        let task = task(self.stop.child_token());
        let handle = self.set.spawn(async move { task.await.map_err(Reason::from) });
        self.names.insert(handle.id(), name);
    }

    /// Waits until a task ends before it was stopped.
    pub async fn first_ended(&mut self) -> TaskEnded {
        match self.set.join_next_with_id().await {
            Some(Ok((id, Ok(())))) => TaskEnded::Returned(self.name(id)),
            Some(Ok((id, Err(why)))) => TaskEnded::Failed(self.name(id), Chain(&*why).to_string()),
            Some(Err(error)) => TaskEnded::Panicked(self.name(error.id())),
            None => TaskEnded::Returned("none was started"),
        }
    }

    /// Stops all tasks and waits for them, but not longer than five seconds: one may hang in a file or a call.
    pub async fn stop(self) {
        self.stop_within(PATIENCE).await;
    }

    /// Stops all tasks and waits for them for this long. No task runs afterwards.
    pub async fn stop_within(mut self, patience: Duration) {
        self.stop.cancel();
        let all = async { while self.set.join_next().await.is_some() {} };
        if tokio::time::timeout(patience, all).await.is_err() {
            warn!("Not all tasks stopped in time, abandoning them");
        }
    }

    /// Aborts all tasks.
    pub async fn abort(mut self) {
        self.set.shutdown().await;
    }

    fn name(&self, id: Id) -> &'static str {
        self.names.get(&id).copied().unwrap_or("unknown")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn ended_task_is_reported_with_its_name() {
        let mut tasks = Tasks::default();
        tasks.spawn("long", |stop| async move { stop.cancelled().await });
        tasks.spawn("short", |_| async {});
        assert_eq!(tasks.first_ended().await.to_string(), "task short ended");
        tasks.spawn("broken", |_| async { panic!("on purpose") });
        assert_eq!(tasks.first_ended().await.to_string(), "task broken panicked");
        let unreadable = std::io::Error::other("no such luck");
        tasks.spawn_fallible("unlucky", |_| async { Err(unreadable) });
        assert_eq!(tasks.first_ended().await.to_string(), "task unlucky: no such luck");
        tasks.stop().await;
    }

    #[tokio::test]
    async fn aborted_task_is_dropped() {
        let mut tasks = Tasks::default();
        let (sender, mut receiver) = tokio::sync::mpsc::channel::<()>(1);
        tasks.spawn("deaf", |_| async move {
            std::future::pending::<()>().await;
            drop(sender);
        });
        tasks.abort().await;
        assert_eq!(receiver.recv().await, None, "the task is dropped");
    }
}
