//! The reason of a container's end, where the runtime's is wrong.

use model::observed::{ContainerState, ContainerStatus};

const OOM_KILLED: &str = "OOMKilled";
const ERROR: &str = "Error";

/// The exit code of a process that a signal ended is this and its number.
const SIGNALLED: i32 = 128;
/// The largest signal.
const LAST_SIGNAL: i32 = 64;
const SIGKILL: i32 = 9;

/// The right reason, if the reported one is wrong. Runtimes report `OOMKilled` once the kernel has killed any process
/// of the container. If another signal than the kernel's ended its first process, that was not the reason
/// (kubernetes#140718).
pub fn corrected_reason(instance: &ContainerStatus) -> Option<&'static str> {
    let signal = instance.exit_code - SIGNALLED;
    let by_other_signal = (1..=LAST_SIGNAL).contains(&signal) && signal != SIGKILL;
    let claims_oom = instance.state == ContainerState::Exited && *instance.reason == *OOM_KILLED;
    (claims_oom && by_other_signal).then_some(ERROR)
}

#[cfg(test)]
mod tests {
    use testkit::observed::container_status;

    use super::*;

    // behaviour: WHY-19
    #[test]
    fn oom_killed_stays_only_if_the_kernel_may_have_ended_the_first_process() {
        use ContainerState::{Exited, Running};
        let rows = [
            (Exited, "OOMKilled", 137, None),
            (Exited, "OOMKilled", 0, None),
            (Exited, "OOMKilled", 1, None),
            (Exited, "OOMKilled", 128, None),
            (Exited, "OOMKilled", 143, Some("Error")),
            (Exited, "OOMKilled", 130, Some("Error")),
            (Exited, "OOMKilled", 192, Some("Error")),
            (Exited, "OOMKilled", 193, None),
            (Exited, "OOMKilled", 255, None),
            (Exited, "Error", 143, None),
            (Exited, "StartError", 143, None),
            (Running, "OOMKilled", 143, None),
        ];
        for (state, reason, exit_code, expected) in rows {
            let status = container_status("c1", "main", state);
            let status = ContainerStatus { reason: reason.into(), exit_code, ..status };
            assert_eq!(corrected_reason(&status), expected, "{reason} {exit_code}");
        }
    }
}
