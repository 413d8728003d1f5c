//! Texts of rules with their numbers.

use journal::Inputs;
use podgc::plan::Rule;
use serde_json::Value;

/// How many characters of an id are shown: enough for a query, as in other tools of runtimes.
const SHORT_ID: usize = 13;

/// The text of each rule. `{name}` stands for an input, `{name#thing}` for a number of things, and `{name#id}` for the
/// beginning of an id. Of several texts of a rule, the first with all its inputs is used.
const RULES: &[(&str, &str)] = &[
    // Removals.
    (
        "per-container-cap",
        "dead instance {position} of {instances} of its container, counted from the newest; {cap} is kept",
    ),
    ("per-container-cap", "only the newest {cap} of the dead instances of its container are kept"),
    (
        "node-cap-share",
        "the node has {dead#dead container}, instances of {units}, and the limit is {cap}: {share} of each, at least 1; it is number {position} of its own, counted from the newest",
    ),
    (
        "node-cap-oldest",
        "the node has {dead#dead container}, and the limit is {cap}; it is number {position}, counted from the newest",
    ),
    ("pod-has-ended", "its pod has ended, but it cannot be removed yet: {error}"),
    ("pod-has-ended", "its pod has ended"),
    ("pod-is-gone", "its pod is gone, but it cannot be removed yet: {error}"),
    ("pod-is-gone", "its pod is gone"),
    ("pod-was-refused", "its pod was rejected, and nothing of it runs"),
    ("pod-deleted", "its pod was deleted and has ended"),
    ("pod-evicted", "its pod was evicted"),
    ("pod-terminated", "its pod has ended, and the node is short of resources"),
    (
        "sandbox-older",
        "sandbox {position} of {instances} of its pod, counted from the newest, and only that one is needed",
    ),
    (
        "log-max-files",
        "{files#file} of {bytes} since {since}: the limit is {maxFiles} files of its log, with the live one",
    ),
    (
        "log-max-files",
        "the limit is {maxFiles} files of its log, with the live one; it had {bytes}",
    ),
    (
        "pod-log-limit",
        "{files#file} of {bytes} since {since}: the logs of its pod may take {maxBytesPerPod} bytes",
    ),
    ("pod-log-limit", "the logs of its pod may take {maxBytesPerPod} bytes; it had {bytes}"),
    ("rotation-leftover", "left over by an agent that was killed while it compressed the log"),
    ("dangling-link", "the log that the link points to is gone (container: {container})"),
    ("restart-all-containers", "all containers of its pod restart"),
    ("never-started", "it was created but never started"),
    ("does-not-start", "it was created but does not start"),
    ("name-taken", "it had the name of a container to be created"),
    ("late-sandbox", "the runtime created it after the request had timed out"),
    ("older-init-container", "a newer instance of the init container exists"),
    (
        "init-container-of-old-sandbox",
        "its pod gets a new sandbox, where init containers run again",
    ),
    ("node-clean", "the node was cleaned (ferrolet node clean)"),
    (
        "disk-over-high-threshold",
        "the image disk was {usedPercent}% full, over {highThresholdPercent}%: images are removed down to {lowThresholdPercent}%; not used since {lastUsed}",
    ),
    (
        "disk-over-high-threshold",
        "the image disk was {usedPercent}% full, over {highThresholdPercent}%: images are removed down to {lowThresholdPercent}%; never used",
    ),
    ("unused-longer-than-maximum-age", "unused for {unusedFor}, longer than {maximumAge}"),
    ("node-short-of-disk", "unused, and the node is short of disk space"),
    // Pods of the API server, which the agent deletes once they have ended.
    (
        "pod-ended",
        "it was evicted or deleted through the API ({disruption}) at {deletionRequested}, and had ended (phase {phase})",
    ),
    (
        "pod-ended",
        "it was deleted through the API at {deletionRequested}, and had ended (phase {phase})",
    ),
    // As earlier versions recorded it.
    ("pod-ended", "it was deleted through the API, and had ended (phase {phase})"),
    // Pods that the Pod GC controller deleted.
    (
        Rule::OVER_THRESHOLD,
        "{terminated} terminated pods in the cluster, limit {allowed}; it was number {position} to be deleted",
    ),
    (
        Rule::OVER_NAMESPACE_CAP,
        "{terminated} terminated pods in its namespace, limit {allowed}; it was number {position} to be deleted",
    ),
    (
        Rule::OVER_NODE_CAP,
        "{terminated} terminated pods on node {node}, limit {allowed}; it was number {position} to be deleted",
    ),
    (Rule::OVER_TTL, "it had terminated {age} before, TTL {ttl}"),
    (Rule::NODE_OUT_OF_SERVICE, "its node {node} was out of service and not ready"),
    (Rule::NODE_GONE, "its node {node} no longer existed; it had been missing for {missingFor}"),
    (Rule::NEVER_SCHEDULED, "it was deleted before it got a node"),
    // Kept items.
    ("running", "it runs"),
    ("pod-came-back", "its pod exists again"),
    ("too-young", "it is younger than {minimumAge}"),
    ("exit-time-unknown", "its exit time could not be read"),
    ("internal-error", "internal error of the agent, see its log"),
    ("source-not-ready", "not every source has listed its pods yet"),
    ("may-be-starting", "it may be about to start"),
    ("may-be-running", "it may run, and the worker of its pod stops it"),
    ("within-caps", "the limits are {perContainer} of each container and {inAll} on the node"),
    ("within-caps", "the limit is {perContainer} of each container"),
    ("within-caps", "the limit is {inAll} on the node"),
    ("within-caps", "there is no limit"),
    ("pod-state-unknown", "whether its pod still exists is unknown without an agent"),
    ("sandbox-ready", "it is ready for its pod"),
    ("sandbox-in-use", "a container in it is kept"),
    ("newest-sandbox", "it is the newest of its pod"),
    ("pod-exists", "its pod still exists"),
    ("pod-runs", "containers of its pod still run"),
    ("not-a-directory", "it is not a directory, so it belongs to no pod"),
    ("first-sandbox", "the deadline of its pod counts from it"),
    ("image-in-use", "it is used by {containers#container}, such as {container#id}"),
    ("image-in-use", "container {mountedBy#id} mounts it"),
    ("image-in-use", "sandboxes are made from it"),
    ("image-pinned", "the runtime has pinned it"),
    ("being-pulled", "a pod is about to use it as {claimed}"),
    ("labels-unknown", "its labels could not be read, and one may pin it"),
    ("pinned-by-name", "it is pinned as {pin}"),
    ("pinned-by-label", "it is pinned by {pin}"),
    ("kept-for-static-pod", "the static pod {pod} uses it"),
    ("kept-for-critical-pod", "the critical pod {pod} uses it"),
    ("used-since-the-pass-began", "it was used just now"),
    (
        "image-age-unknown",
        "the image disk is {usedPercent}% full, over {highThresholdPercent}%; its age and last use are unknown without an agent",
    ),
    ("younger-than-minimum-age", "first detected {knownFor} ago, less than {minimumAge}"),
    (
        "younger-than-minimum-age",
        "no pass has detected it yet; it is kept for {minimumAge} after the first that does",
    ),
    ("enough-space-freed", "enough space is free: {available}"),
    ("removals-gain-nothing", "removing images frees nothing: they share their layers"),
    ("disk-cannot-be-measured", "the image disk cannot be measured: {error}"),
    ("disk-cannot-be-measured", "the image disk cannot be measured any more"),
    ("removal-failed", "it could not be removed: {error}"),
    ("below-high-threshold", "the image disk is {usedPercent}% full, not {highThresholdPercent}%"),
];

