//! The running calls of a connection, and its idle time.

use std::time::Duration;

use tokio::sync::watch;
use tokio::time::{sleep, timeout};

/// Counts the running calls of a connection. Clones share the count.
#[derive(Debug, Clone, Default)]
pub(crate) struct Calls(watch::Sender<usize>);

/// A running call, until this is dropped.
#[derive(Debug)]
pub(crate) struct Running(watch::Sender<usize>);

impl Calls {
    pub(crate) fn begin(&self) -> Running {
        self.0.send_modify(|count| *count += 1);
        Running(self.0.clone())
    }

    /// Waits until no call has run for `limit`.
    pub(crate) fn idle(&self, limit: Duration) -> impl Future<Output = ()> + Send + use<> {
        let mut count = self.0.subscribe();
        async move {
            loop {
                // The sender lives as long as the connection.
                if count.wait_for(|count| *count == 0).await.is_err() {
                    return sleep(limit).await;
                }
                let Ok(Ok(())) = timeout(limit, count.changed()).await else { return };
            }
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.0.send_modify(|count| *count -= 1);
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::Instant;

    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[tokio::test(start_paused = true)]
    async fn connection_is_idle_once_no_call_has_run_for_the_limit() {
        let (calls, begun) = (Calls::default(), Instant::now());
        let work = async {
            sleep(SECOND * 60).await;
            let running = calls.begin();
            // Longer than the limit.
            sleep(SECOND * 200).await;
            drop(running);
            sleep(SECOND * 50).await;
            drop(calls.begin());
            std::future::pending::<()>().await;
        };
        tokio::select! {
            () = work => unreachable!("it never ends"),
            () = calls.idle(SECOND * 90) => {}
        }
        assert_eq!(begun.elapsed(), SECOND * (60 + 200 + 50 + 90));
    }
}
