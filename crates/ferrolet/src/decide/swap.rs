//! Whether the agent runs on a machine with swap.

use config::KubeletConfiguration;
use model::machine::Machine;

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

#[cfg(test)]
mod tests {
    use super::*;

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
