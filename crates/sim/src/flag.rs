//! Something that is so or not, which any number of calls wait for.

use std::sync::atomic::{AtomicBool, Ordering};

use tokio::sync::Notify;

/// Whether it is so. Who waits hears of it in the order in which they came: a watch channel tells its receivers in an
/// order of chance, and one seed would be many histories.
#[derive(Debug, Default)]
pub(crate) struct Flag {
    is_up: AtomicBool,
    changed: Notify,
}

impl Flag {
    /// Whether it is so now.
    pub(crate) fn is_up(&self) -> bool {
        self.is_up.load(Ordering::Acquire)
    }

    /// It is so from now on, or is not.
    pub(crate) fn set(&self, is_up: bool) {
        self.is_up.store(is_up, Ordering::Release);
        self.changed.notify_waiters();
    }

    /// Waits until it is so.
    pub(crate) async fn up(&self) {
        loop {
            let mut changed = std::pin::pin!(self.changed.notified());
            // Before the look: what changes after that is heard.
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
