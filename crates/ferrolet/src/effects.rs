//! Which settings have an effect. The others are accepted, since a configuration is shared with the
//! upstream kubelet, but whoever sets them should know.

use config::KubeletConfiguration;
use config::flags::{Flag, FlagSet, Target, known};
use serde_json::Value;

/// Fields of the configuration that the agent acts on, each with all that is below it.
const FIELDS: &[&str] = &[
    "allowedUnsafeSysctls",
    "apiVersion",
    "cgroupDriver",
    "cgroupRoot",
    "cgroupsPerQOS",
    "clusterDNS",
    "clusterDomain",
    "configMapAndSecretChangeDetectionStrategy",
    "containerRuntimeEndpoint",
    "cpuCFSQuota",
    "cpuCFSQuotaPeriod",
    "crashLoopBackOff",
    "enforceNodeAllocatable",
    "eventBurst",
    "eventRecordQPS",
    "evictionHard.memory.available",
    "evictionHard.nodefs.available",
    "failCgroupV1",
    "failSwapOn",
    "featureGates.ContainerRestartRules",
    "featureGates.ContainerStopSignals",
    "featureGates.CustomCPUCFSQuotaPeriod",
    "featureGates.EventedPLEG",
    "featureGates.InPlacePodLevelResourcesVerticalScaling",
    "featureGates.InPlacePodVerticalScalingInitContainers",
    "featureGates.KubeletCrashLoopBackOffMax",
    "featureGates.NodeDeclaredFeatures",
    "featureGates.PodLevelResources",
    "featureGates.RestartAllContainersOnContainerExits",
    "featureGates.RuntimeClassInImageCriApi",
    "featureGates.ReduceDefaultCrashLoopBackOffDecay",
    "featureGates.UserNamespacesHostNetworkSupport",
    "fileCheckFrequency",
    "httpCheckFrequency",
    "healthzBindAddress",
    "healthzPort",
    "imageGCHighThresholdPercent",
    "imageGCLowThresholdPercent",
    "imageMaximumGCAge",
    "imageMinimumGCAge",
    "imageServiceEndpoint",
    "kind",
    "kubeAPIBurst",
    "kubeAPIQPS",
    "kubeReserved",
    "kubeReservedCgroup",
    "localStorageCapacityIsolation",
    "logging.format",
    "logging.verbosity",
    "maxPods",
    "nodeLeaseDurationSeconds",
    "nodeStatusMaxImages",
    "nodeStatusReportFrequency",
    "nodeStatusUpdateFrequency",
    "oomScoreAdj",
    "podLogsDir",
    "podPidsLimit",
    "podsPerCore",
    "providerID",
    "registerNode",
    "registerWithTaints",
    "reservedSystemCPUs",
    "resolvConf",
    "runtimeRequestTimeout",
    "seccompDefault",
    "singleProcessOOMKill",
    "staticPodPath",
    "staticPodURL",
    "staticPodURLHeader",
    "syncFrequency",
    "systemReserved",
    "systemReservedCgroup",
    #[cfg(feature = "otel")]
    "tracing",
    "userNamespaces",
];

/// What switches all gates of a stage, those with an effect among them.
const STAGES: [&str; 2] = ["featureGates.AllAlpha", "featureGates.AllBeta"];

/// Values that say what the agent does anyway.
const AS_IT_IS: &[(&str, Value)] = &[("enableServer", Value::Bool(false))];

/// Flags without a field that the agent acts on.
const FLAGS: &[&str] = &[
    "cloud-provider",
    "config",
    "config-dir",
    "experimental-allocatable-ignore-eviction",
    "ferrolet-config",
    "help",
    "hostname-override",
    "kubeconfig",
    "maximum-dead-containers",
    "maximum-dead-containers-per-container",
    "minimum-container-ttl-duration",
    "node-ip",
    "node-labels",
    "root-dir",
    "seccomp-default",
    "version",
];

/// Whether a flag has an effect, or some of what can be set with it has.
pub(crate) fn has_effect(flag: &Flag) -> bool {
    match flag.target {
        Target::Field { path, .. } => FIELDS.iter().any(|field| {
            field.strip_prefix(path).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
        }),
        _ => FLAGS.contains(&flag.name),
    }
}

