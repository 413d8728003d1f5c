//! The pods of the node: their sources, and one worker for each pod.
//!
//! Inputs: complete sets of pods from sources; requests to sync, update or terminate a pod. Outputs:
//! calls to a [`PodSyncer`](workers::PodSyncer), one at a time for each pod; mirror pods in the
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
