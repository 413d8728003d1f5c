//! Why a pod was evicted, and not another.

use journal::Inputs;

/// The limits of local storage, by rule.
const LIMITS: &[(&str, &str)] = &[
    ("emptydirfs.limit", "its emptyDir volume"),
    ("ephemeralpodfs.limit", "its ephemeral storage"),
    ("ephemeralcontainerfs.limit", "the ephemeral storage of its container"),
];

/// `memory.available 50Mi is below 100Mi; usage 300Mi, request 100Mi, priority 0; first of 12 pods, before …`.
pub(super) fn eviction(rule: &str, detail: &Inputs) -> String {
    let text = |name: &str| detail.text(name).unwrap_or_default();
    if let Some((_, what)) = LIMITS.iter().find(|(known, _)| *known == rule) {
        let name = detail.text("name").map(|name| format!(" {name}")).unwrap_or_default();
        let (usage, limit) = (text("usage"), text("limit"));
        return format!("{what}{name} used {usage}, more than its limit {limit} ({rule})");
    }
    let mut parts = vec![format!("{rule} {} is below {}", text("available"), text("threshold"))];
    let numbers = ["usage", "request", "priority"];
    let known = numbers.iter().filter_map(|name| Some(format!("{name} {}", detail.text(name)?)));
    parts.push(known.collect::<Vec<_>>().join(", "));
    parts.push(place(detail));
    let critical = detail.texts("critical").collect::<Vec<_>>().join(" ");
    if !critical.is_empty() {
        parts.push(format!("critical pods are not evicted: {critical}"));
    }
    parts.join("; ")
}

/// `first of 12 pods, before default/db: usage 1Mi, request 2Mi, priority 0`.
fn place(detail: &Inputs) -> String {
    let number = |name: &str| detail.get(name).and_then(serde_json::Value::as_u64);
    let (position, pods) = (number("position").unwrap_or(1), number("pods").unwrap_or(1));
    let critical = u64::try_from(detail.texts("critical").count()).unwrap_or(0);
    let rank = match position.saturating_sub(critical) {
        0 | 1 => "first".to_owned(),
        other => format!("number {other}"),
    };
    let ranking: Vec<&str> = detail.texts("ranking").collect();
    let next = usize::try_from(position).ok().and_then(|position| ranking.get(position));
    let next = next.map(|next| format!(", before {next}")).unwrap_or_default();
    format!("{rank} of {pods} {}{next}", if pods == 1 { "pod" } else { "pods" })
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn inputs(value: Value) -> Inputs {
        let Value::Object(fields) = value else { panic!("not an object: {value}") };
        Inputs(fields.into_iter().collect())
    }

    // behaviour: EVI-62
    #[test]
    fn eviction_is_explained_by_its_threshold_and_its_place_in_the_ranking() {
        let detail = inputs(json!({
            "threshold": "100Mi", "available": "5Mi", "usage": "3Mi", "request": "1Mi",
            "priority": 0, "position": 2, "pods": 3, "critical": ["kube-system/agent"],
            "ranking": ["kube-system/agent: usage 9Mi", "default/web: usage 3Mi", "default/db: usage 1Ki"],
        }));
        assert_eq!(
            eviction("memory.available", &detail),
            "memory.available 5Mi is below 100Mi; usage 3Mi, request 1Mi, priority 0; \
             first of 3 pods, before default/db: usage 1Ki; \
             critical pods are not evicted: kube-system/agent"
        );
        let alone = inputs(json!({
            "threshold": "100", "available": "5", "usage": "12", "priority": -1, "position": 1,
            "pods": 1, "critical": [], "ranking": ["default/web: usage 12"],
        }));
        assert_eq!(
            eviction("pid.available", &alone),
            "pid.available 5 is below 100; usage 12, priority -1; first of 1 pod"
        );
    }

    // behaviour: EVI-62
    #[test]
    fn eviction_is_explained_by_its_limit() {
        let detail = inputs(json!({ "name": "cache", "usage": "2Ki", "limit": "1Ki" }));
        assert_eq!(
            eviction("emptydirfs.limit", &detail),
            "its emptyDir volume cache used 2Ki, more than its limit 1Ki (emptydirfs.limit)"
        );
        let detail = inputs(json!({ "usage": "2Ki", "limit": "1Ki" }));
        assert_eq!(
            eviction("ephemeralpodfs.limit", &detail),
            "its ephemeral storage used 2Ki, more than its limit 1Ki (ephemeralpodfs.limit)"
        );
    }
}
