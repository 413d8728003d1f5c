//! The command line, and its precedence over the file.

use std::path::Path;

use config::flags::{self, FlagError, FlagSet, Syntax, Target};
use config::{
    ConfigError, EvictionSignal, GoDuration, KubeletConfiguration, TaintEffect, Warning,
    load_sources,
};
use model::chain::Chain;

use crate::Node;

fn parse(args: &[&str]) -> FlagSet {
    FlagSet::parse(args.iter().copied()).unwrap()
}

/// The configuration of a start with only flags.
fn started(args: &[&str]) -> KubeletConfiguration {
    match load_sources(None, None, &parse(args)) {
        Ok(loaded) => loaded.config,
        Err(error) => panic!("{args:?}: {}", Chain(&error)),
    }
}

#[test]
fn flag_table_is_sorted_and_every_flag_has_a_field() {
    assert!(flags::known().is_sorted_by(|one, other| one.name < other.name));
    let config = KubeletConfiguration::default().to_document();
    for flag in flags::known() {
        if let Target::Field { path, .. } = flag.target {
            let first = path.split('.').next().unwrap();
            assert!(KubeletConfiguration::FIELDS.contains(&first), "--{}", flag.name);
            if path.contains('.') && !path.ends_with("clientCAFile") && !path.contains("options") {
                let pointer = format!("/{}", path.replace('.', "/"));
                let known = config.pointer(&pointer).is_some() || path == "logging.vmodule";
                assert!(known, "--{}: {path}", flag.name);
            }
        }
    }
}

// behaviour: CFG-40
#[test]
fn flag_syntax_accepts_equals_space_and_shorthand() {
    for args in [
        &["--max-pods=7"][..],
        &["--max-pods", "7"],
        &["--max_pods=7"],
        &["--max-pods=1", "--max-pods=7"],
        &["--max-pods=0x7"],
        &["--max-pods=7", "--"],
    ] {
        assert_eq!(started(args).max_pods, 7, "{args:?}");
    }
    for args in [&["-v=4"][..], &["-v", "4"], &["-v4"], &["--v=4"], &["--v", "04"]] {
        assert_eq!(started(args).logging.verbosity, 4, "{args:?}");
    }
}

// behaviour: CFG-41
#[test]
fn boolean_flag_never_takes_the_next_argument() {
    for (args, expected) in [
        (&["--rotate-certificates"][..], true),
        (&["--rotate-certificates=true"], true),
        (&["--rotate-certificates=1"], true),
        (&["--rotate-certificates", "--rotate-certificates=false"], false),
        (&["--rotate-certificates=F"], false),
    ] {
        assert_eq!(started(args).rotate_certificates, expected, "{args:?}");
    }
    assert_eq!(
        FlagSet::parse(["--rotate-certificates", "false"]),
        Err(FlagError::Positional { argument: "false".to_owned() })
    );
}

// behaviour: CFG-42
#[test]
fn invalid_command_line_is_refused() {
    for (args, expected) in [
        (&["--max-pod=7"][..], "unknown flag --max-pod"),
        (&["-x"], "unknown flag -x"),
        (&["-vx"], "flag --v cannot be \"x\": expected an integer"),
        (&["--max-pods"], "flag --max-pods needs a value"),
        (&["-v"], "flag -v needs a value"),
        (&["--max-pods=many"], "flag --max-pods cannot be \"many\": expected an integer"),
        (
            &["--sync-frequency=1"],
            "flag --sync-frequency cannot be \"1\": \"1\" is not a duration such as 1m30s, 20s or \
             100ms",
        ),
        (
            &["--enable-server=yes"],
            "flag --enable-server cannot be \"yes\": expected true or false",
        ),
        (&["run"], "unexpected argument \"run\""),
        (&["--", "--max-pods=7"], "unexpected argument \"--max-pods=7\""),
        (&["-"], "unexpected argument \"-\""),
        (
            &["--network-plugin=cni"],
            "flag --network-plugin was removed from Kubernetes: networks are configured in the \
             container runtime",
        ),
        (
            &["--eviction-hard=memory.available=1Gi"],
            "flag --eviction-hard cannot be \"memory.available=1Gi\": expected pairs of the form \
             key<value",
        ),
        (
            &["--manifest-url-header=secret"],
            "flag --manifest-url-header cannot be \"<masked>\": expected pairs of the form \
             key:value",
        ),
        (
            &["--feature-gates=A=maybe"],
            "flag --feature-gates cannot be \"A=maybe\": the value of A must be true or false",
        ),
        (
            &["--register-with-taints=a:NoSchedule,a:NoSchedule"],
            "flag --register-with-taints cannot be \"a:NoSchedule,a:NoSchedule\": a:NoSchedule is \
             given twice",
        ),
    ] {
        let error = FlagSet::parse(args.iter().copied()).unwrap_err();
        assert_eq!(error.to_string(), expected, "{args:?}");
    }
}

