//! The time and memory for any manifest is bounded by a few times its size. A separate program, so
//! that the memory is that of these manifests alone.
#![allow(clippy::disallowed_methods, reason = "measures real time and reads /proc")]

use std::time::{Duration, Instant};

use podspec::{MAX_MANIFEST_BYTES, Origin, read_manifest};

/// Generous, for a debug build on a busy machine. Without limits these manifests take minutes.
const LONGEST: Duration = Duration::from_secs(20);
/// The largest list of volumes takes about 170 MiB.
const MOST_BYTES: u64 = 256 << 20;

fn peak_bytes() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").expect("read /proc/self/status");
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).expect("VmHWM");
    let kib = peak.trim().strip_suffix(" kB").and_then(|kib| kib.parse::<u64>().ok());
    kib.expect("VmHWM is a number") << 10
}

/// The problems of a manifest, with the chain of causes.
fn problem(manifest: &str) -> String {
    let origin = Origin::Url("http://example/".to_owned());
    let error = read_manifest(manifest.as_bytes(), &origin, "node").expect_err("an attack");
    let causes = std::iter::successors(Some(&error as &dyn std::error::Error), |e| e.source());
    causes.map(ToString::to_string).collect::<Vec<_>>().join(": ")
}

fn billion_laughs() -> String {
    let level = |name: char, of: &str| format!("{name}: &{name} [{}]\n", [of; 9].join(","));
    ('b'..='i')
        .zip('a'..)
        .fold(level('a', "lol"), |text, (name, below)| text + &level(name, &format!("*{below}")))
}

fn repeated(count: usize, line: impl Fn(usize) -> String) -> String {
    (0..count).map(line).collect::<Vec<_>>().concat()
}

fn pod(spec: &str) -> String {
    format!("apiVersion: v1\nkind: Pod\nmetadata: {{name: a}}\nspec:\n{spec}")
}

/// The name, the manifest, and the expected problem.
type Attack = (&'static str, fn() -> String, &'static str);

const ATTACKS_ON_THE_PARSER: &[Attack] = &[
    ("a billion laughs", billion_laughs, "too complex: aliases repeat too much"),
    (
        "a long text many times",
        || format!("a: &a {}\nb: [{}]\n", "x".repeat(1 << 20), "*a,".repeat(900)),
        "too complex: too much text",
    ),
    ("brackets", || "[".repeat(100_000), "recursion limit exceeded"),
    ("dashes", || "- ".repeat(100_000), "too complex: too deeply nested"),
    (
        "steps",
        || repeated(1000, |depth| format!("{}a:\n", " ".repeat(depth))),
        "too complex: too deeply nested",
    ),
    (
        "brackets in JSON",
        || format!("{{\"a\":{}", "[".repeat(100_000)),
        "too complex: too deeply nested",
    ),
    ("braces in JSON", || "{\"a\":".repeat(100_000), "too complex: too deeply nested"),
    ("values", || format!("a: [{}]", "1,".repeat(4 << 20)), "too complex: too many values"),
    (
        "values in JSON",
        || format!("{{\"a\":[{}0]}}", "1,".repeat(4 << 20)),
        "too complex: too many values",
    ),
    (
        "aliases",
        || format!("a: &a 1\nb: [{}]\n", "*a,".repeat(5000)),
        "too complex: too many anchors and aliases",
    ),
    (
        "merges",
        || format!("a: &a {{x: 1}}\n{}", repeated(5000, |n| format!("k{n}: {{<<: *a}}\n"))),
        "too complex: too many anchors and aliases",
    ),
    ("an alias in itself", || "a: &a [*a]".to_owned(), "YAML: "),
    ("one long line", || "x".repeat(MAX_MANIFEST_BYTES), "found a text"),
    ("one long comment", || format!("#{}", "x".repeat(MAX_MANIFEST_BYTES - 1)), "is empty"),
    ("empty lines", || "\n".repeat(MAX_MANIFEST_BYTES), "is empty"),
    ("documents", || "---\n".repeat(MAX_MANIFEST_BYTES / 4), "is empty"),
];

/// Pods that can be decoded and have as many problems as possible.
const ATTACKS_ON_THE_RULES: &[Attack] = &[
    (
        "containers",
        || pod(&format!("  containers:\n{}", repeated(33_000, |_| "  - {name: A}\n".to_owned()))),
        "more",
    ),
    (
        "mounts and devices",
        || {
            let mounts = repeated(9_000, |n| format!("    - {{name: m{n}, mountPath: /m}}\n"));
            let devices = repeated(9_000, |n| format!("    - {{name: d{n}, devicePath: /d}}\n"));
            pod(&format!(
                "  containers:\n  - name: a\n    image: b\n    volumeMounts:\n{mounts}    \
                 volumeDevices:\n{devices}"
            ))
        },
        "Not found: \"m0\"",
    ),
    (
        "volumes",
        || pod(&format!("  volumes:\n{}", repeated(33_000, |_| "  - {name: a}\n".to_owned()))),
        "Duplicate value: \"a\"",
    ),
    (
        "pods",
        || {
            let pods = repeated(20_000, |_| "- {spec: {}}\n".to_owned());
            format!("apiVersion: v1\nkind: PodList\nitems:\n{pods}")
        },
        "items[0].metadata.name: Required value",
    ),
];

#[test]
fn malicious_manifests_are_rejected_within_time_and_memory() {
    let before = peak_bytes();
    for (what, manifest, expected) in ATTACKS_ON_THE_PARSER.iter().chain(ATTACKS_ON_THE_RULES) {
        let manifest = manifest();
        let start = Instant::now();
        let text = problem(&manifest);
        let took = start.elapsed();

        assert!(text.contains(*expected), "{what}: {text}");
        assert!(text.len() < 20_000, "{what}: the message has {} bytes", text.len());
        assert!(took < LONGEST, "{what}: took {took:?}");
    }
    let grown = peak_bytes() - before;
    assert!(grown < MOST_BYTES, "the memory grew by {grown} bytes");
}
