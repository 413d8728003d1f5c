//! Resource usage of the node and its pods.
//!
//! Purpose: measures on demand what `/stats/summary`, `/metrics/resource`, `/metrics/cadvisor` and the eviction of pods
//! need.
//!
//! ```text
//!  request ──> shared measurement ──> cgroups, runtime, file systems, network ──> decide: summary, pages
//!               one for all requests            │
//!               within a second          rates: an earlier measurement
//!
//!  volumes ──> walks in the background ──> their last usage
//! ```
//!
//! Inputs: the usage ports, the writable layers that the runtime reports, and the observed pods ([`ObservedPods`]).
//! Outputs: [`Statistics`], which implements [`UsageSource`](model::ports::usage::UsageSource).
//!
//! Invariants:
//! - nothing is measured without a request, except volumes;
//! - requests that come during a measurement share the next one;
//! - the usage of the node alone depends neither on the number of pods nor on a runtime that hangs;
//! - a value that could not be measured is absent.
#![warn(missing_docs)]

pub mod decide;
mod measure;
mod shared;
mod source;
mod volume_metrics;
mod volume_walks;

pub use source::{ObservedPods, Statistics, StatisticsParts, StatisticsSettings, StatisticsTask};
pub use volume_metrics::VolumeMetrics;
pub use volume_walks::{
    MeasuredBy, PodToWalk, VolumeToMeasure, VolumeUsage, VolumeWalks, VolumesOfPods,
};