// behaviour: CFG-43
#[test]
fn repeated_list_and_map_flags_are_appended() {
    let config = started(&[
        "--cluster-dns=10.0.0.1,10.0.0.2",
        "--cluster-dns=10.0.0.3",
        "--system-reserved=cpu=1, memory = 2Gi",
        "--system-reserved=pid=9",
        "--eviction-hard=memory.available<1Gi,nodefs.available<5%",
        "--eviction-soft=memory.available<2Gi",
        "--eviction-soft-grace-period=memory.available=1m30s",
        "--reserved-memory=0:memory=1Gi,hugepages-2Mi=2Mi",
        "--reserved-memory=1:memory=1Gi",
        "--manifest-url-header=a:1,b:2",
        "--manifest-url-header=a:3",
        "--cpu-manager-policy=static",
        "--cpu-manager-policy-options=full-pcpus-only=true",
        "--register-with-taints=x=1:NoSchedule",
        "--register-with-taints=y:NoExecute",
        "--vmodule=a*=2,b=3",
    ]);
    assert_eq!(config.cluster_dns, ["10.0.0.1", "10.0.0.2", "10.0.0.3"]);
    assert_eq!(config.system_reserved.len(), 3);
    assert_eq!(config.eviction_hard.len(), 2);
    assert_eq!(
        *config.eviction_soft_grace_period[&EvictionSignal::MemoryAvailable],
        GoDuration::from_secs(90)
    );
    assert_eq!(config.reserved_memory.len(), 2);
    assert_eq!(config.reserved_memory[0].limits.len(), 2);
    assert_eq!(config.static_pod_url_header["a"], ["1", "3"]);
    assert_eq!(config.cpu_manager_policy_options["full-pcpus-only"], "true");
    // Taints are replaced each time.
    assert_eq!(config.register_with_taints.len(), 1);
    assert_eq!(config.register_with_taints[0].effect, Some(TaintEffect::NoExecute));
    assert_eq!(config.logging.vmodule[1].verbosity, 3);
}

// behaviour: CFG-1, CFG-43
#[test]
fn flags_override_the_file() {
    let node = Node::with_fields(
        "maxPods: 50\npodsPerCore: 5\nclusterDNS: [10.0.0.1]\nstaticPodPath: manifests\n\
         evictionHard: {memory.available: 1Gi, pid.available: 5%}\nreadOnlyPort: 1\n\
         featureGates: {MemoryQoS: true, KubeletSeparateDiskGC: false}",
    );
    let flags = parse(&[
        "--max-pods=60",
        "--cluster-dns=10.0.0.9",
        "--eviction-hard=nodefs.available<5%",
        "--read-only-port=0",
        "--feature-gates=KubeletSeparateDiskGC=true",
        "--address=",
        "--resolv-conf=",
        "--tls-min-version=",
    ]);
    let config = load_sources(Some(&node.file()), None, &flags).unwrap().config;
    assert_eq!(config.max_pods, 60);
    assert_eq!(config.pods_per_core, 5);
    assert_eq!(config.cluster_dns, ["10.0.0.9"]);
    assert_eq!(
        config.eviction_hard.into_keys().collect::<Vec<_>>(),
        [EvictionSignal::NodeFsAvailable]
    );
    assert_eq!(config.read_only_port, 0);
    assert_eq!(config.address.to_string(), "0.0.0.0");
    assert_eq!(config.resolv_conf, "");
    assert_eq!(config.tls_min_version, None);
    // Only feature gates are merged key by key.
    assert!(config.feature_gates["MemoryQoS"]);
    assert!(config.feature_gates["KubeletSeparateDiskGC"]);
}

// behaviour: CFG-44
#[test]
fn zero_of_a_flag_is_not_replaced_by_a_default() {
    assert_eq!(started(&["--max-pods=0"]).max_pods, 0);
    let error = load_sources(None, None, &parse(&["--port=0"])).unwrap_err();
    assert!(Chain(&error).to_string().contains("port: must be from 1 to 65535"));
    let error = load_sources(None, None, &parse(&["--container-runtime-endpoint="])).unwrap_err();
    assert!(Chain(&error).to_string().contains("containerRuntimeEndpoint: must not be empty"));
}

// behaviour: CFG-2
#[test]
fn start_with_flags_only_has_no_hard_eviction() {
    let config = started(&[]);
    assert_eq!(config.eviction_hard.len(), 0);
    assert_eq!(config.read_only_port, 10_255);
}

// behaviour: CFG-54
#[test]
fn feature_gate_flags_affect_defaults_of_the_file() {
    let node = Node::with_fields("");
    let flags = parse(&["--feature-gates=KubeletCrashLoopBackOffMax=false"]);
    for file in [Some(node.file()), None] {
        let config = load_sources(file.as_deref(), None, &flags).unwrap().config;
        assert_eq!(config.crash_loop_back_off.max_container_restart_period, None);
    }
}