/// The reason behind a rule, with the inputs.
pub fn reason(rule: &str, detail: &Inputs) -> String {
    let mut texts = RULES.iter().filter(|(known, _)| *known == rule).map(|(_, text)| *text);
    let known = texts.find_map(|text| filled(text, detail));
    let known = known.map(|text| text + &other_names(detail));
    known.unwrap_or_else(|| {
        let rule = rule.replace('-', " ");
        if detail.0.is_empty() { rule } else { format!("{rule} ({})", inputs(detail)) }
    })
}

/// The other names of an image: they are kept or removed with the first.
fn other_names(detail: &Inputs) -> String {
    let names = detail.get("names").and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
    let others: Vec<&str> = names.iter().skip(1).filter_map(Value::as_str).collect();
    match &others[..] {
        [] => String::new(),
        [one] => format!("; also named {one}"),
        [one, rest @ ..] => format!("; also named {one} and {} more", rest.len()),
    }
}

/// A text with its inputs; `None` if one is missing.
fn filled(text: &str, detail: &Inputs) -> Option<String> {
    let mut pieces = text.split('{');
    let mut filled = pieces.next().unwrap_or_default().to_owned();
    for piece in pieces {
        let (hole, rest) = piece.split_once('}')?;
        let (name, thing) =
            hole.split_once('#').map_or((hole, None), |(name, of)| (name, Some(of)));
        let value = detail.get(name).filter(|value| !value.is_null())?;
        filled.push_str(&match (thing, value.as_u64()) {
            (Some("id"), _) => short_id(&journal::plain(value)).to_owned(),
            (Some(thing), Some(count)) => counted(count, thing),
            _ => shown(name, value),
        });
        filled.push_str(rest);
    }
    Some(filled)
}

