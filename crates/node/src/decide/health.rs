//! Whether the node is well, in upstream's words.

use std::collections::BTreeSet;
use std::time::Duration;

use super::facts::Facts;

/// What the node is short of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Pressure {
    /// Memory.
    pub memory: bool,
    /// Room on a disk.
    pub disk: bool,
    /// Processes.
    pub pid: bool,
}

/// A part of the agent that is not well.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unwell {
    /// Which part: `PLEG`.
    pub part: &'static str,
    /// Why.
    pub problem: String,
}

/// What keeps the node from being ready, in the order in which it is told. `missing` are resources whose
/// capacity is not known.
pub fn problems(
    facts: &Facts,
    unwell: &[Unwell],
    missing: &[&str],
    since_start: Duration,
) -> Vec<String> {
    let mut all = Vec::new();
    all.extend(facts.runtime.trouble(since_start).map(ToOwned::to_owned));
    all.extend(unwell.iter().map(|one| format!("{} is not healthy: {}", one.part, one.problem)));
    all.extend(facts.runtime.runtime_error().map(ToOwned::to_owned));
    all.extend(facts.runtime.network_error().map(ToOwned::to_owned));
    if !missing.is_empty() {
        all.push(format!("missing node capacity for resources: {}", missing.join(", ")));
    }
    all
}

/// Several problems as one text: each once, in brackets unless it is the only one.
pub fn aggregate(problems: &[String]) -> String {
    let mut seen = BTreeSet::new();
    let each: Vec<&str> =
        problems.iter().map(String::as_str).filter(|problem| seen.insert(*problem)).collect();
    match each.as_slice() {
        [one] => (*one).to_owned(),
        several => format!("[{}]", several.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // behaviour: NODE-21
    #[test]
    fn problems_are_told_in_upstreams_order() {
        let facts = Facts::default();
        let pleg = Unwell { part: "PLEG", problem: "pleg has yet to be successful".to_owned() };
        let all = problems(&facts, &[pleg], &["cpu", "pods"], Duration::ZERO);
        let expected = [
            "container runtime status check may not have completed yet",
            "PLEG is not healthy: pleg has yet to be successful",
            "network state unknown",
            "missing node capacity for resources: cpu, pods",
        ];
        assert_eq!(all, expected);
    }
}
