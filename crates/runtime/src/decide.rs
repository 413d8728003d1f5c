//! What to do with a pod. Pure.
//!
//! ```text
//!  situation ──> sandbox_plan ──> new sandbox: what starts in it
//!                    └─ usable ──> init_containers (sidecars) ──> regular_containers ──> remains
//! ```

mod actions;
mod backoff;
mod environment;
mod ephemeral_containers;
mod grace;
mod hook;
mod init_containers;
mod late_winner;
mod orphans;
mod pod_actions;
mod probe_results;
mod pull;
mod reasons;
mod regular_containers;
mod remains;
mod restart_all;
mod sandbox_plan;
mod sidecars;
mod termination_message;
mod termination_order;
#[cfg(test)]
mod test_pods;

pub use actions::{
    ContainerKill, ContainerRemoval, ContainerReset, ContainerStart, PodActions, Role, SandboxPlan,
};
pub use backoff::{Backoff, BackoffLimits, Turn};
pub use environment::{ConfigError, environment, expand};
pub use grace::{GraceBudget, LEAST_GRACE, stop_grace};
pub use hook::{Hook, HookError, HttpHook, hook, needs_address};
pub use late_winner::{TakenContainer, TakenSandbox, startable, taken_container, taken_sandbox};
pub use orphans::orphaned_directories;
pub use pod_actions::{Situation, pod_actions};
pub use podspec::restart::{RestartPolicy, has_finished, restart_policy, should_restart};
pub use probe_results::{ProbeResult, ProbeResults};
pub use pull::{Fetch, fetch, with_default_tag};
pub use reasons::{KillPod, KillReason, StartReason};
pub use termination_message::{
    MOST_LINES, MOST_OF_FILE, MOST_OF_LOG, MessageSource, message_source, with_last_words,
};
pub use termination_order::termination_order;
