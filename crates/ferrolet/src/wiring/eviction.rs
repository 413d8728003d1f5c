//! Builds the eviction manager.

use std::sync::Arc;

use allocation::Resizes;
use eviction::{
    EvictionHandle, EvictionMetrics, EvictionParts, TriggerRules, eviction, watch_memory,
};
use model::machine::Cgroups;
use model::ports::incidents::IncidentRecord;
use node::NodeHandle;
use pods::workers::WorkersHandle;
use process::tasks::Tasks;
use stats::Statistics;
use status::store::StatusReader;

use super::statistics::pods_cgroup;
use super::{Ports, Settings};
use crate::collection::GcHandles;
use crate::eviction::{Collectors, DisksOfNode, PodsOfNode, publish_pressure};

/// What the eviction manager needs of other parts of the agent.
pub(super) struct EvictionInputs<'a> {
    pub(super) usage: Option<&'a Statistics>,
    pub(super) statuses: &'a StatusReader,
    pub(super) workers: &'a WorkersHandle,
    pub(super) resizes: &'a Arc<Resizes>,
    pub(super) gc: &'a GcHandles,
    pub(super) incidents: Arc<dyn IncidentRecord>,
    pub(super) node: Option<&'a NodeHandle>,
}

/// Starts the eviction manager; none without statistics.
pub(super) fn start_eviction(
    settings: &Settings,
    ports: &Ports,
    inputs: EvictionInputs<'_>,
    tasks: &mut Tasks,
) -> Option<EvictionHandle> {
    let EvictionInputs { usage, statuses, workers, resizes, gc, incidents, node } = inputs;
    let metrics = EvictionMetrics::new(&ports.metrics).expect("no other part counts evictions");
    let needs = EvictionParts {
        usage: Arc::new(usage?.clone()),
        pods: Arc::new(PodsOfNode {
            statuses: statuses.clone(),
            workers: workers.clone(),
            resizes: Arc::clone(resizes),
        }),
        reclaimer: Arc::new(Collectors {
            containers: gc.containers.clone(),
            images: gc.images.clone(),
        }),
        file_systems: Arc::new(DisksOfNode {
            runtime: ports.runtime.clone(),
            disks: Arc::clone(&ports.disks),
            root_dir: settings.node.root_dir.clone(),
        }),
        events: Arc::clone(&ports.events),
        node_events: Arc::clone(&ports.node_events),
        incidents,
        clock: Arc::clone(&ports.clock),
        metrics,
    };
    let (task, handle) = eviction(needs, settings.eviction.clone());
    if let Some(node) = node.cloned() {
        let pressure = handle.pressure();
        tasks.spawn("pressure conditions", |stop| publish_pressure(pressure, node, stop));
    }
    tasks.spawn("eviction", |stop| task.run(stop));
    let alarm = ports.usage.as_ref().and_then(|usage| usage.alarm.clone());
    if let Some(alarm) = alarm {
        let is_v1 = settings.node.machine.cgroups == Cgroups::V1;
        let rules = TriggerRules {
            pods_cgroup: pods_cgroup(settings, ports),
            stalls: !is_v1,
            crossings: is_v1 && settings.eviction.memcg_notification,
        };
        let manager = handle.clone();
        tasks.spawn("memory pressure", |stop| watch_memory(manager, alarm, rules, stop));
    }
    Some(handle)
}
