use std::time::Duration;

use config::pod_gc::{Invocation, PodGcArguments, parse};

fn arguments(args: &[&str]) -> PodGcArguments {
    match parse(args.iter().copied()) {
        Ok(Invocation::Run(arguments)) => *arguments,
        other => panic!("{args:?}: {other:?}"),
    }
}

fn refused(args: &[&str]) -> String {
    parse(args.iter().copied()).unwrap_err().to_string()
}

// behaviour: PGC-110
#[test]
fn defaults_match_upstream_except_lease_name_and_port() {
    let arguments = arguments(&[]);
    assert_eq!(arguments.terminated.threshold, 12_500);
    assert_eq!((arguments.server.qps, arguments.server.burst), (20.0, 30));
    let election = arguments.election.unwrap();
    assert_eq!((&*election.namespace, &*election.name), ("kube-system", "ferrolet-pod-gc"));
    let times = [election.lease_duration, election.renew_deadline, election.retry_period];
    assert_eq!(times, [15, 10, 2].map(Duration::from_secs));
    assert_eq!((&*arguments.serving.address, arguments.serving.port), ("0.0.0.0", 10297));
    let taken = [10248, 10249, 10250, 10255, 10256, 10257, 10258, 10259, 10260];
    assert!(!taken.contains(&arguments.serving.port), "a port of a Kubernetes component");
    let times = [arguments.check_period, arguments.quarantine];
    assert_eq!(times, [20, 40].map(Duration::from_secs));
    assert_eq!((arguments.terminated.ttl, arguments.terminated.per_node), (None, None));
    assert_eq!((arguments.max_deletion_percent, arguments.dry_run), (None, false));
}

// behaviour: PGC-111
#[test]
fn threshold_of_zero_or_less_is_accepted_unchanged() {
    for (text, threshold) in [("0", 0), ("-1", -1), ("3", 3)] {
        let flag = format!("--terminated-pod-gc-threshold={text}");
        assert_eq!(arguments(&[&flag]).terminated.threshold, threshold);
    }
}

// behaviour: PGC-112
#[test]
fn flags_follow_upstream_syntax() {
    let given = arguments(&[
        "--kube_api_qps=7.5",
        "--leader-elect=false",
        "--kubeconfig",
        "/k",
        "--controllers=*,podgc",
        "-v=4",
        "--dry-run",
        "--terminated-pod-ttl=1h30m",
    ]);
    assert_eq!((given.server.qps, given.verbosity, given.dry_run), (7.5, 4, true));
    assert_eq!((given.election, given.terminated.ttl), (None, Some(Duration::from_mins(90))));
    assert_eq!(given.server.kubeconfig.unwrap().to_str(), Some("/k"));
}

// behaviour: PGC-113
#[test]
fn invalid_values_are_refused_with_the_flag_name() {
    for (args, named) in [
        (&["--nonsense"][..], "unknown flag --nonsense"),
        (&["extra"], "unexpected argument \"extra\""),
        (&["--leader-elect", "false"], "unexpected argument \"false\""),
        (&["--kube-api-qps=x"], "--kube-api-qps"),
        (&["--leader-elect-lease-duration=10s"], "--leader-elect-lease-duration"),
        (&["--leader-elect-retry-period=9s"], "--leader-elect-renew-deadline"),
        (&["--leader-elect-resource-lock=endpoints"], "--leader-elect-resource-lock"),
        (&["--controllers=-podgc"], "--controllers"),
        (&["--controllers=*,-pod-garbage-collector-controller"], "--controllers"),
        (&["--controllers=nodelifecycle"], "\"nodelifecycle\""),
        (&["--secure-port=70000"], "--secure-port"),
        (&["--terminated-pod-gc-threshold=3000000000"], "--terminated-pod-gc-threshold"),
        (&["--max-deletion-percent=101"], "--max-deletion-percent"),
        (&["--terminated-pod-order=age"], "--terminated-pod-order"),
        (&["--tls-cert-file=/c"], "--tls-private-key-file"),
        (&["--concurrent-deletions=0"], "--concurrent-deletions"),
        (&["--gc-check-period=0s"], "--gc-check-period is 0s, must be at least 100ms"),
        (&["--gc-check-period=99ms"], "--gc-check-period is 99ms, must be at least 100ms"),
        (&["--quarantine-time=0s"], "--quarantine-time is 0s, must be at least 100ms"),
        (&["--quarantine-time=-40s"], "--quarantine-time is -40s, must be at least 100ms"),
        (&["--exclude-labels=app in web"], "--exclude-labels: \"app in web\" is no requirement"),
        (&["--exclude-annotations==x"], "--exclude-annotations: \"=x\" is no requirement"),
        (&["--tls-min-version=1.3"], "--tls-min-version"),
        (&["--authorization-always-allow-paths=healthz"], "--authorization-always-allow-paths"),
        (&["--authorization-always-allow-paths=/a*b"], "--authorization-always-allow-paths"),
    ] {
        let error = refused(args);
        assert!(error.contains(named), "{args:?}: {error}");
    }
    let both = refused(&["--secure-port=-1", "--max-deletion-percent=-1"]);
    assert!(both.contains("--secure-port") && both.contains("--max-deletion-percent"), "{both}");
}

// behaviour: PGC-95
#[test]
fn exclusion_selectors_are_parsed() {
    let given = arguments(&["--exclude-labels=tier in (db,queue)", "--exclude-annotations=keep"]);
    assert!(given.exclude_labels.matches(|key| (key == "tier").then_some("db")));
    assert!(given.exclude_annotations.matches(|key| (key == "keep").then_some("")));
    assert!(arguments(&[]).exclude_labels.is_empty());
}

// behaviour: PGC-105
#[test]
fn access_flags_have_upstream_defaults() {
    let access = arguments(&[]).serving.access;
    assert_eq!(access.open_paths, ["/healthz", "/readyz", "/livez"]);
    let ttls = [access.token_ttl, access.allowed_ttl, access.denied_ttl];
    assert_eq!(ttls, [Duration::from_secs(10); 3]);
    let given = arguments(&[
        "--authorization-always-allow-paths=/healthz/*,/metrics",
        "--authorization-webhook-cache-unauthorized-ttl=3s",
        "--tls-min-version=VersionTLS13",
    ]);
    assert_eq!(given.serving.access.open_paths, ["/healthz/*", "/metrics"]);
    assert_eq!(given.serving.access.denied_ttl, Duration::from_secs(3));
    assert!(given.serving.newest_tls_only);
}

#[test]
fn leader_election_flags_are_not_validated_when_it_is_off() {
    let given = arguments(&["--leader-elect=false", "--leader-elect-lease-duration=1s"]);
    assert_eq!(given.election, None);
}

#[test]
fn flags_without_effect_are_reported() {
    let given = arguments(&["--min-resync-period=1h", "--feature-gates=A=true"]);
    assert_eq!(given.without_effect, ["feature-gates", "min-resync-period"]);
}
