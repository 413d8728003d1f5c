//! Events for everybody in the cluster.

use std::sync::Arc;

use model::ports::events::{Events, NodeEvent, NodeEvents, PodEvent};
use process::tasks::Tasks;

use crate::wiring::{Ports, Settings};

/// Starts to tell events to the API server too, where there is one.
pub(crate) fn tell_events(settings: &Settings, ports: &mut Ports, tasks: &mut Tasks) {
    let Some(cluster) = &ports.cluster else { return };
    let metrics = events::Metrics::new(&ports.metrics).expect("nobody else counts events");
    let (to_api, writer) = events::channel(&settings.node_name, Arc::clone(&ports.clock), metrics);
    let server = Arc::clone(&cluster.events);
    tasks.spawn("events", |stop| writer.run(server, stop));
    let (first, second) = (Arc::clone(&ports.events), to_api.clone());
    ports.events = Arc::new(Both { first, second: Arc::new(second) as Arc<dyn Events> });
    let (first, second) = (Arc::clone(&ports.node_events), to_api);
    ports.node_events = Arc::new(Both { first, second: Arc::new(second) as Arc<dyn NodeEvents> });
}

/// Two who take events.
#[derive(Debug)]
struct Both<E: ?Sized> {
    first: Arc<E>,
    second: Arc<E>,
}

impl Events for Both<dyn Events> {
    fn record(&self, event: PodEvent) {
        self.first.record(event.clone());
        self.second.record(event);
    }
}

impl NodeEvents for Both<dyn NodeEvents> {
    fn record(&self, event: NodeEvent) {
        self.first.record(event.clone());
        self.second.record(event);
    }
}
