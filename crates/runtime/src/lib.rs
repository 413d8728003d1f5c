//! Converges the container runtime with the spec of a pod.
//!
//! Inputs: a pod, and its observed status. Outputs: calls to the runtime port, events, the progress
//! for the caller, and the termination messages of containers.
//!
//! ```text
//!  SyncContext ──> decide::pod_actions ──> PodActions
//!  PodRuntime::apply ──> PodKiller ──> HookRunner       PodRuntime::start ──> ContainerStarter ──> ImageProvider
//!                    ├─> ContainerRemover                                                     ├──> ContainerCreator
//!                    ├─> PodSetup::prepare ──> PodCgroups                                     ├──> HookRunner
//!                    ├─> PodResizer ──> PodCgroups                                            └──> PodKiller
//!                    └─> Sandboxes ──> Applied::SandboxReady
//! ```
//!
//! Invariants:
//! - all actions are computed from one observation; only the pod's cgroup comes first: it is created, and processes
//!   outside of it are killed;
//! - an instance that matches the spec is kept: a restart of the agent changes nothing;
//! - a failure of one container does not prevent the others from starting, unless they depend on it;
//! - a container or sandbox that the runtime creates after its call was cancelled is used or removed.

mod actuated;
mod api;
mod cgroups;
mod container_config;
mod container_files;
mod container_volumes;
mod create;
pub mod decide;
mod error;
#[cfg(test)]
mod error_tests;
mod hooks;
mod image;
mod image_volumes;
mod killed_instances;
mod killer;
mod layout;
mod metrics;
mod parts;
mod pod_directories;
mod pod_runtime;
mod remover;
mod report;
mod resizer;
mod sandbox_config;
mod sandboxes;
mod setup;
mod start_context;
mod start_watch;
mod starter;
mod termination_message;
mod user_namespaces;
mod volumes;

pub use api::ApiParts;
pub use cgroups::{NothingRunsRule, PodCgroupError, PodCgroups, make_class_cgroups};
pub use error::{
    ReleaseError, RemoveError, ResizeError, SandboxConfigError, StartError, SyncError,
};
pub use hooks::HookFailure;
pub use killer::PodKiller;
pub use metrics::Metrics;
pub use model::log_layout::LogLayout;
pub use parts::PodRuntimeParts;
pub use pod_directories::PodDirectories;
pub use pod_runtime::{Applied, PendingStart, PodRuntime};
pub use resizer::MissingResources;
pub use termination_message::TerminationMessages;
pub use user_namespaces::UserNamespaceError;
pub use volumes::{NoVolumes, PodVolumes};
