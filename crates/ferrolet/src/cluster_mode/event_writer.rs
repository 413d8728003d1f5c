//! Events for the API server.

use std::sync::Arc;

use model::ports::events::{Events, NodeEvent, NodeEvents, PodEvent};
use process::tasks::Tasks;

use crate::wiring::{Ports, Settings};

/// The receivers of events.
#[derive(Debug)]
pub(crate) struct EventSinks {
    pub(crate) pods: Arc<dyn Events>,
    pub(crate) node: Arc<dyn NodeEvents>,
}

/// Starts the writer of events if there is an API server. Returns it in addition to the receivers of the ports.
pub(crate) fn start_event_writer(
    settings: &Settings,
    ports: &Ports,
    tasks: &mut Tasks,
) -> EventSinks {
    let (pods, node) = (Arc::clone(&ports.events), Arc::clone(&ports.node_events));
    let Some(cluster) = &ports.cluster else { return EventSinks { pods, node } };
    let metrics = events::Metrics::new(&ports.metrics).expect("no other part counts events");
    let (to_api, writer) = events::channel(&settings.node_name, Arc::clone(&ports.clock), metrics);
    let server = Arc::clone(&cluster.events);
    tasks.spawn("events", |stop| writer.run(server, stop));
    let second: Arc<dyn Events> = Arc::new(to_api.clone());
    let pods = Arc::new(Tee { first: pods, second });
    let second: Arc<dyn NodeEvents> = Arc::new(to_api);
    let node = Arc::new(Tee { first: node, second });
    EventSinks { pods, node }
}

/// Two receivers of the same events.
#[derive(Debug)]
struct Tee<E: ?Sized> {
    first: Arc<E>,
    second: Arc<E>,
}

impl Events for Tee<dyn Events> {
    fn record(&self, event: PodEvent) {
        self.first.record(event.clone());
        self.second.record(event);
    }
}

impl NodeEvents for Tee<dyn NodeEvents> {
    fn record(&self, event: NodeEvent) {
        self.first.record(event.clone());
        self.second.record(event);
    }
}
