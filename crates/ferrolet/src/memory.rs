//! Gives memory back once what needed it is over.

use std::time::Duration;

use tokio::sync::watch;
use tokio::time::{Instant, sleep, timeout_at};

/// When nothing changed for this long, it is quiet.
const QUIET: Duration = Duration::from_secs(5);
/// On a node that is never quiet, memory is given back all the same.
const LONGEST: Duration = Duration::from_secs(30);
/// From one time to the next at least: it takes some milliseconds.
const REST: Duration = Duration::from_mins(1);

/// Calls `give_back` some time after the start and after pods changed, and once more later, for what came to an end
/// last. A start takes more than what stays of it: the runtime tells first of all that happened while nobody listened.
pub(crate) async fn when_quiet(mut changes: watch::Receiver<u64>, give_back: impl Fn()) {
    loop {
        let end = Instant::now() + LONGEST;
        loop {
            let quiet = (Instant::now() + QUIET).min(end);
            if !matches!(timeout_at(quiet, changes.changed()).await, Ok(Ok(()))) {
                break;
            }
        }
        give_back();
        sleep(REST).await;
        give_back();
        if changes.changed().await.is_err() {
            // Nothing changes any more: the agent ends.
            std::future::pending::<()>().await;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU64, Ordering};

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn memory_is_given_back_when_it_is_quiet_or_has_not_been_for_long() {
        let changes = watch::Sender::new(0);
        let times = Arc::new(AtomicU64::new(0));
        let count = Arc::clone(&times);
        let give_back = move || {
            count.fetch_add(1, Ordering::Relaxed);
        };
        let mut tasks = tokio::task::JoinSet::new();
        tasks.spawn(when_quiet(changes.subscribe(), give_back));
        let given = async |seconds| {
            sleep(Duration::from_secs(seconds)).await;
            times.load(Ordering::Relaxed)
        };
        assert_eq!(given(4).await, 0, "it starts");
        assert_eq!(given(2).await, 1);
        assert_eq!(given(600).await, 2, "and once more, then nothing happened");
        changes.send_modify(|count| *count += 1);
        assert_eq!(given(4).await, 2);
        assert_eq!(given(2).await, 3);
        assert_eq!(given(600).await, 4);
        for _ in 0..29 {
            changes.send_modify(|count| *count += 1);
            assert_eq!(given(1).await, 4);
        }
        changes.send_modify(|count| *count += 1);
        assert_eq!(given(2).await, 5);
    }
}
