//! Whether the agent runs on a machine with swap, and what may get there.

use config::KubeletConfiguration;
use model::machine::Machine;
use model::ports::events::{EventType, NodeEvent};

/// The machine has swap; upstream's message.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "running with swap on is not supported, please disable swap or set --fail-swap-on flag to false"
)]
pub(crate) struct SwapIsOn;

/// Checks that there is no swap, unless the configuration allows it.
pub(crate) fn check_swap(config: &KubeletConfiguration, machine: &Machine) -> Result<(), SwapIsOn> {
    if machine.swap && config.fail_swap_on { Err(SwapIsOn) } else { Ok(()) }
}

/// The warning that volumes in memory may be swapped to disk.
pub(crate) fn swap_warning(machine: &Machine) -> Option<NodeEvent> {
    (machine.swap && !machine.tmpfs_without_swap).then(|| NodeEvent {
        kind: EventType::Warning,
        reason: "PossibleMemoryBackedVolumesOnDisk",
        message: "The tmpfs noswap option is not supported. Memory-backed volumes (e.g. secrets, \
                  emptyDirs, etc.) might be swapped to disk and should no longer be considered secure."
            .to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    // behaviour: CON-93
    #[test]
    fn volumes_in_memory_are_warned_of_only_where_they_may_be_swapped() {
        for (swap, tmpfs_without_swap, warns) in
            [(true, false, true), (true, true, false), (false, false, false), (false, true, false)]
        {
            let machine = Machine { swap, tmpfs_without_swap, ..Machine::default() };
            let warning = swap_warning(&machine);
            let reason = warning.map(|event| (event.kind, event.reason));
            let expected = (EventType::Warning, "PossibleMemoryBackedVolumesOnDisk");
            assert_eq!(reason, warns.then_some(expected), "{swap} {tmpfs_without_swap}");
        }
    }

    // behaviour: CGR-29
    #[test]
    fn swap_aborts_start_unless_allowed() {
        for (fail, swap, refused) in
            [(true, true, true), (true, false, false), (false, true, false), (false, false, false)]
        {
            let mut config = KubeletConfiguration::default();
            assert!(config.fail_swap_on, "the default");
            config.fail_swap_on = fail;
            let machine = Machine { swap, ..Machine::default() };
            assert_eq!(check_swap(&config, &machine).is_err(), refused, "{fail} {swap}");
        }
    }
}
