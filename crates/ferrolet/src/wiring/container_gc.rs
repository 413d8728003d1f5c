//! Garbage collection of containers, and of cgroups of pods that are gone.

use std::sync::Arc;

use gc::containers::{ContainerGcParts, Deletor, Removals, background_stops, container_gc};
use model::panics::PanicGuard;
use process::tasks::Tasks;
use runtime::PodRuntime;

use super::{Ports, Settings, log_layout};
use crate::cgroup_sweep::CgroupSweep;
use crate::gc_notifier::{GcNotifier, StopThroughRuntime};
use crate::pod_index::PodIndex;

/// The parts that container garbage collection needs.
#[derive(Debug, Clone, Copy)]
pub(super) struct ContainerGcInputs<'a> {
    /// The index of the pods whose containers and logs are kept.
    pub(super) index: &'a Arc<PodIndex>,
    /// Stops containers in an unknown state, and has the pod cgroups.
    pub(super) pod_runtime: &'a PodRuntime,
    pub(super) panics: &'a PanicGuard,
}

/// Starts container garbage collection; returns the handle through which the sync loop notifies it.
pub(super) fn start_container_gc(
    settings: &Settings,
    ports: &Ports,
    inputs: ContainerGcInputs<'_>,
    tasks: &mut Tasks,
) -> GcNotifier {
    let ContainerGcInputs { index, pod_runtime, panics } = inputs;
    let killer = Arc::new(StopThroughRuntime(pod_runtime.killer()));
    let (stops, stop) = background_stops(killer, panics.clone());
    tasks.spawn("stops of containers in an unknown state", |stop| stops.run(stop));
    let gc = ContainerGcParts {
        runtime: ports.runtime.clone(),
        files: Arc::clone(&ports.files),
        clock: Arc::clone(&ports.clock),
        pods: Arc::clone(index) as _,
        stop,
        events: Arc::clone(&ports.node_events),
        logs: log_layout(settings),
        policy: settings.container_gc,
        removals: Removals::default(),
        panics: panics.clone(),
    };
    let (deletor_task, deletor) = Deletor::new(gc.clone());
    let (gc_task, containers) = container_gc(gc);
    tasks.spawn("container deletor", |stop| deletor_task.run(stop));
    tasks.spawn("container garbage collection", |stop| gc_task.run(stop));
    let sweep = CgroupSweep::default();
    if let Some(cgroups) = pod_runtime.cgroups() {
        let (sweep, pods, panics) = (sweep.clone(), Arc::clone(index), panics.clone());
        tasks.spawn("cgroups of pods that are gone", |stop| sweep.run(cgroups, pods, panics, stop));
    }
    let clock = Arc::clone(&ports.clock);
    GcNotifier { index: Arc::clone(index), containers, deletor, clock, cgroups: sweep }
}
