use proptest::prelude::*;

use super::*;

const ALL: RouteSettings = RouteSettings {
    debugging: true,
    system_logs: true,
    debug_flags: true,
    get_allows_streams: false,
};
const NO_DEBUGGING: RouteSettings = RouteSettings { debugging: false, ..ALL };

fn container(uid: Option<&str>) -> ContainerTarget {
    super::container("ns", "p", uid, "c")
}

fn endpoint_of(method: &str, path: &str, settings: RouteSettings) -> Option<Endpoint> {
    match route(method, path, settings) {
        Route::Guarded(_, endpoint) => Some(endpoint),
        _ => None,
    }
}

// behaviour: SRV-1
#[test]
fn endpoints_are_found_by_method_and_path() {
    let stream = |endpoint| Endpoint::Pod(endpoint);
    let rows = [
        ("GET", "/healthz", Endpoint::Healthz),
        ("GET", "/healthz/syncloop", Endpoint::HealthCheck("syncloop".to_owned())),
        ("GET", "/healthz/a/b", Endpoint::NoPage),
        ("GET", "/pods", Endpoint::Pods),
        ("GET", "/pods/", Endpoint::Pods),
        ("GET", "/p%6Fds", Endpoint::Pods),
        ("GET", "/pods/x", Endpoint::Unknown),
        ("HEAD", "/pods", Endpoint::OtherMethod("GET")),
        ("GET", "/runningpods/", Endpoint::RunningPods),
        ("POST", "/stats/summary", Endpoint::StatsSummary),
        ("GET", "/stats/none", Endpoint::Unknown),
        ("GET", "/metrics", Endpoint::Metrics),
        ("GET", "/metrics/cadvisor", Endpoint::MetricsCadvisor),
        ("GET", "/metrics/resource", Endpoint::MetricsResource),
        ("GET", "/metrics/probes", Endpoint::MetricsProbes),
        ("DELETE", "/metrics/slis", Endpoint::MetricsSlis),
        ("GET", "/metrics/x", Endpoint::NoPage),
        ("GET", "/configz", Endpoint::Configz),
        ("GET", "/statusz", Endpoint::Statusz),
        ("GET", "/flagz", Endpoint::Flagz),
        ("PUT", "/debug/flags/v", Endpoint::DebugFlags),
        ("GET", "/debug/pprof/profile", Endpoint::Disabled("profiling endpoint is disabled.")),
        ("GET", "/debug", Endpoint::NoPage),
        ("GET", "/logs/", Endpoint::SystemLogs(String::new())),
        ("GET", "/logs/pods/a.log", Endpoint::SystemLogs("pods/a.log".to_owned())),
        ("GET", "/logs/pods/", Endpoint::SystemLogs("pods/".to_owned())),
        ("PUT", "/logs/x", Endpoint::OtherMethod("GET")),
        ("GET", "/containerLogs/ns/p/c", stream(PodEndpoint::ContainerLogs(container(None)))),
        ("GET", "/containerLogs/ns/p/u/c", Endpoint::Unknown),
        ("POST", "/checkpoint/ns/p/c", stream(PodEndpoint::Checkpoint(container(None)))),
        ("POST", "/run/ns/p/c", stream(PodEndpoint::Run(container(None)))),
        ("GET", "/run/ns/p/c", Endpoint::OtherMethod("POST")),
        ("GET", "/exec/ns/p/c", stream(PodEndpoint::Exec(container(None)))),
        ("POST", "/exec/ns/p/u/c", stream(PodEndpoint::Exec(container(Some("u"))))),
        ("POST", "/exec/ns/p/u/c/x", Endpoint::Unknown),
        ("PUT", "/exec/ns/p/c", Endpoint::OtherMethod("GET, POST")),
        ("GET", "/attach/ns/p/u/c", stream(PodEndpoint::Attach(container(Some("u"))))),
        (
            "POST",
            "/portForward/ns/p/u",
            stream(PodEndpoint::PortForward(PodTarget {
                namespace: "ns".to_owned(),
                pod: "p".to_owned(),
                uid: Some("u".to_owned()),
            })),
        ),
    ];
    for (method, path, expected) in rows {
        assert_eq!(endpoint_of(method, path, ALL), Some(expected), "{method} {path}");
    }
}

// behaviour: SRV-2
#[test]
fn only_unknown_roots_get_a_response_without_authentication() {
    let not_found = ["/", "", "*", "/foo", "/metricsfoo", "/portforward/ns/p", "/healthz%20"];
    for path in not_found {
        assert_eq!(route("GET", path, ALL), Route::NotFound, "{path}");
    }
    for path in ["/%zz", "/pods/%ff"] {
        assert_eq!(route("GET", path, ALL), Route::Undecodable, "{path}");
    }
    let moved = [
        ("//pods", "/pods"),
        ("/healthz/../exec/ns/p/c", "/exec/ns/p/c"),
        ("/healthz/%2e%2e/exec/ns/p/c", "/exec/ns/p/c"),
        ("/healthz%2f..%2fexec", "/exec"),
        ("/./pods/a%20b", "/pods/a%20b"),
        ("/logs", "/logs/"),
        ("/runningpods", "/runningpods/"),
        ("/stats", "/stats/"),
    ];
    for (path, to) in moved {
        assert_eq!(route("GET", path, ALL), Route::Moved(to.to_owned()), "{path}");
    }
}

