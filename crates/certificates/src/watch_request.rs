//! Follows one signing request.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use model::ports::cluster::{Change, Sink};
use model::ports::signing::SigningRequests;
use model::signing::{SigningRequestId, SigningRequestRecord, SigningState};
use tokio::sync::watch;

/// A watch of one request. Dropping it ends the watch.
pub(crate) struct RequestWatch {
    pub(crate) id: SigningRequestId,
    follow: Pin<Box<dyn Future<Output = ()> + Send>>,
    states: watch::Receiver<SigningState>,
}

impl std::fmt::Debug for RequestWatch {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RequestWatch").field("id", &self.id).finish_non_exhaustive()
    }
}

impl RequestWatch {
    pub(crate) fn new(server: Arc<dyn SigningRequests>, id: SigningRequestId) -> Self {
        let (sender, states) = watch::channel(SigningState::Pending);
        let sink = StateSink { id: id.clone(), states: sender, is_listed: AtomicBool::new(false) };
        let name = id.name.clone();
        let follow = Box::pin(async move { server.follow_signing_request(&name, &sink).await });
        Self { id, follow, states }
    }

    /// Waits for another state. Nothing is lost when the wait is cancelled.
    pub(crate) async fn next(&mut self) -> SigningState {
        // Biased: a received state comes first, and following never ends.
        tokio::select! {
            biased;
            Ok(()) = self.states.changed() => self.states.borrow_and_update().clone(),
            () = &mut self.follow => std::future::pending().await,
        }
    }
}

/// Takes the changes of one request.
#[derive(Debug)]
struct StateSink {
    id: SigningRequestId,
    states: watch::Sender<SigningState>,
    /// Whether the current list has the request.
    is_listed: AtomicBool,
}

impl StateSink {
    fn set(&self, state: SigningState) {
        self.states.send_if_modified(|known| {
            let is_new = *known != state;
            *known = state;
            is_new
        });
    }
}

impl Sink<SigningRequestRecord, String> for StateSink {
    fn receive(&self, change: Change<SigningRequestRecord, String>) {
        match change {
            Change::Restarted => self.is_listed.store(false, Ordering::Relaxed),
            Change::Applied(request) if request.id.name == self.id.name => {
                self.is_listed.store(true, Ordering::Relaxed);
                // Another request of the same name has another key.
                let is_same = request.id.uid == self.id.uid;
                self.set(if is_same { request.state } else { SigningState::Deleted });
            }
            Change::Gone(name) if name == self.id.name => self.set(SigningState::Deleted),
            Change::Complete if !self.is_listed.load(Ordering::Relaxed) => {
                self.set(SigningState::Deleted);
            }
            Change::Unread(_) => self.is_listed.store(true, Ordering::Relaxed),
            Change::Applied(_) | Change::Gone(_) | Change::Complete => {}
        }
    }
}
