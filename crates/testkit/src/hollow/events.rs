//! Container events, with the pod status at the time of sending.

use futures_util::StreamExt;
use futures_util::stream::BoxStream;
use model::ids::ObjectId;
use model::ports::runtime::{ContainerEventKind, ContainerFilter};
use proto::runtime_v1 as cri;
use tonic::Status;

use super::{Hollow, to_cri};
use crate::runtime::look::SentEvent;

impl Hollow {
    /// The event stream.
    pub(super) fn events(&self) -> BoxStream<'static, Result<cri::ContainerEventResponse, Status>> {
        let hollow = self.clone();
        let events = self.runtime.listen().map(move |event| match event {
            Ok(event) => Ok(hollow.event(event)),
            Err(code) => Err(Status::new(to_cri::code(code), "the stream was ended")),
        });
        events.boxed()
    }

    fn event(&self, event: SentEvent) -> cri::ContainerEventResponse {
        let id = &event.sandbox.id;
        let of_sandbox =
            ContainerFilter { sandbox_id: Some(id.clone()), ..ContainerFilter::default() };
        self.runtime.look(|look| {
            let sandbox = match look.sandbox(id) {
                Some(record) => to_cri::sandbox_status(record, self.kept.runtime_handler(id)),
                None => to_cri::gone_sandbox_status(&event.sandbox),
            };
            let containers = look.containers(&of_sandbox).map(|record| {
                let kept = self.kept.container(id, &record.id);
                to_cri::container_status(record, look.status(record), kept.as_deref())
            });
            cri::ContainerEventResponse {
                container_id: match event.event.object {
                    ObjectId::Container(id) => id.to_string(),
                    ObjectId::Sandbox(id) => id.to_string(),
                },
                container_event_type: kind(event.event.kind).into(),
                created_at: to_cri::nanoseconds(look.now),
                pod_sandbox_status: Some(sandbox),
                containers_statuses: containers.collect(),
            }
        })
    }
}

fn kind(kind: ContainerEventKind) -> cri::ContainerEventType {
    match kind {
        ContainerEventKind::Created => cri::ContainerEventType::ContainerCreatedEvent,
        ContainerEventKind::Started => cri::ContainerEventType::ContainerStartedEvent,
        ContainerEventKind::Stopped => cri::ContainerEventType::ContainerStoppedEvent,
        ContainerEventKind::Deleted => cri::ContainerEventType::ContainerDeletedEvent,
    }
}
