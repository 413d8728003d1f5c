//! The fields that a kubelet names when its start fails.
//!
//! There is no format for this: most messages name the field, some a flag, some only describe it.

use std::collections::BTreeSet;

use config::KubeletConfiguration;
use config::flags::{Target, known};

/// Descriptions of fields that the kubelet does not name; the first match counts.
const SPOKEN_OF: &[(&str, &str)] = &[
    ("unknown authorization mode", "authorization.mode"),
    ("using cgroup v1", "failCgroupV1"),
    ("Cipher suite", "tlsCipherSuites"),
    ("unknown tls version", "tlsMinVersion"),
    ("curve preference", "tlsCurvePreferences"),
    ("cloud provider", "--cloud-provider"),
    ("lock file contention", "--exit-on-lock-contention"),
    ("node labels", "--node-labels"),
    ("unknown policy: \"dynamic\"", "cpuManagerPolicy"),
    ("unknown policy: \"Dynamic\"", "memoryManagerPolicy"),
    ("reserved CPU resources for static policy", "cpuManagerPolicy"),
    ("CPU Manager Policy option", "cpuManagerPolicyOptions"),
    ("unsupported options", "cpuManagerPolicyOptions"),
    ("static policy options", "cpuManagerPolicyOptions"),
    ("incompatible with CPUManager", "cpuManagerPolicyOptions"),
    ("max-allowable-numa-nodes", "topologyManagerPolicyOptions"),
    ("soft eviction threshold", "evictionSoftGracePeriod"),
    ("eviction minimum reclaim", "evictionMinimumReclaim"),
    ("eviction signal", "evictionHard"),
    ("eviction threshold", "evictionHard"),
    ("container log max size", "containerLogMaxSize"),
    ("pod logs path", "podLogsDir"),
    ("NUMA node", "reservedMemory"),
    ("LimitedSwap", "memorySwap.swapBehavior"),
    ("sync frequency", "syncFrequency"),
    ("sysctls", "allowedUnsafeSysctls"),
    ("invalid taint", "registerWithTaints"),
    ("taint.TimeAdded", "registerWithTaints"),
    // The message has only the value; the cases have one field of this kind.
    ("time: invalid duration \"soon\"", "evictionSoftGracePeriod"),
    ("quantities must match", "evictionHard"),
];

/// The named paths of fields, flags with their hyphens, or files with their paths.
pub(crate) fn blamed(stderr: &str) -> Option<BTreeSet<String>> {
    let message = final_error(stderr)?;
    let message = message.as_str();
    if let Some(blamed) = field_of_the_wrong_type(message)
        .or_else(|| feature(message))
        .or_else(|| flag(message))
        .or_else(|| file(message))
    {
        return Some(BTreeSet::from([blamed]));
    }
    let list = between(message, "failed to validate kubelet configuration, error: ", ", path: &")
        .or_else(|| message.strip_prefix("initialize logging: "))
        .unwrap_or(message);
    pieces(list).into_iter().map(|piece| named_in(&piece).or_else(|| spoken_of(&piece))).collect()
}

/// The error with which the kubelet exited, without its quotation marks.
fn final_error(stderr: &str) -> Option<String> {
    let lines: Vec<&str> = stderr.lines().collect();
    let (index, line) = lines
        .iter()
        .enumerate()
        .rfind(|(_, line)| line.contains("\"command failed\"") || line.starts_with("panic: "))?;
    if let Some(text) = line.strip_prefix("panic: ") {
        return Some(text.to_owned());
    }
    let (_, error) = line.split_once("err=")?;
    if error == "<" {
        return Some(lines.get(index + 1)?.trim().to_owned());
    }
    serde_json::from_str(error).ok()
}

fn between<'a>(text: &'a str, start: &str, end: &str) -> Option<&'a str> {
    let (_, rest) = text.split_once(start)?;
    rest.rsplit_once(end).map(|(found, _)| found)
}

fn first_word<'a>(text: &'a str, start: &str) -> Option<&'a str> {
    let (_, rest) = text.split_once(start)?;
    rest.split([' ', ',', '"', ':']).next().filter(|word| !word.is_empty())
}

/// `... into Go struct field KubeletConfiguration.maxPods of type int32`
fn field_of_the_wrong_type(message: &str) -> Option<String> {
    let (_, path) = first_word(message, "Go struct field ")?.split_once('.')?;
    Some(path.to_owned())
}

fn feature(message: &str) -> Option<String> {
    let name = first_word(message, "unrecognized feature gate: ")
        .or_else(|| first_word(message, "cannot set feature gate "))
        .or_else(|| {
            let (before, _) = message.split_once(" is enabled, but depends on features")?;
            before.rsplit(' ').next()
        })?;
    Some(format!("featureGates.{name}"))
}

