//! Decisions of the OOM watcher: what lines of the kernel's log and paths of cgroups mean. Pure.

mod cgroup;
mod message;
mod report;
mod victim;

pub use cgroup::{PodCgroup, oom_scope, pod_cgroup};
pub use message::{LoggedKill, MessageParser};
pub use report::{container_event, system_event};
pub use victim::{VictimContainer, VictimPod};
