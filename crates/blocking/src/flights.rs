//! Shares one thread between all callers of the same work.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::timeout;

/// Work in progress, by key. Clones share it.
///
/// The thread does not depend on its callers: a caller that gives up changes nothing for the others, and the
/// next caller joins the same thread instead of starting another.
#[derive(Debug, Clone)]
pub struct Flights<V> {
    most: usize,
    /// Never held across an await.
    running: Arc<Mutex<Running<V>>>,
}

type Running<V> = BTreeMap<String, watch::Receiver<Option<V>>>;

/// A result that is being computed.
#[derive(Debug)]
pub struct Flight<V>(watch::Receiver<Option<V>>);

impl<V: Clone + Send + Sync + 'static> Flights<V> {
    /// Computes the results of at most `most` keys at a time, each on a thread.
    pub fn new(most: usize) -> Self {
        Self { most, running: Arc::default() }
    }

    /// Joins the thread for a key, or starts it; `None` if too many run for other keys.
    pub fn join(&self, key: &str, work: impl FnOnce() -> V + Send + 'static) -> Option<Flight<V>> {
        let mut running = lock(&self.running);
        if let Some(found) = running.get(key) {
            return Some(Flight(found.clone()));
        }
        if running.len() >= self.most {
            return None;
        }
        let (sender, receiver) = watch::channel(None);
        running.insert(key.to_owned(), receiver.clone());
        let landing = FlightGuard { key: key.to_owned(), running: Arc::clone(&self.running) };
        tokio::task::spawn_blocking(move || {
            let answer = work();
            // The next caller starts new work.
            drop(landing);
            sender.send_replace(Some(answer));
        });
        Some(Flight(receiver))
    }
}

fn lock<V>(running: &Mutex<Running<V>>) -> MutexGuard<'_, Running<V>> {
    running.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Removes a thread when it ends, also after a panic.
struct FlightGuard<V> {
    key: String,
    running: Arc<Mutex<Running<V>>>,
}

impl<V> Drop for FlightGuard<V> {
    fn drop(&mut self) {
        lock(&self.running).remove(&self.key);
    }
}

impl<V: Clone> Flight<V> {
    /// Waits for the result; `None` if it does not arrive in time, or the thread panicked.
    pub async fn wait(mut self, limit: Duration) -> Option<V> {
        let answer = timeout(limit, self.0.wait_for(Option::is_some)).await.ok()?.ok()?;
        answer.clone()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::sync::mpsc;

    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[tokio::test]
    async fn callers_of_one_key_share_a_thread_and_its_result() {
        let (flights, begun) = (Flights::new(2), Arc::new(AtomicUsize::new(0)));
        let (go, gate) = mpsc::channel::<()>();
        let mut gate = Some(gate);
        let mut join = |key: &str| {
            let (begun, gate) = (Arc::clone(&begun), gate.take());
            flights.join(key, move || {
                gate.and_then(|gate| gate.recv().ok());
                begun.fetch_add(1, Ordering::Relaxed)
            })
        };
        let all: Vec<_> = (0..200).map(|_| join("a").unwrap()).collect();
        assert_eq!(join("b").unwrap().wait(60 * SECOND).await, Some(0));
        drop(go);
        for one in all {
            assert_eq!(one.wait(60 * SECOND).await, Some(1));
        }
        assert_eq!(join("a").unwrap().wait(60 * SECOND).await, Some(2), "asked anew");
    }

    #[tokio::test]
    async fn next_caller_joins_the_same_thread_after_a_timeout() {
        let flights = Flights::new(1);
        let (go, gate) = mpsc::channel::<()>();
        let first = flights.join("a", move || gate.recv().is_ok()).unwrap();
        assert_eq!(first.wait(Duration::from_millis(10)).await, None);
        assert!(flights.join("b", || true).is_none(), "there is one thread");
        let second = flights.join("a", || panic!("it is under way")).unwrap();
        go.send(()).unwrap();
        assert_eq!(second.wait(60 * SECOND).await, Some(true));
    }

    #[tokio::test]
    async fn panic_ends_the_wait_and_frees_the_key() {
        let flights = Flights::<u8>::new(1);
        let first = flights.join("a", || panic!("on purpose")).unwrap();
        assert_eq!(first.wait(60 * SECOND).await, None);
        assert_eq!(flights.join("a", || 1).unwrap().wait(60 * SECOND).await, Some(1));
    }
}
