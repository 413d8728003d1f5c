//! The pods of the node: where they come from, and one worker for each.
//!
//! Inputs: complete sets of pods from sources; requests to look at, change or end a pod. Outputs:
//! calls to a [`PodSyncer`](workers::PodSyncer), one at a time for each pod; mirrors of static pods in the
//! API server.
//!
//! Invariants:
//! - a pod only moves forward: syncing, terminating, terminated, finished;
//! - a worker acts on a status observed after its previous action;
//! - two static pods of one name never run at the same time;
//! - a panic in a pod's job is that pod's failure.

pub mod decide;
mod metrics;
pub mod mirrors;
pub mod source;
mod states;
pub mod workers;

pub use metrics::Metrics;
pub use states::WorkerStates;