fn flag(message: &str) -> Option<String> {
    if let Some(name) = first_word(message, "unknown flag: ") {
        return Some(name.to_owned());
    }
    // Some have two names: `for "-v, --v" flag`.
    let quoted = message.split_once("for \"").and_then(|(_, rest)| rest.split_once("\" flag"));
    if let Some((names, _)) = quoted {
        return Some(format!("--{}", names.rsplit("--").next()?));
    }
    if let Some(word) = first_word(message, "unknown command ") {
        return Some(format!("unexpected argument {word:?}"));
    }
    if message.contains("labels specified with --node-labels") {
        return Some("--node-labels".to_owned());
    }
    // Named by the flag, although it came from a file.
    let (before, _) = message.split_once(" value failed to parse")?;
    let name = before.rsplit("--").next()?;
    let flag = known().iter().find(|flag| flag.name == name)?;
    match flag.target {
        Target::Field { path, .. } => Some(path.to_owned()),
        _ => None,
    }
}

fn file(message: &str) -> Option<String> {
    first_word(message, "failed to load kubelet dropin file, path: ")
        .or_else(|| first_word(message, "through kubelet dropin directory \""))
        .or_else(|| first_word(message, "failed to load kubelet config file, path: "))
        .map(str::to_owned)
}

/// The errors of an aggregate: `[one, two]`.
fn pieces(list: &str) -> Vec<String> {
    let list = list.strip_prefix('[').and_then(|list| list.strip_suffix(']')).unwrap_or(list);
    let starts = ["invalid configuration: ", "invalid taint", "logging.", "tracing."];
    let mut pieces: Vec<String> = Vec::new();
    for part in list.split(", ") {
        match pieces.last_mut() {
            Some(piece) if !starts.iter().any(|start| part.starts_with(start)) => {
                *piece += ", ";
                *piece += part;
            }
            _ => pieces.push(part.to_owned()),
        }
    }
    pieces
}

/// The first field that a message names, in the spelling of a file.
fn named_in(message: &str) -> Option<String> {
    let is_part = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '[' | ']');
    let words = message.split(|c: char| !is_part(c)).map(|word| word.trim_end_matches('.'));
    words.filter(|word| !word.is_empty()).find_map(|word| {
        let top = word.split(['.', '[']).next()?;
        let known = KubeletConfiguration::FIELDS.iter().any(|name| name.eq_ignore_ascii_case(top));
        known.then(|| word.split('.').map(uncapitalized).collect::<Vec<_>>().join("."))
    })
}

fn uncapitalized(word: &str) -> String {
    let (first, rest) = word.split_at(word.len().min(1));
    first.to_ascii_lowercase() + rest
}

fn spoken_of(message: &str) -> Option<String> {
    let (_, field) = SPOKEN_OF.iter().find(|(words, _)| message.contains(words))?;
    Some((*field).to_owned())
}

#[test]
fn field_names_are_found_in_kubelet_errors() {
    let failed =
        |error: &str| format!("I1 x] \"a\"\nE1 run.go:72] \"command failed\" err={error}\n");
    let invalid = "failed to validate kubelet configuration, error: ";
    let rows = [
        (
            failed(&format!(
                "{:?}",
                format!(
                    "{invalid}invalid configuration: port (--port) 0 must be between 1 and 65535, inclusive, path: &TypeMeta{{}}"
                )
            )),
            &["port"][..],
        ),
        (
            failed(&format!(
                "{:?}",
                format!(
                    "{invalid}[invalid configuration: option \"x\" specified for hairpinMode (--hairpin-mode). Valid options are \"a\", \"b\", invalid configuration: CrashLoopBackOff.MaxContainerRestartPeriod (got: 301), invalid taint: {{a}}], path: &TypeMeta{{}}"
                )
            )),
            &["crashLoopBackOff.maxContainerRestartPeriod", "hairpinMode", "registerWithTaints"],
        ),
        (
            failed("<\n\tfailed to load kubelet dropin file, path: /a/b.conf, error: x"),
            &["/a/b.conf"],
        ),
        (failed("\"unknown command run\""), &["unexpected argument \"run\""]),
        (
            failed(
                "\"initialize logging: [logging.vmodule: Forbidden: x, logging.vmodule[0]: y]\"",
            ),
            &["logging.vmodule", "logging.vmodule[0]"],
        ),
        (
            "panic: failed, error: unrecognized feature gate: No\n\ngoroutine 1".to_owned(),
            &["featureGates.No"],
        ),
    ];
    for (output, fields) in rows {
        let found = blamed(&output).unwrap_or_else(|| panic!("{output}"));
        assert_eq!(found.iter().map(String::as_str).collect::<Vec<_>>(), fields, "{output}");
    }
    assert_eq!(blamed("all is well"), None);
}
