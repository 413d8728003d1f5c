use std::collections::BTreeSet;
use std::path::Path;

use super::*;

#[test]
fn defaults_and_effective_fields_are_not_reported() {
    let flags = FlagSet::parse(["--root-dir=/a", "--pod-manifest-path=/b", "-v=4"]).unwrap();
    let loaded = config::load_sources(None, None, &flags).unwrap();
    assert_eq!(without_effect(&flags, &loaded.config), [""; 0]);
    let flags = FlagSet::parse(["--config=x"]).unwrap();
    let mut config = KubeletConfiguration::of_empty_file();
    config.enable_server = false;
    config.fail_cgroup_v1 = false;
    assert_eq!(without_effect(&flags, &config), [""; 0]);
}

#[test]
fn effective_gates_exist() {
    let gates = FIELDS.iter().filter_map(|field| field.strip_prefix("featureGates."));
    let unknown: Vec<&str> = gates.filter(|name| config::gates::find(name).is_none()).collect();
    assert_eq!(unknown, [""; 0]);
}

#[test]
fn gates_without_effect_are_reported() {
    let flags = FlagSet::parse(["--config=x"]).unwrap();
    let mut config = KubeletConfiguration::of_empty_file();
    let rows = ["AllAlpha", "AllBeta", "ContainerRestartRules", "KubeletCrashLoopBackOffMax"];
    for name in rows {
        config.feature_gates.insert(name.to_owned(), false);
    }
    assert_eq!(without_effect(&flags, &config), [""; 0]);
    config.feature_gates.insert("MemoryQoS".to_owned(), true);
    assert_eq!(without_effect(&flags, &config), ["featureGates.MemoryQoS"]);
}

/// The words in backticks in the lines of a document between two texts.
fn named<'a>(document: &'a str, from: &str, to: &str) -> Vec<&'a str> {
    let (_, rest) = document.split_once(from).expect(from);
    let (section, _) = rest.split_once(to).expect(to);
    let mut names: Vec<&str> = section
        .lines()
        .filter(|line| !line.starts_with("| field"))
        .map(|line| line.strip_prefix("| ").map_or(line, |row| row.split('|').next().unwrap()))
        .flat_map(|line| line.split('`').skip(1).step_by(2))
        .collect();
    names.sort_unstable();
    names
}

// behaviour: CFG-62
#[test]
#[cfg(feature = "otel")]
fn document_lists_effective_settings() {
    let document = include_str!("../../../docs/configuration.md");
    let table = named(document, "## What takes effect", "The warning does not name");
    let mut fields: Vec<&str> =
        FIELDS.iter().filter(|name| !["apiVersion", "kind"].contains(name)).copied().collect();
    fields.sort_unstable();
    assert_eq!(table, fields);
    let flags = named(document, "Flags without a field", "## Settings of our own");
    assert_eq!(flags, FLAGS.iter().map(|name| format!("--{name}")).collect::<Vec<_>>());
}

/// The lines of a table, from its header on.
fn table<'a>(document: &'a str, header: &str) -> Vec<&'a str> {
    let lines = document.lines().skip_while(|line| !line.starts_with(header));
    lines.take_while(|line| line.starts_with('|')).collect()
}

#[test]
fn feature_tables_match() {
    let header = "| feature of the kubelet |";
    let readme = table(include_str!("../../../README.md"), header);
    assert!(readme.len() > 10, "{readme:?}");
    assert_eq!(readme, table(include_str!("../../../docs/cluster.md"), header));
    for row in &readme[2..] {
        let cell = row.split('|').nth(2).unwrap().trim();
        assert!(["works", "ignored", "refused"].contains(&cell), "{row}");
    }
}

// behaviour: CFG-81
#[test]
fn document_lists_own_settings() {
    let document = include_str!("../../../docs/configuration.md");
    let (_, rest) = document.split_once("## Settings of our own").unwrap();
    let rows = rest.lines().filter_map(|line| line.strip_prefix("| `"));
    let rows: Vec<Vec<&str>> = rows
        .map(|row| row.split('|').map(|cell| cell.trim().trim_matches('`')).collect())
        .collect();
    let mut reported: Vec<(String, String)> =
        rows.iter().map(|row| (row[0].to_owned(), row[1].to_owned())).collect();
    let mut fields = Vec::new();
    collect_leaves("", &config::FerroletConfiguration::default().to_document(), &mut fields);
    fields.retain(|(name, _)| !["apiVersion", "kind"].contains(&name.as_str()));
    reported.sort();
    fields.sort();
    assert_eq!(reported, fields);
}

/// Every value of a document, with its path.
fn collect_leaves(path: &str, value: &Value, leaves: &mut Vec<(String, String)>) {
    match value {
        Value::Object(fields) => {
            for (name, value) in fields {
                let dot = if path.is_empty() { "" } else { "." };
                collect_leaves(&format!("{path}{dot}{name}"), value, leaves);
            }
        }
        Value::String(text) => leaves.push((path.to_owned(), text.clone())),
        other => leaves.push((path.to_owned(), other.to_string())),
    }
}