#[test]
fn invalid_flag_value_is_an_error_that_names_the_flag() {
    let flags = parse(&["--cgroup-driver=docker", "--port=70000", "--kube-reserved=gpu=1"]);
    let Err(ConfigError::Invalid { source, .. }) = load_sources(None, None, &flags) else {
        panic!("accepted");
    };
    let found: Vec<String> = source.0.iter().map(ToString::to_string).collect();
    assert_eq!(
        found,
        [
            "--cgroup-driver: cgroupDriver: \"docker\" is not one of cgroupfs, systemd",
            "--kube-reserved: kubeReserved.gpu: \"gpu\" is not one of cpu, memory, ephemeral-storage, pid",
            "--port: port: expected an integer from 0 to 65535, found the number 70000",
        ]
    );
}

// behaviour: CFG-46
#[test]
fn flags_without_a_field_are_validated() {
    for (args, expected) in [
        (&["--cloud-provider=aws"][..], "--cloud-provider: \"aws\" is not built in"),
        (&["--exit-on-lock-contention"], "--exit-on-lock-contention: needs --lock-file"),
        (&["--node-labels=kubernetes.io/role=x"], "--node-labels: "),
    ] {
        let error = Chain(&load_sources(None, None, &parse(args)).unwrap_err()).to_string();
        assert!(error.contains(expected), "{args:?}: {error}");
    }
    started(&["--cloud-provider=external", "--exit-on-lock-contention", "--lock-file=/l"]);
    started(&["--cloud-provider=", "--node-labels=example.com/role=x"]);
}

// behaviour: CFG-45
#[test]
fn deprecated_flags_are_warned_about_once() {
    let flags = parse(&[
        "--max-pods=1",
        "--max-pods=2",
        "--boot-id-file=x",
        "--maximum-dead-containers=3",
        "--v=2",
        "--kubeconfig=/k",
    ]);
    let warnings: Vec<String> = flags.warnings().iter().map(Warning::to_string).collect();
    assert_eq!(
        warnings,
        [
            "--boot-id-file: the flag is deprecated, it has no effect",
            "--max-pods: the flag is deprecated, set maxPods in the file given by --config",
            "--maximum-dead-containers: the flag is deprecated, upstream will drop it in favour of \
             eviction; it has an effect here",
        ]
    );
}

#[test]
fn flags_without_a_field_are_read_by_name() {
    let flags = parse(&[
        "--kubeconfig=/k",
        "--maximum-dead-containers=3",
        "--node-labels=a=1,b",
        "--node-labels=c=3",
        "--seccomp-default",
        "--version=raw",
        "--minimum-container-ttl-duration=5s",
    ]);
    assert_eq!(flags.text("kubeconfig"), "/k");
    assert_eq!(flags.text("root-dir"), "/var/lib/kubelet");
    assert_eq!(flags.text("version"), "raw");
    assert_eq!(flags.integer("maximum-dead-containers"), Some(3));
    assert_eq!(flags.integer("maximum-dead-containers-per-container"), Some(1));
    assert_eq!(flags.duration("minimum-container-ttl-duration"), Some(GoDuration::from_secs(5)));
    assert!(flags.is_on("seccomp-default"));
    assert!(!flags.is_on("exit-on-lock-contention"));
    assert!(flags.is_given("kubeconfig") && !flags.is_given("root-dir"));
    let labels: Vec<_> = flags.node_labels().into_iter().collect();
    let label = |key: &str, value: &str| (key.to_owned(), value.to_owned());
    assert_eq!(labels, [label("a", "1"), label("b", ""), label("c", "3")]);
}

#[test]
fn default_of_every_flag_is_a_valid_value() {
    for flag in flags::known() {
        if let Target::Own { default, .. } = flag.target {
            let args = [format!("--{}={default}", flag.name)];
            assert!(FlagSet::parse(args).is_ok(), "--{}", flag.name);
            assert_ne!(flag.syntax, Syntax::Gates);
        }
    }
}

// behaviour: CFG-7
#[test]
fn validation_errors_name_the_file() {
    let node = Node::with_fields("containerLogMaxFiles: 1");
    let error = Chain(&load_sources(Some(&node.file()), None, &FlagSet::default()).unwrap_err())
        .to_string();
    assert!(error.contains("kubelet.yaml: containerLogMaxFiles"), "{error}");
    let flags = parse(&["--container-log-max-files=1"]);
    let error = Chain(&load_sources(None::<&Path>, None, &flags).unwrap_err()).to_string();
    assert!(error.contains("--container-log-max-files: containerLogMaxFiles"), "{error}");
}
