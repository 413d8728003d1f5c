//! The volume manager: mounts the volumes of pods before their containers start, writes content again when its sources
//! change, and unmounts everything when a pod has ended.
//!
//! ```text
//!  pod synced ──────────┐                                   ┌─> mounter: one operation per volume at a time
//!  object changed ──────┼──> dirty pods ───────> decide ────┤
//!  token grows old ─────┤    (task)        (pod_volumes)    └─> unmounter
//!  pod ended, orphaned ─┘         ^                                    │
//!                                 └──────────── result ────────────────┘ ──> pods that wait
//! ```
//!
//! Inputs: pods that run, the objects that they refer to, claims and persistent volumes, and what is on the host.
//! Outputs: mounts and files of the host, events, and the mounts of containers.
//!
//! Invariants:
//! - a volume is unmounted only after its pod has ended, or if its pod is no longer known to any source;
//! - a volume has one operation at a time; failures back off from 500 ms to 2 min 2 s;
//! - a failed update keeps the old content;
//! - nothing about mounts is stored: the first scan of a pod finds the mounts of an earlier agent.

pub mod decide;
mod ended_volumes;
mod manager;
mod metrics;
mod mounter;
mod process;
mod task;
mod unmounter;

pub use manager::{ManagerParts, UnmountError, VolumeManager};
pub use metrics::Metrics;
pub use mounter::{ClusterTrustBundles, NodeFacts, PodCertificates, PodTokens};
