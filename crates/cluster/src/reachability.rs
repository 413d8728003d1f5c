//! Whether the server is reachable. Feeds that wait for a retry are woken by any successful call; otherwise
//! each feed would find out by itself, up to a minute after the server is back.

use std::time::Duration;

use tokio::sync::watch;
use tokio::time::sleep;

/// Whether calls succeed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct State {
    is_away: bool,
    /// How often the server became reachable again.
    returns: u64,
}

/// Records for every call whether the server answered.
#[derive(Debug, Default)]
pub(crate) struct Reachability(watch::Sender<State>);

impl Reachability {
    /// Records a call.
    pub(crate) fn note(&self, answered: bool) {
        self.0.send_if_modified(|state| {
            let is_back = state.is_away && answered;
            state.is_away = !answered;
            state.returns += u64::from(is_back);
            is_back
        });
    }

    /// Starts observing before an attempt that may have to wait.
    pub(crate) fn follow(&self) -> RecoveryWaiter {
        RecoveryWaiter(self.0.subscribe())
    }
}

/// Detects a recovery since its creation.
#[derive(Debug)]
pub(crate) struct RecoveryWaiter(watch::Receiver<State>);

impl RecoveryWaiter {
    /// Waits for `long`, or only for `short` if the server is back. Returns whether it is.
    pub(crate) async fn wait(mut self, long: Duration, short: Duration) -> bool {
        let is_back = async {
            sleep(short).await;
            if self.0.changed().await.is_err() {
                // All senders are dropped.
                std::future::pending::<()>().await;
            }
        };
        // Biased: both end the wait, and the first has more information.
        tokio::select! {
            biased;
            () = is_back => true,
            () = sleep(long) => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::Instant;

    use super::*;

    const LONG: Duration = Duration::from_secs(30);
    const SHORT: Duration = Duration::from_secs(1);

    // behaviour: API-30
    #[tokio::test(start_paused = true)]
    async fn waiters_wake_when_the_server_is_reachable_again() {
        let reach = Reachability::default();
        let rows: [(&str, &[bool], bool); 5] = [
            ("no calls", &[], false),
            ("it was never away", &[true, true], false),
            ("it is still away", &[false, false], false),
            ("it is back", &[false, true], true),
            ("it is back, and away again", &[true, false, true, false], true),
        ];
        for (what, calls, expected) in rows {
            let (back, begun) = (reach.follow(), Instant::now());
            for answered in calls {
                reach.note(*answered);
            }
            assert_eq!(back.wait(LONG, SHORT).await, expected, "{what}");
            let took = if expected { SHORT } else { LONG };
            assert_eq!(begun.elapsed().as_secs(), took.as_secs(), "{what}");
            reach.note(true);
        }
    }
}
