//! Listens to the runtime's events, as an agent may, and does nothing else: no agent can notice a death earlier.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use jiff::Timestamp;
use proto::runtime_v1 as cri;
use proto::runtime_v1::runtime_service_client::RuntimeServiceClient;
use tokio::task::JoinHandle;
use tonic::transport::Channel;

use super::Direct;

/// When the runtime's stop event of each container arrived.
type StopTimes = Arc<Mutex<BTreeMap<String, Timestamp>>>;

/// Deaths that the runtime reported since the listener started.
#[derive(Debug)]
pub struct Deaths {
    /// Written by the task that listens.
    stop_times: StopTimes,
    listening: JoinHandle<Result<(), tonic::Status>>,
}

impl Direct {
    /// Starts listening. containerd responds only with the first event, so a caller cannot wait for the start.
    pub fn deaths(&self) -> Deaths {
        let stop_times = StopTimes::default();
        let listening = self.handle.spawn(listen(self.patient.clone(), Arc::clone(&stop_times)));
        Deaths { stop_times, listening }
    }
}

async fn listen(
    mut client: RuntimeServiceClient<Channel>,
    stop_times: StopTimes,
) -> Result<(), tonic::Status> {
    let mut events = client.get_container_events(cri::GetEventsRequest {}).await?.into_inner();
    while let Some(event) = events.message().await? {
        if event.container_event_type() == cri::ContainerEventType::ContainerStoppedEvent {
            let mut stop_times = stop_times.lock().unwrap_or_else(PoisonError::into_inner);
            stop_times.entry(event.container_id).or_insert_with(Timestamp::now);
        }
    }
    Ok(())
}

impl Deaths {
    /// When the runtime reported that the container had stopped.
    pub fn stopped_at(&self, container: &str) -> Option<Timestamp> {
        self.stop_times.lock().unwrap_or_else(PoisonError::into_inner).get(container).copied()
    }
}

impl Drop for Deaths {
    fn drop(&mut self) {
        self.listening.abort();
    }
}
