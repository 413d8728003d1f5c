//! What to do with a pod. Pure.

mod backoff;
mod environment;
mod grace;
mod pod_actions;
mod pull;
#[cfg(test)]
mod test_pods;

pub use backoff::{Backoff, BackoffLimits, Turn};
pub use environment::{ConfigError, environment, expand};
pub use grace::stop_grace;
pub use pod_actions::{
    ContainerKill, ContainerStart, KillPod, PodActions, SandboxPlan, StartReason, pod_actions,
};
pub use podspec::restart::{RestartPolicy, has_finished, restart_policy, should_restart};
pub use pull::{Fetch, fetch, with_default_tag};
