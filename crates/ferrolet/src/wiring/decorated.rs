//! The ports as every part of the agent uses them.

use std::sync::Arc;

use model::ports::events::Events;
use process::tasks::Tasks;
use server::EventBook;

use super::{Ports, Settings};
use crate::cluster_mode::{StartTimer, start_event_writer};
use crate::records::Records;

/// The decorated ports, and the handles of their decorators. They are complete: no part replaces a port.
#[derive(Debug)]
pub(super) struct DecoratedPorts {
    /// The ports. Events pass the start timer, if there is one, and the event book; removals are recorded.
    pub(super) ports: Ports,
    /// The last events, which also go to the log and the API server.
    pub(super) event_book: Arc<EventBook>,
    /// Measures how long pods take to start; `None` without a cluster.
    pub(super) start_timer: Option<StartTimer>,
    /// The journal of removals.
    pub(super) records: Records,
}

impl DecoratedPorts {
    /// Decorates the ports of the host.
    pub(super) fn new(settings: &Settings, ports: Ports, tasks: &mut Tasks) -> Self {
        let sinks = start_event_writer(settings, &ports, tasks);
        let book = EventBook::new(Arc::clone(&ports.clock), settings.events, sinks.pods);
        let event_book = Arc::new(book.of_node(&settings.node_name, sinks.node));
        let start_timer = StartTimer::new(&ports);
        let events: Arc<dyn Events> = match &start_timer {
            Some(timer) => timer.observe(Arc::clone(&event_book) as _),
            None => Arc::clone(&event_book) as _,
        };
        let records = Records::new(settings, &ports);
        let node_events = Arc::clone(&event_book) as _;
        let ports = records.recorded(Ports { events, node_events, ..ports });
        Self { ports, event_book, start_timer, records }
    }
}
