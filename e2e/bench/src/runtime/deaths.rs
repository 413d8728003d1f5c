//! Listens to the runtime's events, as an agent may, and does nothing else: nobody can know of a death
//! earlier.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use anyhow::{Context, Result};
use jiff::Timestamp;
use proto::runtime_v1 as cri;
use tokio::task::JoinHandle;

use super::Direct;

/// Deaths that the runtime told of since somebody began to listen.
#[derive(Debug)]
pub struct Deaths {
    /// Written by the task that listens.
    told: Arc<Mutex<BTreeMap<String, Timestamp>>>,
    listening: JoinHandle<()>,
}

impl Direct {
    /// Begins to listen.
    pub fn deaths(&self) -> Result<Deaths> {
        let mut client = self.client.clone();
        let opening = async move { client.get_container_events(cri::GetEventsRequest {}).await };
        let opened = self.handle.block_on(opening).context("listen to the runtime's events")?;
        let (mut events, told) = (opened.into_inner(), Arc::default());
        let listening = self
            .handle
            .spawn(listen(Arc::clone(&told), async move || events.message().await.ok().flatten()));
        Ok(Deaths { told, listening })
    }
}

async fn listen(
    told: Arc<Mutex<BTreeMap<String, Timestamp>>>,
    mut next: impl AsyncFnMut() -> Option<cri::ContainerEventResponse>,
) {
    while let Some(event) = next().await {
        if event.container_event_type() == cri::ContainerEventType::ContainerStoppedEvent {
            let mut told = told.lock().unwrap_or_else(PoisonError::into_inner);
            told.entry(event.container_id).or_insert_with(Timestamp::now);
        }
    }
}

impl Deaths {
    /// When the runtime told that the container had stopped.
    pub fn told(&self, container: &str) -> Option<Timestamp> {
        self.told.lock().unwrap_or_else(PoisonError::into_inner).get(container).copied()
    }
}

impl Drop for Deaths {
    fn drop(&mut self) {
        self.listening.abort();
    }
}
