//! A flag that any number of calls can wait for.

use std::sync::atomic::{AtomicBool, Ordering};

use tokio::sync::Notify;

/// The flag. Waiters are woken in the order of their calls: a watch channel wakes its receivers in a random
/// order, and one seed would yield many histories.
#[derive(Debug, Default)]
pub(crate) struct Flag {
    is_up: AtomicBool,
    changed: Notify,
}

impl Flag {
    /// Whether it is set.
    pub(crate) fn is_up(&self) -> bool {
        self.is_up.load(Ordering::Acquire)
    }

    /// Sets or clears it.
    pub(crate) fn set(&self, is_up: bool) {
        self.is_up.store(is_up, Ordering::Release);
        self.changed.notify_waiters();
    }

    /// Waits until it is set.
    pub(crate) async fn up(&self) {
        loop {
            let mut changed = std::pin::pin!(self.changed.notified());
            // Registered before the check, so that no change is missed.
            changed.as_mut().enable();
            if self.is_up() {
                return;
            }
            changed.await;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use super::*;

    #[tokio::test]
    async fn waiters_are_woken_in_their_order() {
        let (flag, woken) = (Arc::new(Flag::default()), Arc::new(Mutex::new(Vec::new())));
        let mut waiting = tokio::task::JoinSet::new();
        for number in 0..50 {
            let (flag, woken) = (Arc::clone(&flag), Arc::clone(&woken));
            waiting.spawn(async move {
                flag.up().await;
                woken.lock().unwrap().push(number);
            });
        }
        tokio::task::yield_now().await;
        flag.set(false);
        tokio::task::yield_now().await;
        assert!(woken.lock().unwrap().is_empty());
        flag.set(true);
        waiting.join_all().await;
        assert!(woken.lock().unwrap().is_sorted(), "{woken:?}");
        flag.up().await;
    }
}
