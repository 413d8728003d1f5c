//! Listens to the runtime's events, as an agent may, and does nothing else: nobody can know of a death
//! earlier.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use jiff::Timestamp;
use proto::runtime_v1 as cri;
use proto::runtime_v1::runtime_service_client::RuntimeServiceClient;
use tokio::task::JoinHandle;
use tonic::transport::Channel;

use super::Direct;

/// When containers stopped, by what the runtime told.
type Told = Arc<Mutex<BTreeMap<String, Timestamp>>>;

/// Deaths that the runtime told of since somebody began to listen.
#[derive(Debug)]
pub struct Deaths {
    /// Written by the task that listens.
    told: Told,
    listening: JoinHandle<Result<(), tonic::Status>>,
}

impl Direct {
    /// Begins to listen. containerd answers with the first event, so that nobody can wait for the
    /// beginning.
    pub fn deaths(&self) -> Deaths {
        let told = Told::default();
        let listening = self.handle.spawn(listen(self.patient.clone(), Arc::clone(&told)));
        Deaths { told, listening }
    }
}

async fn listen(
    mut client: RuntimeServiceClient<Channel>,
    told: Told,
) -> Result<(), tonic::Status> {
    let mut events = client.get_container_events(cri::GetEventsRequest {}).await?.into_inner();
    while let Some(event) = events.message().await? {
        if event.container_event_type() == cri::ContainerEventType::ContainerStoppedEvent {
            let mut told = told.lock().unwrap_or_else(PoisonError::into_inner);
            told.entry(event.container_id).or_insert_with(Timestamp::now);
        }
    }
    Ok(())
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
