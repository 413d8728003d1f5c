#![allow(clippy::too_many_lines, reason = "a table has one row per rule")]

use super::{check_rows, with_container, with_spec};

#[test]
fn invalid_probes_have_upstream_errors() {
    const PROBE: &str = "spec.containers[0].livenessProbe";
    let probe = |fields: &str| with_container(&format!("livenessProbe: {{{fields}}}"));
    check_rows(
        &[
            ("a command", "exec: {command: [a]}", &[]),
            ("a request", "httpGet: {port: 80, path: /x, scheme: HTTPS}", &[]),
            ("a named port", "httpGet: {port: http}", &[]),
            ("a connection", "tcpSocket: {port: 80}", &[]),
            ("a call", "grpc: {port: 80}", &[]),
            ("no handler", "", &[&format!("{PROBE}: Required value: must specify a handler type")]),
            (
                "two handlers",
                "exec: {command: [a]}, tcpSocket: {port: 0}",
                &[&format!(
                    "{PROBE}.tcpSocket: Forbidden: may not specify more than 1 handler type"
                )],
            ),
            ("no command", "exec: {}", &[&format!("{PROBE}.exec.command: Required value")]),
            (
                "a port out of range",
                "grpc: {port: 70000}",
                &[&format!(
                    "{PROBE}.grpc.port: Invalid value: 70000: must be between 1 and 65535, inclusive"
                )],
            ),
            (
                "a bad name of a port",
                "tcpSocket: {port: A}",
                &[
                    &format!("{PROBE}.tcpSocket.port: Invalid value: \"A\": must contain only..."),
                    &format!(
                        "{PROBE}.tcpSocket.port: Invalid value: \"A\": must contain at least..."
                    ),
                ],
            ),
            (
                "an unknown scheme",
                "httpGet: {port: 80, scheme: https}",
                &[&format!(
                    "{PROBE}.httpGet.scheme: Unsupported value: \"https\": supported values: \
                     \"HTTP\", \"HTTPS\""
                )],
            ),
            (
                "a bad header",
                "httpGet: {port: 80, httpHeaders: [{name: 'a b', value: c}]}",
                &[&format!("{PROBE}.httpGet.httpHeaders: Invalid value: \"a b\": a valid HTTP...")],
            ),
            (
                "negative numbers",
                "exec: {command: [a]}, initialDelaySeconds: -1, timeoutSeconds: -2, periodSeconds: \
                 -3, failureThreshold: -4",
                &[
                    &format!("{PROBE}.initialDelaySeconds: Invalid value: -1: must be greater..."),
                    &format!("{PROBE}.timeoutSeconds: Invalid value: -2: must be greater..."),
                    &format!("{PROBE}.periodSeconds: Invalid value: -3: must be greater..."),
                    &format!(
                        "{PROBE}.failureThreshold: Invalid value: -4: must be greater than or equal \
                         to 0"
                    ),
                ],
            ),
            (
                "more than one success",
                "exec: {command: [a]}, successThreshold: 2",
                &[&format!("{PROBE}.successThreshold: Invalid value: 2: must be 1")],
            ),
            (
                "no grace",
                "exec: {command: [a]}, terminationGracePeriodSeconds: 0",
                &[&format!(
                    "{PROBE}.terminationGracePeriodSeconds: Invalid value: 0: must be greater than 0"
                )],
            ),
        ],
        probe,
    );
}

#[test]
fn readiness_and_startup_differ_from_liveness() {
    check_rows(
        &[
            (
                "readiness may take more than one success",
                "readinessProbe: {exec: {command: [a]}, successThreshold: 2}",
                &[],
            ),
            (
                "readiness ends nothing",
                "readinessProbe: {exec: {command: [a]}, terminationGracePeriodSeconds: 5}",
                &[
                    "spec.containers[0].readinessProbe.terminationGracePeriodSeconds: Invalid value: \
                   5: must not be set for readinessProbes",
                ],
            ),
            (
                "startup is one success",
                "startupProbe: {exec: {command: [a]}, successThreshold: 2}",
                &["spec.containers[0].startupProbe.successThreshold: Invalid value: 2: must be 1"],
            ),
        ],
        with_container,
    );
}

#[test]
fn invalid_lifecycle_hooks_have_upstream_errors() {
    const HOOK: &str = "spec.containers[0].lifecycle.preStop";
    let hook = |fields: &str| with_container(&format!("lifecycle: {{preStop: {{{fields}}}}}"));
    check_rows(
        &[
            ("a command", "exec: {command: [a]}", &[]),
            ("a nap", "sleep: {seconds: 30}", &[]),
            ("no nap", "sleep: {seconds: 0}", &[]),
            (
                "a nap longer than the grace period",
                "sleep: {seconds: 31}",
                &[&format!(
                    "{HOOK}.sleep: Invalid value: 31: must be non-negative and less than \
                     terminationGracePeriodSeconds (30)"
                )],
            ),
            ("no handler", "", &[&format!("{HOOK}: Required value: must specify a handler type")]),
            (
                "three handlers",
                "exec: {command: [a]}, httpGet: {port: 1}, sleep: {seconds: 99}",
                &[
                    &format!("{HOOK}.httpGet: Forbidden: may not specify more than 1 handler type"),
                    &format!("{HOOK}.sleep: Forbidden: may not specify more than 1 handler type"),
                ],
            ),
        ],
        hook,
    );
    assert_eq!(
        with_container("lifecycle: {postStart: {exec: {}}}"),
        ["spec.containers[0].lifecycle.postStart.exec.command: Required value"]
    );
}

#[test]
fn stop_signal_requires_an_operating_system() {
    const PATH: &str = "spec.initContainers[0].lifecycle.stopSignal";
    let sidecar = "initContainers: [{name: s, image: i, restartPolicy: Always, lifecycle: \
                   {stopSignal: SIGNAL}}]";
    let problems =
        |os: &str, signal: &str| with_spec(&format!("{os}{}", sidecar.replace("SIGNAL", signal)));
    for signal in ["SIGTERM", "SIGUSR1", "SIGRTMIN", "SIGRTMIN+15", "SIGRTMAX-14", "SIGRTMAX"] {
        assert_eq!(problems("os: {name: linux}, ", signal), Vec::<String>::new(), "{signal}");
    }
    for signal in ["TERM", "SIGX", "SIGRTMIN+0", "SIGRTMIN+16", "SIGRTMIN+01", "SIGRTMAX-15"] {
        let found = problems("os: {name: linux}, ", signal);
        let expected = format!("{PATH}: Unsupported value: {signal:?}: supported values: ");
        assert!(found.len() == 1 && found[0].starts_with(&expected), "{signal}: {found:?}");
    }
    assert_eq!(
        problems("os: {name: windows}, ", "SIGHUP"),
        [format!(
            "{PATH}: Unsupported value: \"SIGHUP\": supported values: \"SIGKILL\", \"SIGTERM\""
        )]
    );
    assert_eq!(
        problems("", "SIGTERM"),
        [format!("{PATH}: Forbidden: may not be set for containers with empty `spec.os.name`")]
    );
}