/// An input for people: bytes with units, others as they are.
fn shown(name: &str, value: &Value) -> String {
    match value.as_u64() {
        Some(bytes) if is_bytes(name) => bytes_text(bytes),
        _ => journal::plain(value),
    }
}

/// Whether the number of that name is in bytes.
fn is_bytes(name: &str) -> bool {
    ["bytes", "size", "capacity"].iter().any(|word| name.ends_with(word))
        || name.starts_with("available")
}

/// All inputs of a rule, formatted for display.
pub fn inputs(detail: &Inputs) -> String {
    let reported = detail.0.iter().map(|(name, value)| format!("{name} {}", shown(name, value)));
    reported.collect::<Vec<_>>().join(", ")
}

/// An amount of bytes, rounded to three digits.
pub fn bytes_text(bytes: u64) -> String {
    const UNITS: [&str; 4] = ["KiB", "MiB", "GiB", "TiB"];
    if bytes < 1024 {
        return format!("{bytes} B");
    }
    // A number of units, times `parts`.
    let rounded = |unit: usize, parts: u128| {
        let shift = 10 * (unit + 1);
        (u128::from(bytes) * parts + (1 << (shift - 1))) >> shift
    };
    // The smallest unit with a rounded number below 1024.
    let last = UNITS.len() - 1;
    let unit = (0..last).find(|unit| rounded(*unit, 1) < 1024).unwrap_or(last);
    match rounded(unit, 10) {
        tenths @ 0..1000 => format!("{}.{} {}", tenths / 10, tenths % 10, UNITS[unit]),
        _ => format!("{} {}", rounded(unit, 1), UNITS[unit]),
    }
}

/// The beginning of an id, enough for a query; a path unchanged.
pub fn short_id(id: &str) -> &str {
    let id = id.strip_prefix("sha256:").unwrap_or(id);
    if id.starts_with('/') { id } else { id.get(..SHORT_ID).unwrap_or(id) }
}

