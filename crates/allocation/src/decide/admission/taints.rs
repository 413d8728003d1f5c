//! Checks whether a pod tolerates the taints of the node.

use k8s_openapi::api::core::v1::{Pod, Taint, Toleration};
use podspec::view;

use super::{Ability, Node};

/// Whether a pod tolerates every `NoExecute` taint. `NoSchedule` taints are
/// left to the scheduler.
pub(super) fn are_tolerated(pod: &Pod, node: &Node) -> bool {
    let tolerations = view::spec(pod).and_then(|spec| spec.tolerations.as_deref());
    let compare = node.can(Ability::TaintTolerationComparisonOperators);
    let mut taints = node.taints.iter().filter(|taint| taint.effect == "NoExecute");
    taints.all(|taint| {
        let mut tolerations = tolerations.unwrap_or_default().iter();
        tolerations.any(|toleration| tolerates(toleration, taint, compare))
    })
}

/// Whether a pod tolerates the taint of nodes under memory pressure.
pub(in crate::decide) fn tolerates_memory_pressure(pod: &Pod, node: &Node) -> bool {
    let taint = Taint {
        key: "node.kubernetes.io/memory-pressure".to_owned(),
        effect: "NoSchedule".to_owned(),
        ..Taint::default()
    };
    let tolerations = view::spec(pod).and_then(|spec| spec.tolerations.as_deref());
    let compare = node.can(Ability::TaintTolerationComparisonOperators);
    tolerations.unwrap_or_default().iter().any(|one| tolerates(one, &taint, compare))
}

fn tolerates(toleration: &Toleration, taint: &Taint, compare: bool) -> bool {
    let given = |field: &'_ Option<String>| field.clone().filter(|text| !text.is_empty());
    if given(&toleration.effect).is_some_and(|effect| effect != taint.effect)
        || given(&toleration.key).is_some_and(|key| key != taint.key)
    {
        return false;
    }
    let value = toleration.value.as_deref().unwrap_or_default();
    let found = taint.value.as_deref().unwrap_or_default();
    let numbers = || Some((whole_number(found)?, whole_number(value)?));
    match toleration.operator.as_deref().unwrap_or_default() {
        "" | "Equal" => value == found,
        "Exists" => true,
        "Lt" if compare => numbers().is_some_and(|(found, limit)| found < limit),
        "Gt" if compare => numbers().is_some_and(|(found, limit)| found > limit),
        _ => false,
    }
}

/// Parses a number without plus, leading zeroes and blanks.
fn whole_number(text: &str) -> Option<i64> {
    text.parse().ok().filter(|number: &i64| number.to_string() == text)
}
