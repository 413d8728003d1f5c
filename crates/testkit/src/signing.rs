//! Signing requests in memory.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;
use model::ports::cluster::{ApiError, Change, Sink};
use model::ports::signing::{ReloadIdentity, SigningRequests};
use model::signing::{SigningRequest, SigningRequestId, SigningRequestRecord, SigningState};
use tokio::sync::watch;

#[derive(Debug, Default)]
struct State {
    requests: BTreeMap<String, SigningRequestRecord>,
    /// All requests so far, in order.
    created: Vec<SigningRequest>,
    /// The results of the next calls that create a request.
    failures: Vec<ApiError>,
    reloads: usize,
}

/// The signing requests of an API server. Clones share them.
#[derive(Debug, Clone)]
pub struct MemorySigningRequests {
    /// Never held across an await.
    state: Arc<Mutex<State>>,
    changes: watch::Sender<u64>,
}

impl Default for MemorySigningRequests {
    fn default() -> Self {
        Self { state: Arc::default(), changes: watch::Sender::new(0) }
    }
}

impl MemorySigningRequests {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn change<R>(&self, change: impl FnOnce(&mut State) -> R) -> R {
        let result = change(&mut self.state());
        self.changes.send_modify(|count| *count += 1);
        result
    }

    /// All requests that were created, also deleted ones.
    pub fn created(&self) -> Vec<SigningRequest> {
        self.state().created.clone()
    }

    /// The stored requests that are not decided.
    pub fn pending(&self) -> Vec<SigningRequestRecord> {
        let state = self.state();
        let pending = state.requests.values().filter(|one| one.state == SigningState::Pending);
        pending.cloned().collect()
    }

    /// Sets the state of a request.
    pub fn decide(&self, name: &str, decision: SigningState) {
        self.change(|state| {
            let request = state.requests.get_mut(name);
            request.unwrap_or_else(|| panic!("no request {name}")).state = decision;
        });
    }

    /// Deletes a request.
    pub fn delete(&self, name: &str) {
        self.change(|state| state.requests.remove(name));
    }

    /// The next call that creates a request fails.
    pub fn fail_next(&self, error: ApiError) {
        self.state().failures.insert(0, error);
    }

    /// How often the client certificate was reloaded.
    pub fn reloads(&self) -> usize {
        self.state().reloads
    }

    /// Waits for a request that is not decided.
    pub async fn wait_pending(&self) -> SigningRequestRecord {
        let mut changes = self.changes.subscribe();
        loop {
            if let Some(request) = self.pending().pop() {
                return request;
            }
            changes.changed().await.expect("the sender is here");
        }
    }

    /// Waits for a change of the requests.
    pub async fn changed(&self) {
        let changed = self.changes.subscribe().changed().await;
        changed.expect("the sender is here");
    }
}

#[async_trait]
impl SigningRequests for MemorySigningRequests {
    async fn create_signing_request(
        &self,
        request: &SigningRequest,
    ) -> Result<SigningRequestId, ApiError> {
        if let Some(error) = self.state().failures.pop() {
            return Err(error);
        }
        self.change(|state| {
            let number = state.created.len();
            let name = request.name.clone().unwrap_or_else(|| format!("csr-{number}"));
            if state.requests.contains_key(&name) {
                return Err(ApiError::Conflict(format!("{name} exists")));
            }
            let id = SigningRequestId { name: name.clone(), uid: format!("u{number}") };
            let record = SigningRequestRecord {
                id: id.clone(),
                signer: request.signer.to_owned(),
                request: request.request.clone(),
                state: SigningState::Pending,
            };
            state.created.push(request.clone());
            state.requests.insert(name, record);
            Ok(id)
        })
    }

    async fn signing_request(&self, name: &str) -> Result<Option<SigningRequestRecord>, ApiError> {
        Ok(self.state().requests.get(name).cloned())
    }

    async fn follow_signing_request(
        &self,
        name: &str,
        sink: &dyn Sink<SigningRequestRecord, String>,
    ) {
        let mut changes = self.changes.subscribe();
        let mut sent: Option<SigningRequestRecord> = None;
        sink.receive(Change::Restarted);
        let mut is_listed = false;
        loop {
            let stored = self.state().requests.get(name).cloned();
            if stored != sent {
                sink.receive(match &stored {
                    Some(stored) => Change::Applied(stored.clone()),
                    None => Change::Gone(name.to_owned()),
                });
                sent = stored;
            }
            if !std::mem::replace(&mut is_listed, true) {
                sink.receive(Change::Complete);
            }
            if changes.changed().await.is_err() {
                std::future::pending::<()>().await;
            }
        }
    }
}

impl ReloadIdentity for MemorySigningRequests {
    fn reload_identity(&self) {
        self.change(|state| state.reloads += 1);
    }
}