/// What was set without effect: flags by name, then fields by path.
pub(crate) fn without_effect(flags: &FlagSet, config: &KubeletConfiguration) -> Vec<String> {
    let own = known().iter().filter(|flag| matches!(flag.target, Target::Own { .. }));
    let given = own.filter(|flag| flags.is_given(flag.name) && !FLAGS.contains(&flag.name));
    let mut settings: Vec<String> = given.map(|flag| format!("--{}", flag.name)).collect();
    let default = if flags.is_given("config") {
        KubeletConfiguration::of_empty_file()
    } else {
        KubeletConfiguration::without_file(&flags.feature_gates())
    };
    collect("", &config.to_document(), &default.to_document(), &mut settings);
    settings
}

/// Whether some of what is below a field has an effect.
fn has_parts(path: &str) -> bool {
    let below = |field: &&str| field.strip_prefix(path).is_some_and(|rest| rest.starts_with('.'));
    FIELDS.iter().any(below)
}

/// Collects the paths of fields that differ from their defaults and have no effect.
fn collect(path: &str, value: &Value, default: &Value, settings: &mut Vec<String>) {
    let has_effect = FIELDS.contains(&path) || STAGES.contains(&path);
    if value == default || has_effect || AS_IT_IS.contains(&(path, value.clone())) {
        return;
    }
    match value {
        Value::Object(fields) if path.is_empty() || default.is_object() || has_parts(path) => {
            for (name, value) in fields {
                let below = if path.is_empty() { name.clone() } else { format!("{path}.{name}") };
                collect(&below, value, &default[name], settings);
            }
        }
        _ => settings.push(path.to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_said_of_defaults_and_of_what_has_an_effect() {
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
    fn gates_that_have_an_effect_are_gates_that_exist() {
        let gates = FIELDS.iter().filter_map(|field| field.strip_prefix("featureGates."));
        let unknown: Vec<&str> = gates.filter(|name| config::gates::find(name).is_none()).collect();
        assert_eq!(unknown, [""; 0]);
    }

    #[test]
    fn of_gates_those_are_named_that_switch_nothing() {
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

    #[test]
    #[cfg(feature = "otel")]
    fn the_document_tells_what_takes_effect() {
        let document = include_str!("../../../docs/configuration.md");
        let table = named(document, "## What takes effect", "Flags without a field");
        let mut fields: Vec<&str> =
            FIELDS.iter().filter(|name| !["apiVersion", "kind"].contains(name)).copied().collect();
        fields.sort_unstable();
        assert_eq!(table, fields);
        let flags = named(document, "Flags without a field", "## Settings of our own");
        assert_eq!(flags, FLAGS.iter().map(|name| format!("--{name}")).collect::<Vec<_>>());
    }

    #[test]
    fn the_document_tells_the_settings_of_our_own() {
        let document = include_str!("../../../docs/configuration.md");
        let (_, rest) = document.split_once("## Settings of our own").unwrap();
        let rows = rest.lines().filter_map(|line| line.strip_prefix("| `"));
        let rows: Vec<Vec<&str>> = rows
            .map(|row| row.split('|').map(|cell| cell.trim().trim_matches('`')).collect())
            .collect();
        let mut told: Vec<(String, String)> =
            rows.iter().map(|row| (row[0].to_owned(), row[1].to_owned())).collect();
        let mut fields = Vec::new();
        collect_leaves("", &config::FerroletConfiguration::default().to_document(), &mut fields);
        fields.retain(|(name, _)| !["apiVersion", "kind"].contains(&name.as_str()));
        told.sort();
        fields.sort();
        assert_eq!(told, fields);
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

    #[test]
    fn flags_and_fields_without_effect_are_named() {
        let flags = FlagSet::parse(["--lock-file=/a", "--node-ip=::1", "--port=7"]).unwrap();
        let loaded = config::load_sources(None, None, &flags).unwrap();
        let named = without_effect(&flags, &loaded.config);
        assert_eq!(named, ["--lock-file", "port"]);
        let flags = FlagSet::parse(["--config=x"]).unwrap();
        let mut config = KubeletConfiguration::of_empty_file();
        config.authentication.x509.client_ca_file = "/ca".to_owned();
        config.logging.verbosity = 9;
        let named = without_effect(&flags, &config);
        assert_eq!(named, ["authentication.x509.clientCAFile"]);
    }
}