// behaviour: CFG-60
#[test]
fn flags_and_fields_without_effect_are_reported() {
    let flags =
        FlagSet::parse(["--lock-file=/a", "--node-ip=::1", "--volume-plugin-dir=/v"]).unwrap();
    let loaded = config::load_sources(None, None, &flags).unwrap();
    let named = without_effect(&flags, &loaded.config);
    assert_eq!(named, ["--lock-file", "volumePluginDir"]);
    let flags = FlagSet::parse(["--config=x"]).unwrap();
    let mut config = KubeletConfiguration::of_empty_file();
    config.memory_swap.swap_behavior = Some(config::SwapBehavior::LimitedSwap);
    config.logging.verbosity = 9;
    let named = without_effect(&flags, &config);
    assert_eq!(named, ["memorySwap.swapBehavior"]);
}

/// Fields without effect, with the reason.
const IDLE: &[(&str, &[&str])] = &[
    ("there are no profiles", &["enableContentionProfiling", "enableProfilingHandler"]),
    ("there are no hidden metrics", &["showHiddenMetricsForVersion"]),
    ("the API server is spoken to in JSON", &["contentType"]),
    ("there are no plugins for volumes", &["volumePluginDir"]),
    (
        "nothing is handed out to single pods",
        &[
            "cpuManagerPolicy",
            "cpuManagerPolicyOptions",
            "cpuManagerReconcilePeriod",
            "memoryManagerPolicy",
            "reservedMemory",
            "topologyManagerPolicy",
            "topologyManagerPolicyOptions",
            "topologyManagerScope",
        ],
    ),
    (
        "memory is limited and not kept back or throttled",
        &["memoryReservationPolicy", "memoryThrottlingFactor", "qosReserved"],
    ),
    ("no pod uses swap", &["memorySwap"]),
    ("processes outside pods stay in their cgroups", &["kubeletCgroups", "systemCgroups"]),
    (
        "a shutdown of the machine is not waited for",
        &[
            "shutdownGracePeriod",
            "shutdownGracePeriodByPodPriority",
            "shutdownGracePeriodCriticalPods",
        ],
    ),
    (
        "no effect upstream either",
        &[
            "hairpinMode",
            "iptablesDropBit",
            "iptablesMasqueradeBit",
            "runOnce",
            "streamingConnectionIdleTimeout",
        ],
    ),
];

/// Fields that affect the configuration itself, or its validation.
const WHILE_READING: &[&str] = &["failCgroupV1", "mergeDefaultEvictionSettings"];

fn idle() -> impl Iterator<Item = &'static str> {
    IDLE.iter().flat_map(|(_, fields)| fields.iter().copied())
}

/// The fields of the configuration with a full or partial effect.
fn acted_on() -> BTreeSet<&'static str> {
    let fields = FIELDS.iter().filter_map(|path| path.split('.').next());
    fields.filter(|name| !["apiVersion", "kind"].contains(name)).collect()
}

// behaviour: CFG-62
#[test]
#[cfg(feature = "otel")]
fn every_field_has_an_effect_or_a_documented_reason() {
    let mut reported: Vec<&str> = acted_on().into_iter().chain(idle()).collect();
    reported.sort_unstable();
    let mut fields = KubeletConfiguration::FIELDS.to_vec();
    fields.sort_unstable();
    assert_eq!(reported, fields);
}

/// The sources of the agent without tests and white space, by path.
fn sources() -> Vec<(String, String)> {
    let crates = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/.."));
    let mut found = Vec::new();
    collect_sources(crates, &mut found);
    // Checks and defaults of a field do not count as its effect; helpers that answer questions about it
    // do, because others call them.
    found.retain(|(path, _)| {
        let aside =
            ["config/", "proto/", "sim/", "testkit/"].iter().any(|aside| path.starts_with(aside));
        !aside || path == "config/src/effective.rs"
    });
    assert!(found.len() > 300, "{} files", found.len());
    found
}

#[expect(clippy::disallowed_methods, reason = "the sources there are")]
fn collect_sources(directory: &Path, found: &mut Vec<(String, String)>) {
    let crates = concat!(env!("CARGO_MANIFEST_DIR"), "/..");
    for entry in std::fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_str().unwrap().to_owned();
        if name.contains("test") && name != "testkit" {
            continue;
        }
        if path.is_dir() {
            collect_sources(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            let text = std::fs::read_to_string(&path).unwrap();
            let code = text.split("#[cfg(test)]\nmod tests {").next().unwrap_or_default();
            let lines = code.lines().map(|line| line.split("//").next().unwrap_or_default());
            let code = lines.flat_map(str::chars).filter(|char| !char.is_whitespace()).collect();
            let path = path.strip_prefix(crates).unwrap().to_str().unwrap().to_owned();
            found.push((path, code));
        }
    }
}