/// A number of things: `1 sandbox`, `2 sandboxes`.
pub fn counted(count: u64, kind: &str) -> String {
    let word = match kind {
        "pod-directory" => "pod directory",
        other => other,
    };
    match (count, word) {
        (1, _) => format!("1 {word}"),
        (_, "sandbox") => format!("{count} sandboxes"),
        (_, "pod directory") => format!("{count} pod directories"),
        _ => format!("{count} {word}s"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn detail(json: &str) -> Inputs {
        serde_json::from_str(json).unwrap()
    }

    #[test]
    fn rule_text_has_its_numbers() {
        let rows = [
            (
                "per-container-cap",
                r#"{"cap":1,"position":3,"instances":3,"age":"2m0s"}"#,
                "dead instance 3 of 3 of its container, counted from the newest; 1 is kept",
            ),
            (
                "per-container-cap",
                r#"{"cap":1,"age":"2m0s"}"#,
                "only the newest 1 of the dead instances of its container are kept",
            ),
            (
                "node-cap-share",
                r#"{"cap":3,"dead":12,"units":6,"share":1,"position":2,"instances":2}"#,
                "the node has 12 dead containers, instances of 6, and the limit is 3: 1 of each, at least 1; it is number 2 of its own, counted from the newest",
            ),
            ("within-caps", r#"{"perContainer":1}"#, "the limit is 1 of each container"),
            (
                "image-in-use",
                r#"{"containers":1,"container":"c1"}"#,
                "it is used by 1 container, such as c1",
            ),
            (
                "image-in-use",
                r#"{"containers":2,"container":"4f6c0e1d2a3b4c5d6e7f4f6c0e1d2a3b4c5d6e7f4f6c0e1d2a3b4c5d6e7fabcd"}"#,
                "it is used by 2 containers, such as 4f6c0e1d2a3b4",
            ),
            (
                "image-in-use",
                r#"{"mountedBy":"4f6c0e1d2a3b4c5d6e7f4f6c0e1d2a3b4c5d6e7f4f6c0e1d2a3b4c5d6e7fabcd"}"#,
                "container 4f6c0e1d2a3b4 mounts it",
            ),
            (
                "younger-than-minimum-age",
                r#"{"knownFor":"3s","minimumAge":"2m0s"}"#,
                "first detected 3s ago, less than 2m0s",
            ),
            (
                "younger-than-minimum-age",
                r#"{"knownFor":null,"minimumAge":"2m0s"}"#,
                "no pass has detected it yet; it is kept for 2m0s after the first that does",
            ),
            (
                "disk-over-high-threshold",
                r#"{"usedPercent":90,"highThresholdPercent":85,"lowThresholdPercent":80,"lastUsed":null}"#,
                "the image disk was 90% full, over 85%: images are removed down to 80%; never used",
            ),
            ("within-caps", "{}", "there is no limit"),
            ("too-young", r#"{"minimumAge":"1h0m0s"}"#, "it is younger than 1h0m0s"),
            ("a-rule-of-tomorrow", "{}", "a rule of tomorrow"),
            ("a-rule-of-tomorrow", r#"{"cap":1}"#, "a rule of tomorrow (cap 1)"),
        ];
        for (rule, inputs, expected) in rows {
            assert_eq!(reason(rule, &detail(inputs)), expected);
        }
    }

    // behaviour: STW-45
    #[test]
    fn pod_that_was_deleted_through_the_api_is_reported_as_deleted() {
        let rows = [
            (
                r#"{"phase":"Failed"}"#,
                "it was deleted through the API, and had ended (phase Failed)",
            ),
            (
                r#"{"phase":"Failed","deletionRequested":"2026-11-15T16:40:00Z"}"#,
                "it was deleted through the API at 2026-11-15T16:40:00Z, and had ended (phase Failed)",
            ),
            (
                r#"{"phase":"Failed","deletionRequested":"2026-11-15T16:40:00Z","disruption":"EvictionByEvictionAPI"}"#,
                "it was evicted or deleted through the API (EvictionByEvictionAPI) at \
                 2026-11-15T16:40:00Z, and had ended (phase Failed)",
            ),
        ];
        for (json, expected) in rows {
            assert_eq!(reason("pod-ended", &detail(json)), expected);
        }
    }

    #[test]
    fn image_is_shown_with_its_other_names() {
        for (names, expected) in [
            (r#"["a:1"]"#, "it is pinned as a:1"),
            (r#"["a:1","b:1"]"#, "it is pinned as a:1; also named b:1"),
            (r#"["a:1","b:1","c:1","d:1"]"#, "it is pinned as a:1; also named b:1 and 2 more"),
        ] {
            let inputs = detail(&format!(r#"{{"pin":"a:1","names":{names}}}"#));
            assert_eq!(reason("pinned-by-name", &inputs), expected);
        }
    }

    #[test]
    fn amounts_have_readable_units() {
        let rows = [
            (0, "0 B"),
            (1023, "1023 B"),
            (1024, "1.0 KiB"),
            (1_500_000, "1.4 MiB"),
            (1_540_000, "1.5 MiB"),
            (150 << 20, "150 MiB"),
            ((1 << 20) - 1, "1.0 MiB"),
            (1000 << 10, "1000 KiB"),
            ((100 << 10) - 1, "100 KiB"),
            ((2 << 30) - 1, "2.0 GiB"),
            (3 << 40, "3.0 TiB"),
            (u64::MAX, "16777216 TiB"),
        ];
        for (bytes, expected) in rows {
            assert_eq!(bytes_text(bytes), expected);
        }
        let detail = detail(r#"{"size":2097152,"position":2}"#);
        assert_eq!(inputs(&detail), "size 2.0 MiB, position 2");
        let detail = self::detail(r#"{"names":["a:1","b@sha256:1"]}"#);
        assert_eq!(inputs(&detail), "names a:1 b@sha256:1");
    }

    #[test]
    fn ids_are_shortened_and_paths_are_not() {
        assert_eq!(short_id("sha256:0123456789abcdef"), "0123456789abc");
        assert_eq!(short_id("c1"), "c1");
        assert_eq!(short_id("/var/log/pods/default_web_uid"), "/var/log/pods/default_web_uid");
    }

    #[test]
    fn counts_use_the_noun_of_their_kind() {
        assert_eq!(counted(1, "sandbox"), "1 sandbox");
        assert_eq!(counted(2, "sandbox"), "2 sandboxes");
        assert_eq!(counted(0, "container"), "0 containers");
        assert_eq!(counted(2, "pod-directory"), "2 pod directories");
    }
}