// behaviour: SRV-3
#[test]
fn rules_are_upstreams_and_streams_need_create() {
    let rows = [
        ("GET", "/pods", "get", &["pods", "proxy"][..]),
        ("GET", "/runningpods/", "get", &["pods", "proxy"]),
        ("GET", "/healthz/ping", "get", &["healthz", "proxy"]),
        ("GET", "/configz", "get", &["configz", "proxy"]),
        ("GET", "/flagz", "get", &["configz"]),
        ("GET", "/statusz", "get", &["statusz"]),
        ("GET", "/stats/", "get", &["stats"]),
        ("POST", "/stats/summary", "create", &["stats"]),
        ("DELETE", "/metrics/slis", "delete", &["metrics"]),
        ("GET", "/logs/x", "get", &["log"]),
        ("POST", "/checkpoint/ns/p/c", "create", &["checkpoint"]),
        ("PUT", "/debug/flags/v", "update", &["proxy"]),
        ("PATCH", "/debug/x", "patch", &["proxy"]),
        ("HEAD", "/pods", "", &["pods", "proxy"]),
        ("GET", "/containerLogs/ns/p/c", "get", &["proxy"]),
        ("GET", "/exec/ns/p/c", "create", &["proxy"]),
        ("GET", "/attach/ns/p/c", "create", &["proxy"]),
        ("GET", "/portForward/ns/p", "create", &["proxy"]),
        ("GET", "/run/ns/p/c", "create", &["proxy"]),
        ("POST", "/exec/ns/p/c", "create", &["proxy"]),
    ];
    for (method, path, verb, subresources) in rows {
        let Route::Guarded(rule, _) = route(method, path, ALL) else { panic!("{path}") };
        assert_eq!(rule, Rule { verb, subresources }, "{method} {path}");
    }
    let upstreams = RouteSettings { get_allows_streams: true, ..ALL };
    for path in ["/exec/ns/p/c", "/attach/ns/p/c", "/portForward/ns/p", "/run/ns/p/c"] {
        let Route::Guarded(rule, _) = route("GET", path, upstreams) else { panic!("{path}") };
        assert_eq!(rule.verb, "get", "{path}");
    }
}

// behaviour: SRV-4
#[test]
fn disabled_endpoints_return_405_or_404() {
    let off = Some(Endpoint::Disabled(DEBUGGING_OFF));
    let paths = ["/run/ns/p/c", "/exec/ns/p/c", "/attach/x", "/portForward/ns/p", "/logs/x"];
    for path in paths.into_iter().chain(["/containerLogs/x", "/runningpods/", "/debug/pprof/x"]) {
        for method in ["GET", "POST", "HEAD"] {
            assert_eq!(endpoint_of(method, path, NO_DEBUGGING), off, "{path}");
        }
    }
    for path in ["/configz", "/checkpoint/ns/p/c", "/statusz", "/flagz", "/debug/flags/v"] {
        assert_eq!(route("GET", path, NO_DEBUGGING), Route::NotFound, "{path}");
    }
    for path in ["/healthz", "/pods", "/stats/summary", "/metrics", "/metrics/probes"] {
        let endpoint = endpoint_of("GET", path, NO_DEBUGGING);
        assert_eq!(endpoint, endpoint_of("GET", path, ALL), "{path}");
    }
    let quiet = RouteSettings { system_logs: false, debug_flags: false, ..ALL };
    for (path, text) in [
        ("/logs/x", "logs endpoint is disabled."),
        ("/debug/flags/v", "flags endpoint is disabled."),
    ] {
        assert_eq!(endpoint_of("GET", path, quiet), Some(Endpoint::Disabled(text)), "{path}");
    }
}

// behaviour: SRV-5
#[test]
fn labels_are_upstreams() {
    let rows = [
        ("GET", "/pods", "GET", "pods", "false"),
        ("GET", "/metrics/cadvisor/x", "GET", "metrics/cadvisor", "false"),
        ("GET", "/metrics/slis", "GET", "other", "false"),
        ("PATCH", "/exec/ns/p/c", "other", "exec", "true"),
        ("POST", "/attach/ns/p/c", "POST", "attach", "true"),
        ("POST", "/portForward/ns/p", "POST", "portForward", "false"),
        ("PUT", "/debug/flags/v", "PUT", "debug", "true"),
        ("GET", "/", "GET", "other", "false"),
        ("GET", "/secrets", "GET", "other", "false"),
    ];
    for (method, path, label, bucket, long_running) in rows {
        let expected = RequestLabels { method: label, path: bucket, long_running };
        assert_eq!(labels(method, path, ALL), expected, "{method} {path}");
    }
    assert_eq!(labels("GET", "/configz", NO_DEBUGGING).path, "other");
    assert_eq!(labels("GET", "/debug/pprof/x", NO_DEBUGGING).path, "other");
}

