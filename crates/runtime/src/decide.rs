//! Decisions about a pod. Pure.
//!
//! ```text
//!  context ──> runs outside of its cgroup: kill
//!     └──> sandbox_plan ──> new sandbox: what starts in it                                    ──> cgroup_plan
//!              └─ usable ──> init_containers (sidecars) ──> regular_containers ──> old_instances ──┘
//! ```

mod actions;
mod backoff;
mod cgroup_plan;
mod cgroups;
mod config_error;
mod dns;
#[cfg(test)]
mod dns_tests;
mod env_file;
mod environment;
mod environment_objects;
#[cfg(test)]
mod environment_tests;
mod ephemeral_containers;
mod field_ref;
mod go_json;
mod grace;
mod hook;
mod hook_messages;
mod hostname;
mod hosts;
mod init_containers;
mod kill_cause;
pub(crate) mod kill_messages;
mod late_creation;
mod needs;
mod node;
mod old_instances;
mod orphans;
mod pod_actions;
mod ports;
mod probe_results;
mod pull;
mod pull_backoff;
mod pull_error;
mod pull_key;
pub mod pull_messages;
mod pull_queue;
mod pull_rate;
mod pull_reminder;
mod pull_size;
mod reasons;
mod regular_containers;
mod resize;
mod resource_ref;
mod resources;
#[cfg(test)]
mod resources_tests;
mod restart_all;
mod sandbox_plan;
mod security;
#[cfg(test)]
mod security_tests;
mod sidecars;
mod string_limits;
#[cfg(test)]
mod string_limits_tests;
mod sysctls;
mod termination_message;
mod termination_order;
#[cfg(test)]
mod test_pods;
mod user_namespace;
mod volume_mounts;

pub use actions::{
    ContainerKill, ContainerRemoval, ContainerReset, ContainerStart, PodActions, Progress, Role,
    SandboxPlan,
};
pub use backoff::{Backoff, BackoffLimits, Turn};
pub use cgroup_plan::{CgroupFacts, CgroupPlan};
pub use cgroups::{
    CLASSES, PodCgroupSettings, cgroups_of_pod, class_cgroup, class_share, class_values,
    pod_cgroup, pod_cgroup_values, pod_of_cgroup, requested,
};
pub use config_error::ConfigError;
pub use dns::{NodeDns, PodDns, ResolvConfError, over_limits, parse_resolv_conf, pod_dns};
pub use env_file::{EnvFile, EnvFileError, EnvFileRead, env_files, env_value};
pub use environment::{EnvironmentSources, environment};
pub use environment_objects::ApiFacts;
pub use field_ref::pod_field;
pub use go_json::{handler_json, ports_json};
pub use grace::{GraceBudget, LEAST_GRACE, stop_grace};
pub use hook::{Hook, HookError, HttpHook, hook, needs_address, sleeps};
pub(crate) use hook_messages::{HookedContainer, exited, timed_out};
pub use hostname::{PodHostname, kernel_hostname, pod_hostname};
pub use hosts::{HOSTS_PATH, host_network_hosts, managed_hosts, wants_hosts_file};
pub(crate) use kill_cause::{KillCause, Restart};
pub use late_creation::{TakenContainer, TakenSandbox, startable, taken_container, taken_sandbox};
pub(crate) use model::{go_path, go_text};
pub use needs::{Needs, needs};
pub use node::{NodeSettings, PullSettings};
pub use orphans::orphaned_directories;
pub use pod_actions::{SyncContext, pod_actions};
pub use podspec::restart::{RestartPolicy, has_finished, restart_policy, should_restart};
pub use podspec::{Actual, Sizes, actual};
pub use ports::port_mappings;
pub use probe_results::{ProbeResult, ProbeResults};
pub use pull::{
    ImageDecision, Presence, PullCause, image_decision, is_looked_for, with_default_tag,
};
pub use pull_backoff::{PullBackoff, PullWait};
pub use pull_error::{AttemptError, PullError};
pub use pull_key::{PullKey, PullOf};
pub use pull_queue::{PullQueue, PullSlots, PullTicket};
pub use pull_rate::{PullRate, TokenBucket};
pub use pull_reminder::next_reminder;
pub use pull_size::size_class;
pub use reasons::{KillPod, KillReason, PodEnd, StartReason};
pub use resize::{
    ContainerResize, MemoryUse, below_usage, is_resizing, raised, resized_sandbox_resources,
    smaller_memory_limit,
};
pub use resource_ref::container_resource;
pub use resources::{LimitSettings, container_resources, overhead_resources, sandbox_resources};
pub use security::{
    Confinement, MASKED_PATHS, READONLY_PATHS, add_volume_groups, container_security, described,
    sandbox_security,
};
pub use string_limits::{ContainerString, MOST_OF_STRING, MOST_OF_STRINGS, StringBudget};
pub use sysctls::pod_sysctls;
pub use termination_message::{
    MOST_LINES, MOST_OF_FILE, MOST_OF_LOG, MessageSource, message_source, with_termination_message,
};
pub use termination_order::termination_order;
pub use user_namespace::{IdRanges, IdSpan, RangeError, SpanError};
pub use volume_mounts::{
    MountContext, MountedVolume, SubpathMount, VolumeMountPlan, used_volumes, volume_devices,
    volume_mounts,
};
