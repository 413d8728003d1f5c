//! The health of the node, in upstream's words.

use std::collections::BTreeSet;
use std::time::Duration;

pub use model::pressure::Pressure;

use super::facts::Facts;

/// An unhealthy part of the agent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnhealthyPart {
    /// The part, such as `PLEG`.
    pub part: &'static str,
    /// The problem.
    pub problem: String,
}

/// Problems that keep the node from being ready, in upstream's order. `missing` are resources whose
/// capacity is unknown.
pub fn problems(
    facts: &Facts,
    unwell: &[UnhealthyPart],
    missing: &[&str],
    since_start: Duration,
) -> Vec<String> {
    let mut all = Vec::new();
    all.extend(facts.runtime.silence_error(since_start).map(ToOwned::to_owned));
    all.extend(unwell.iter().map(|one| format!("{} is not healthy: {}", one.part, one.problem)));
    all.extend(facts.runtime.runtime_error().map(ToOwned::to_owned));
    all.extend(facts.runtime.network_error().map(ToOwned::to_owned));
    if facts.shutting_down {
        all.push("node is shutting down".to_owned());
    }
    if !missing.is_empty() {
        all.push(format!("missing node capacity for resources: {}", missing.join(", ")));
    }
    all
}

/// Joins several problems: each once, in brackets unless there is only one.
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

    // behaviour: NODE-21, SHD-2
    #[test]
    fn problems_are_in_upstream_order() {
        let facts = Facts { shutting_down: true, ..Facts::default() };
        let pleg =
            UnhealthyPart { part: "PLEG", problem: "pleg has yet to be successful".to_owned() };
        let all = problems(&facts, &[pleg], &["cpu", "pods"], Duration::ZERO);
        let expected = [
            "container runtime status check may not have completed yet",
            "PLEG is not healthy: pleg has yet to be successful",
            "network state unknown",
            "node is shutting down",
            "missing node capacity for resources: cpu, pods",
        ];
        assert_eq!(all, expected);
    }
}