/// Pieces that paths are made of: names of endpoints, and what may confuse a router.
fn piece() -> impl Strategy<Value = String> {
    let words = [
        "healthz",
        "pods",
        "runningpods",
        "stats",
        "summary",
        "metrics",
        "cadvisor",
        "slis",
        "run",
        "exec",
        "attach",
        "portForward",
        "containerLogs",
        "logs",
        "configz",
        "checkpoint",
        "debug",
        "pprof",
        "flags",
        "v",
        "statusz",
        "flagz",
        "ns",
        "p",
        "c",
        "EXEC",
        "portforward",
        "/",
        "//",
        ".",
        "..",
        "%2e",
        "%2E%2e",
        "%2f",
        "%2F",
        "%5c",
        "\\",
        "%00",
        "%25",
        "%252f",
        "%",
        "%zz",
        "%ff",
        ";",
        "?",
        "#",
        "%3f",
        "%20",
        "ü",
        "%c3%bc",
        "@",
        "*",
        "",
    ];
    prop_oneof![
        4 => proptest::sample::select(words.to_vec()).prop_map(str::to_owned),
        1 => "[ -~]{0,3}",
    ]
}

fn path() -> impl Strategy<Value = String> {
    let separator = proptest::sample::select(vec!["/", "/", "/", "", "%2f", "//"]);
    let part = (separator, piece()).prop_map(|(separator, piece)| format!("{separator}{piece}"));
    proptest::collection::vec(part, 0..7).prop_map(|parts| parts.concat())
}

fn settings() -> impl Strategy<Value = RouteSettings> {
    any::<[bool; 4]>().prop_map(|[debugging, system_logs, debug_flags, get_allows_streams]| {
        RouteSettings { debugging, system_logs, debug_flags, get_allows_streams }
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(10_000))]

    // behaviour: SRV-6
    #[test]
    fn no_path_reaches_an_endpoint_without_its_rule(
        method in proptest::sample::select(
            vec!["GET", "POST", "PUT", "PATCH", "DELETE", "HEAD", "OPTIONS", "get", "X"],
        ),
        path in path(),
        settings in settings(),
    ) {
        let labels = labels(method, &path, settings);
        prop_assert!(PATHS.contains(&labels.path) || DEBUGGING_PATHS.contains(&labels.path)
            || OTHER_PATHS.contains(&labels.path) || labels.path == "other");
        match route(method, &path, settings) {
            Route::Undecodable => prop_assert!(decoded(&path).is_none()),
            Route::NotFound => {}
            // The redirect leads to a clean path, where the rule is found.
            Route::Moved(to) => {
                prop_assert!(!matches!(route(method, &to, settings), Route::Moved(_)), "{}", to);
            }
            Route::Guarded(rule, endpoint) => {
                prop_assert!(!rule.subresources.is_empty());
                let root = decoded(&path).unwrap()[1..].split('/').next().unwrap().to_owned();
                let needed = match &endpoint {
                    Endpoint::Healthz | Endpoint::HealthCheck(_) => "healthz",
                    Endpoint::Pods | Endpoint::RunningPods => "pods",
                    Endpoint::StatsSummary => "stats",
                    Endpoint::Metrics | Endpoint::MetricsCadvisor | Endpoint::MetricsResource
                    | Endpoint::MetricsProbes | Endpoint::MetricsSlis => "metrics",
                    Endpoint::Configz | Endpoint::Flagz => "configz",
                    Endpoint::Statusz => "statusz",
                    Endpoint::SystemLogs(_) => "log",
                    Endpoint::Pod(PodEndpoint::Checkpoint(_)) => "checkpoint",
                    Endpoint::Pod(_) | Endpoint::DebugFlags => "proxy",
                    Endpoint::Disabled(_) | Endpoint::OtherMethod(_) | Endpoint::Unknown | Endpoint::NoPage => {
                        rule.subresources[0]
                    }
                };
                prop_assert_eq!(rule.subresources[0], needed);
                if let Endpoint::Pod(pod) = &endpoint
                    && !matches!(pod, PodEndpoint::ContainerLogs(_))
                    && !settings.get_allows_streams
                {
                    prop_assert_eq!(rule.verb, "create", "{}", root);
                }
                if !settings.debugging {
                    prop_assert!(!matches!(endpoint, Endpoint::Pod(_) | Endpoint::SystemLogs(_)
                        | Endpoint::RunningPods | Endpoint::Configz), "{:?}", endpoint);
                }
            }
        }
    }
}
