//! Returns memory to the kernel when a program is idle.

use std::time::Duration;

use tokio::sync::watch;
use tokio::time::{Instant, sleep, timeout_at};

/// Without a change for this long, the program is idle.
const QUIET: Duration = Duration::from_secs(5);
/// A program that is never idle returns memory after this long.
const LONGEST: Duration = Duration::from_secs(30);
/// The shortest time between two calls, which take some milliseconds each.
const REST: Duration = Duration::from_mins(1);

/// Calls `give_back` some time after the start and after each change, and once more a minute later. A start allocates
/// much that is freed soon, such as the first lists of the runtime. Never returns.
pub async fn when_quiet(mut changes: watch::Receiver<u64>, give_back: impl Fn()) {
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
            // The program ends.
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
    async fn memory_is_returned_when_idle_and_at_least_every_30_seconds_of_changes() {
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
        assert_eq!(given(4).await, 0, "not idle yet");
        assert_eq!(given(2).await, 1);
        assert_eq!(given(600).await, 2, "once more, then no change");
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
