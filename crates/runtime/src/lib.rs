//! Makes the container runtime match a pod's specification.
//!
//! Inputs: a pod, and its status as observed. Outputs: calls to the runtime port, events, and for
//! the caller what is left to do and when; besides, the last words of containers that ended.
//!
//! ```text
//!  pod + status ──> decide::pod_actions ──> kill (hooks, order, grace) ──> remove ──> sandbox ──> containers
//!                                               (back-off, image, create or adopt, start, hook)
//! ```
//!
//! Invariants:
//! - what to do is decided on one observation; only the pod's cgroup comes first: it is created, and what runs outside of it killed;
//! - an instance that runs as specified is kept: starting the agent again changes nothing;
//! - a failure of one container does not keep the others from starting, unless they rely on it;
//! - what the runtime finishes after its call was given up is used or removed, and never in the way.

mod act;
mod actuated;
mod api;
mod cgroups;
mod container;
mod create;
mod create_sandbox;
pub mod decide;
mod error;
#[cfg(test)]
mod error_tests;
mod hooks;
mod image;
mod kill;
mod last_words;
mod layout;
mod lives;
mod metrics;
mod pod_directories;
mod pod_setup;
mod remove;
mod report;
mod resize;
mod sandbox;
mod start;
mod user_namespaces;

pub use act::{PodRuntime, RuntimeParts};
pub use api::ApiParts;
pub use cgroups::{PodCgroupError, PodCgroups, WhyRunsNothing, make_class_cgroups};
pub use error::{
    ReleaseError, RemoveError, ResizeError, SandboxConfigError, StartError, SyncError,
};
pub use hooks::HookFailure;
pub use last_words::TerminationMessages;
pub use metrics::Metrics;
pub use model::log_layout::LogLayout;
pub use pod_directories::PodDirectories;
pub use resize::Lacking;
pub use user_namespaces::UserNamespaceError;
