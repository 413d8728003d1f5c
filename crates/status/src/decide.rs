//! Computes the status of a pod. Pure.

mod addresses;
mod conditions;
#[cfg(test)]
mod conditions_tests;
#[cfg(test)]
mod container_facts_tests;
mod container_status;
#[cfg(test)]
mod container_status_tests;
mod container_statuses;
mod deletion;
mod first_steps;
mod human_duration;
mod input;
mod merge;
mod mounts;
mod normalize;
mod outcome;
mod overrides;
mod patch;
mod phase;
#[cfg(test)]
mod phase_tests;
mod pod_status;
#[cfg(test)]
mod pod_status_tests;
mod probe_update;
#[cfg(test)]
mod property_tests;
mod queue;
mod readiness;
mod reported;
mod restart_all;
mod saved;
mod starts;
mod summary;
#[cfg(test)]
mod summary_tests;
mod terminated;
mod terminations;
#[cfg(test)]
pub(crate) mod test_pods;
mod transition;
mod write;
mod written;

pub use conditions::{conditions, is_restarting_all};
pub use container_statuses::{Containers, container_statuses};
pub use deletion::deletion_detail;
pub(crate) use first_steps::{FirstSteps, first_steps};
pub use human_duration::human_duration;
pub use input::{NodeFacts, Resizing, StatusInput, Waiting};
pub use outcome::outcome;
pub use overrides::{ResizeState, StatusOverrides};
pub use phase::{Phase, PhaseContext, held_back, phase};
pub use pod_status::pod_status;
pub(crate) use probe_update::with_probes;
pub use queue::{Queue, WriteOutcome, changes_readiness};
pub use saved::SavedPods;
pub(crate) use saved::{base as saved_base, restored};
pub use starts::{Pull, StartDuration, StartTracker};
pub use summary::{Age, PodSummary, Restarts, summary};
pub use terminated::terminated;
pub(crate) use terminations::{Termination, terminations};
pub(crate) use transition::illegal_transition;
pub use write::{Write, WriteInput, needs_reconcile, write};
pub use written::{LastWrite, RequestedDeletion, Response, is_deleted, is_written, newest};
