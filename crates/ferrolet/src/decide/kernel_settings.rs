//! Sysctls that a node requires, like upstream.

use std::fmt;

/// The required sysctls: memory overcommit, no panic on OOM, reboot after a kernel panic, and enough keys for
/// many containers.
pub(crate) const WANTED: [(&str, i64); 6] = [
    ("vm/overcommit_memory", 1),
    ("vm/panic_on_oom", 0),
    ("kernel/panic", 10),
    ("kernel/panic_on_oops", 1),
    ("kernel/keys/root_maxkeys", 1_000_000),
    ("kernel/keys/root_maxbytes", 25_000_000),
];

/// The sysctls to set, given the current values, or the errors that abort the start. With `protect`, every difference
/// is an error.
pub(crate) fn to_set(
    found: &[(&'static str, Result<i64, String>)],
    protect: bool,
) -> Result<Vec<(&'static str, i64)>, WrongKernel> {
    let (mut changes, mut wrong) = (Vec::new(), Vec::new());
    for (name, expected) in WANTED {
        let value = found.iter().find(|(found, _)| *found == name).map(|(_, value)| value);
        match value {
            Some(Ok(value)) if *value == expected => {}
            Some(Ok(value)) if protect => wrong.push(format!(
                "invalid kernel flag: {name}, expected value: {expected}, actual value: {value}"
            )),
            Some(Ok(_)) => changes.push((name, expected)),
            Some(Err(error)) => wrong.push(format!("read {name}: {error}")),
            None => wrong.push(format!("{name} is not known")),
        }
    }
    if wrong.is_empty() { Ok(changes) } else { Err(WrongKernel(wrong)) }
}

/// The sysctls that abort the start.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) struct WrongKernel(pub(crate) Vec<String>);

impl fmt::Display for WrongKernel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0.as_slice() {
            [one] => f.write_str(one),
            several => write!(f, "[{}]", several.join(", ")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The required values, with these exceptions.
    fn found(other: &[(&str, Result<i64, String>)]) -> Vec<(&'static str, Result<i64, String>)> {
        let value = |(name, wanted): (&'static str, i64)| {
            let other = other.iter().find(|(other, _)| *other == name);
            (name, other.map_or(Ok(wanted), |(_, value)| value.clone()))
        };
        WANTED.map(value).to_vec()
    }

    // behaviour: NODE-57
    #[test]
    fn differing_sysctls_are_set() {
        assert_eq!(to_set(&found(&[]), false), Ok(vec![]));
        let differs = found(&[("vm/overcommit_memory", Ok(0)), ("kernel/panic", Ok(0))]);
        let changes = vec![("vm/overcommit_memory", 1), ("kernel/panic", 10)];
        assert_eq!(to_set(&differs, false), Ok(changes));
    }

    // behaviour: NODE-58
    #[test]
    fn differing_sysctl_aborts_start_with_protect_kernel_defaults() {
        assert_eq!(to_set(&found(&[]), true), Ok(vec![]));
        let message = |found: &[(&str, Result<i64, String>)]| {
            to_set(&self::found(found), true).unwrap_err().to_string()
        };
        let one = "invalid kernel flag: vm/overcommit_memory, expected value: 1, actual value: 2";
        assert_eq!(message(&[("vm/overcommit_memory", Ok(2))]), one);
        let other = "invalid kernel flag: kernel/panic, expected value: 10, actual value: 0";
        let both = message(&[("kernel/panic", Ok(0)), ("vm/overcommit_memory", Ok(2))]);
        assert_eq!(both, format!("[{one}, {other}]"));
    }

    // behaviour: NODE-57
    #[test]
    fn missing_sysctl_aborts_start() {
        let without = found(&[("kernel/keys/root_maxkeys", Err("not found".to_owned()))]);
        for protect in [false, true] {
            let error = to_set(&without, protect).unwrap_err().to_string();
            assert_eq!(error, "read kernel/keys/root_maxkeys: not found");
        }
    }
}
