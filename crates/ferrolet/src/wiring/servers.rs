//! The servers of the agent: its own socket, the `PodResources` API and the node's API.

use std::sync::Arc;

use eviction::EvictionHandle;
use pods::source::api::ApiCopies;
use process::tasks::Tasks;
use server::{EventBook, HealthChecks};
use stats::Statistics;

use super::node_api::{self, AgentParts};
use super::{Local, Ports};
use crate::collection::Collection;
use crate::eviction::EvictionPlans;
use crate::metrics_text::Metrics;
use crate::pod_index::PodIndex;
use crate::pod_resources::PodResourceView;
use crate::records::{JournalView, Records};
use crate::runtime_logs::RuntimeLogs;
use crate::served_pods::ServedPods;
use crate::streams::{StreamInputs, streams};
use crate::version::version;

/// The data that the servers read.
#[derive(Debug)]
pub(super) struct ServerInputs<'a> {
    /// The pods and their statuses.
    pub(super) pods: Arc<ServedPods>,
    /// The pods that count as the node's.
    pub(super) index: Arc<PodIndex>,
    /// The last events.
    pub(super) events: Arc<EventBook>,
    /// The observed statuses of pods.
    pub(super) cache: pleg::cache::Reader,
    /// The pods as the API server has them, where there is one.
    pub(super) copies: Option<ApiCopies>,
    /// The checks that the agent's own socket shows.
    pub(super) health: Arc<dyn HealthChecks>,
    /// The checks of the agent itself, which the node's API shows.
    pub(super) agent_health: &'a Arc<dyn HealthChecks>,
    /// The journal.
    pub(super) records: &'a Records,
    /// Garbage collection.
    pub(super) collector: &'a Arc<Collection>,
    /// The eviction manager.
    pub(super) eviction: Option<EvictionHandle>,
    /// Resource usage.
    pub(super) statistics: Option<Statistics>,
}

/// Starts the servers, if the agent has any.
pub(super) fn start_servers(
    local: Option<Local>,
    ports: Ports,
    inputs: ServerInputs<'_>,
    tasks: &mut Tasks,
) {
    let Some(mut local) = local else { return };
    let streams = streams(StreamInputs {
        runtime: ports.runtime.clone(),
        streaming: Arc::clone(&local.streaming),
        pods: Arc::clone(&inputs.pods) as _,
        mirrors: inputs.copies,
        records: inputs.records,
    });
    let shown = AgentParts {
        ports: &ports,
        pods: &inputs.pods,
        cache: &inputs.cache,
        health: inputs.agent_health,
        streams: &streams,
        statistics: inputs.statistics.as_ref(),
    };
    node_api::start(&mut local, &shown, tasks);
    let Local { listener, verbosity, pod_resources, .. } = local;
    let reported = PodResourceView::new(inputs.pods.reader().clone(), inputs.index);
    let lister = pod_resources.lister(reported, &ports);
    tasks.spawn("pod resources", |stop| pod_resources.serve(lister, stop));
    let served = server::Parts {
        pods: inputs.pods,
        events: inputs.events,
        log_paths: Arc::new(RuntimeLogs(inputs.cache)),
        logs: ports.logs,
        health: inputs.health,
        metrics: Arc::new(Metrics(ports.metrics)),
        removals: Arc::new(JournalView::new(inputs.records)),
        collector: Arc::clone(inputs.collector) as _,
        eviction: Arc::new(EvictionPlans {
            manager: inputs.eviction,
            clock: Arc::clone(&ports.clock),
        }),
        streams: Some(streams),
        verbosity,
        clock: ports.clock,
        version: version(),
    };
    tasks.spawn("server", |stop| server::serve(Arc::new(served), listener, stop));
}