/// The variable names through which code reads a field of the configuration.
fn readers<'a>(sources: &'a [(String, String)], member: &str) -> Vec<&'a str> {
    let goes_on = |char: char| char.is_alphanumeric() || char == '_' || char == '(';
    let takes = |path: &str, code: &str| {
        let holders: &[&str] =
            if path == "config/src/effective.rs" { &["self"] } else { &["config", "kubelet"] };
        holders.iter().any(|holder| {
            let field = format!("{holder}.{member}");
            let mut places = code.match_indices(&field);
            places.any(|(at, _)| !code[at + field.len()..].starts_with(goes_on))
        })
    };
    let found = sources.iter().filter(|(path, code)| takes(path, code));
    found.map(|(path, _)| path.as_str()).collect()
}

// behaviour: CFG-62
#[test]
#[cfg(feature = "otel")]
fn effective_fields_are_read_by_the_code() {
    let sources = sources();
    let acted_on = acted_on();
    let members = KubeletConfiguration::FIELDS.iter().zip(KubeletConfiguration::MEMBERS);
    for (field, member) in members {
        let (readers, listed) = (readers(&sources, member), acted_on.contains(field));
        let exceptions = if listed { WHILE_READING } else { &[] };
        let expected = listed != exceptions.contains(field);
        assert_eq!(!readers.is_empty(), expected, "{field}: read by {readers:?}");
    }
}

#[test]
fn built_in_features_are_existing_gates_that_the_code_does_not_read() {
    for name in BUILT_IN {
        assert!(config::gates::find(name).is_some(), "{name}");
        assert!(!FIELDS.contains(&format!("featureGates.{name}").as_str()), "{name}");
    }
}

#[test]
fn listed_default_values_are_the_actual_defaults() {
    let document = KubeletConfiguration::of_empty_file().to_document();
    for (path, value) in DEFAULTS_IN_EFFECT {
        assert_eq!(document[path], value.parse::<Value>().unwrap(), "{path}");
    }
}

// behaviour: CFG-62
#[test]
fn effective_gates_are_read_by_the_code() {
    let sources = sources();
    let own = ["ferrolet/src/supported_settings.rs"];
    for gate in config::gates::known() {
        let name = format!("\"{}\"", gate.name);
        let requested = sources
            .iter()
            .any(|(path, code)| !own.contains(&path.as_str()) && code.contains(&name));
        let requested = requested && !BUILT_IN.contains(&gate.name);
        // The first decides on a default; ClusterTrustBundleProjection requires the second.
        let by_other = ["KubeletCrashLoopBackOffMax", "ClusterTrustBundle"].contains(&gate.name);
        let requested = requested || by_other;
        let listed = FIELDS.contains(&format!("featureGates.{}", gate.name).as_str());
        assert_eq!(listed, requested, "{}", gate.name);
        assert!(!(listed && gate.locked), "{} cannot be switched", gate.name);
    }
}

// behaviour: CFG-62
#[test]
fn effective_flags_are_read_by_the_code() {
    let mut sources = sources();
    sources.retain(|(path, _)| {
        path.starts_with("ferrolet/") && path != "ferrolet/src/supported_settings.rs"
    });
    for flag in known().iter().filter(|flag| matches!(flag.target, Target::Own { .. })) {
        let name = format!("\"{}\"", flag.name);
        let requested = match flag.name {
            // It has its own accessor function.
            "node-labels" => sources.iter().any(|(_, code)| code.contains("flags.node_labels()")),
            _ => sources.iter().any(|(_, code)| code.contains(&name)),
        };
        assert_eq!(FLAGS.contains(&flag.name), requested, "--{}", flag.name);
    }
}

// behaviour: CFG-61
#[test]
fn values_that_match_the_behaviour_are_not_reported() {
    let document = include_str!("../../../docs/configuration.md");
    let flags = FlagSet::parse(["--config=x"]).unwrap();
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("kubelet.yaml");
    for (path, value) in VALUES_IN_EFFECT {
        let field = match path.split_once('.') {
            Some((above, below)) => format!("{above}: {{{below}: {value}}}"),
            None => format!("{path}: {value}"),
        };
        let text = format!(
            "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\n{field}\n"
        );
        hostfs::replace(&file, text.as_bytes()).unwrap();
        let loaded = config::load(&file).unwrap();
        assert_ne!(loaded.config, KubeletConfiguration::of_empty_file(), "{path} is a default");
        assert_eq!(without_effect(&flags, &loaded.config), [""; 0], "{path}");
        let reported = format!("`{path}: {}`", value.trim_matches('"'));
        assert!(document.contains(&reported), "{reported}");
    }
}
