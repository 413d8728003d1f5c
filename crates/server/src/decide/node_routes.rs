//! Routes of the node API: the endpoint of a path, and the required permission.
//!
//! An [`Endpoint`] is only returned with its [`Rule`], so none can be used without authorisation.

use super::node_paths::{clean, decoded, encoded};

/// Text for endpoints that `enableDebuggingHandlers: false` switches off.
const DEBUGGING_OFF: &str = "Debug endpoints are disabled.";

/// Which endpoints are served, and how they are authorised.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(clippy::struct_excessive_bools, reason = "independent switches of the configuration")]
pub struct RouteSettings {
    /// `enableDebuggingHandlers`; never on the read-only port.
    pub debugging: bool,
    /// `enableSystemLogHandler`.
    pub system_logs: bool,
    /// `enableDebugFlagsHandler`.
    pub debug_flags: bool,
    /// Whether `get nodes/proxy` is enough for exec, attach, run and port-forward by GET, as upstream has it.
    pub get_allows_streams: bool,
}

/// The container in a request path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ContainerTarget {
    /// The namespace of the pod.
    pub namespace: String,
    /// The name of the pod.
    pub pod: String,
    /// The uid of the pod, if the path has one.
    pub uid: Option<String>,
    /// The name of the container.
    pub container: String,
}

/// The pod in a request path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PodTarget {
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub pod: String,
    /// Its uid, if the path has one.
    pub uid: Option<String>,
}

/// An endpoint for containers of a pod.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PodEndpoint {
    /// `GET /containerLogs/{namespace}/{pod}/{container}`
    ContainerLogs(ContainerTarget),
    /// `GET|POST /exec/{namespace}/{pod}[/{uid}]/{container}`
    Exec(ContainerTarget),
    /// `GET|POST /attach/{namespace}/{pod}[/{uid}]/{container}`
    Attach(ContainerTarget),
    /// `POST /run/{namespace}/{pod}[/{uid}]/{container}`
    Run(ContainerTarget),
    /// `GET|POST /portForward/{namespace}/{pod}[/{uid}]`
    PortForward(PodTarget),
    /// `POST /checkpoint/{namespace}/{pod}/{container}`
    Checkpoint(ContainerTarget),
}

/// The endpoint of an authorised request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Endpoint {
    /// All health checks.
    Healthz,
    /// The health check of this name.
    HealthCheck(String),
    /// The pods of the node.
    Pods,
    /// The running pods of the runtime.
    RunningPods,
    /// The summary of statistics.
    StatsSummary,
    /// The metrics of the agent.
    Metrics,
    /// The metrics of containers.
    MetricsCadvisor,
    /// The metrics of resources.
    MetricsResource,
    /// The metrics of probes.
    MetricsProbes,
    /// The metrics of health checks.
    MetricsSlis,
    /// The configuration in effect.
    Configz,
    /// Version, start time and paths.
    Statusz,
    /// The flags of the command line.
    Flagz,
    /// The log verbosity.
    DebugFlags,
    /// Files of the system's log directory, by their path below it.
    SystemLogs(String),
    /// An endpoint for a pod.
    Pod(PodEndpoint),
    /// 405 with this text: it is switched off.
    Disabled(&'static str),
    /// 405: it takes these methods only.
    OtherMethod(&'static str),
    /// 404: there is no such path below a served root.
    Unknown,
    /// 404 below a root with a fixed set of paths, for which upstream has another text.
    NoPage,
}

/// The required permission: the verb on one of the subresources of the node; any allowed one is enough.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rule {
    /// The verb of the API; empty for a method that has none.
    pub verb: &'static str,
    /// The subresources, in the order in which they are tried. Never empty.
    pub subresources: &'static [&'static str],
}

/// The route of a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Route {
    /// 400: the path is not encoded properly.
    Undecodable,
    /// 404 without authentication: this root is not served.
    NotFound,
    /// A redirect (307) to this path: the requested path is not clean, or lacks its trailing slash.
    Moved(String),
    /// The endpoint, for clients with the permission.
    Guarded(Rule, Endpoint),
}

/// The route of a request: its method, and its path as it was sent.
pub fn route(method: &str, path: &str, settings: RouteSettings) -> Route {
    let Some(path) = decoded(path) else { return Route::Undecodable };
    if !path.starts_with('/') {
        return Route::NotFound;
    }
    let mut cleaned = clean(&path);
    if ["/logs", "/runningpods", "/stats"].contains(&cleaned.as_str()) {
        cleaned.push('/');
    }
    if cleaned != path {
        return Route::Moved(encoded(&cleaned));
    }
    let segments: Vec<&str> = path[1..].trim_end_matches('/').split('/').collect();
    if !is_served(&segments, settings) {
        return Route::NotFound;
    }
    let endpoint = match disabled(&segments, settings) {
        Some(text) => Endpoint::Disabled(text),
        None => endpoint(method, &segments, path.ends_with('/')),
    };
    Route::Guarded(rule(method, segments[0], settings), endpoint)
}

/// Whether the root segment of a path is served.
fn is_served(segments: &[&str], settings: RouteSettings) -> bool {
    match segments[0] {
        "healthz" | "pods" | "stats" | "metrics" | "run" | "exec" | "attach" | "portForward"
        | "containerLogs" | "runningpods" | "logs" => true,
        "debug" => settings.debugging || segments.get(1) == Some(&"pprof"),
        "configz" | "checkpoint" | "statusz" | "flagz" => settings.debugging,
        _ => false,
    }
}

/// The text for an endpoint that is switched off.
fn disabled(segments: &[&str], settings: RouteSettings) -> Option<&'static str> {
    let text = match segments {
        // Go profiles have no counterpart here.
        ["debug", "pprof", ..] if settings.debugging => "profiling endpoint is disabled.",
        ["debug", "flags", "v"] if settings.debugging => {
            return (!settings.debug_flags).then_some("flags endpoint is disabled.");
        }
        ["logs", ..] if settings.debugging => {
            return (!settings.system_logs).then_some("logs endpoint is disabled.");
        }
        ["debug", "pprof", ..] => DEBUGGING_OFF,
        [
            "run" | "exec" | "attach" | "portForward" | "containerLogs" | "runningpods" | "logs",
            ..,
        ] if !settings.debugging => DEBUGGING_OFF,
        _ => return None,
    };
    Some(text)
}

/// The endpoint of a path below a served root.
fn endpoint(method: &str, segments: &[&str], ends_in_slash: bool) -> Endpoint {
    let with = |allowed: &[&str], names: &'static str, found: Endpoint| {
        if allowed.contains(&method) { found } else { Endpoint::OtherMethod(names) }
    };
    match *segments {
        ["healthz"] if !ends_in_slash => Endpoint::Healthz,
        ["healthz", name] if !ends_in_slash => Endpoint::HealthCheck(name.to_owned()),
        ["pods"] => with(&["GET"], "GET", Endpoint::Pods),
        ["runningpods"] => with(&["GET"], "GET", Endpoint::RunningPods),
        ["stats", "summary"] => with(&["GET", "POST"], "GET, POST", Endpoint::StatsSummary),
        ["metrics"] if !ends_in_slash => Endpoint::Metrics,
        ["metrics", name] if !ends_in_slash => match name {
            "cadvisor" => Endpoint::MetricsCadvisor,
            "resource" => Endpoint::MetricsResource,
            "probes" => Endpoint::MetricsProbes,
            "slis" => Endpoint::MetricsSlis,
            _ => Endpoint::NoPage,
        },
        ["configz"] if !ends_in_slash => Endpoint::Configz,
        ["statusz"] if !ends_in_slash => Endpoint::Statusz,
        ["flagz"] if !ends_in_slash => Endpoint::Flagz,
        ["debug", "flags", "v"] if !ends_in_slash => Endpoint::DebugFlags,
        ["logs", ref names @ ..] => {
            let slash = if ends_in_slash && !names.is_empty() { "/" } else { "" };
            let below = format!("{}{slash}", names.join("/"));
            with(&["GET"], "GET", Endpoint::SystemLogs(below))
        }
        ["healthz" | "metrics" | "configz" | "statusz" | "flagz" | "debug", ..] => Endpoint::NoPage,
        _ => pod_endpoint(method, segments),
    }
}

/// The endpoint of a path that names a pod.
fn pod_endpoint(method: &str, segments: &[&str]) -> Endpoint {
    let with = |allowed: &[&str], names: &'static str, found: PodEndpoint| {
        if allowed.contains(&method) { Endpoint::Pod(found) } else { Endpoint::OtherMethod(names) }
    };
    let either = |found| with(&["GET", "POST"], "GET, POST", found);
    match *segments {
        ["containerLogs", namespace, pod, name] => {
            let target = container(namespace, pod, None, name);
            with(&["GET"], "GET", PodEndpoint::ContainerLogs(target))
        }
        ["checkpoint", namespace, pod, name] => {
            let target = container(namespace, pod, None, name);
            with(&["POST"], "POST", PodEndpoint::Checkpoint(target))
        }
        ["run", ref names @ ..] => match container_of(names) {
            Some(target) => with(&["POST"], "POST", PodEndpoint::Run(target)),
            None => Endpoint::Unknown,
        },
        ["exec", ref names @ ..] => {
            container_of(names).map_or(Endpoint::Unknown, |of| either(PodEndpoint::Exec(of)))
        }
        ["attach", ref names @ ..] => {
            container_of(names).map_or(Endpoint::Unknown, |of| either(PodEndpoint::Attach(of)))
        }
        ["portForward", namespace, pod] => either(PodEndpoint::PortForward(PodTarget {
            namespace: namespace.to_owned(),
            pod: pod.to_owned(),
            uid: None,
        })),
        ["portForward", namespace, pod, uid] => either(PodEndpoint::PortForward(PodTarget {
            namespace: namespace.to_owned(),
            pod: pod.to_owned(),
            uid: Some(uid.to_owned()),
        })),
        _ => Endpoint::Unknown,
    }
}

fn container(namespace: &str, pod: &str, uid: Option<&str>, container: &str) -> ContainerTarget {
    ContainerTarget {
        namespace: namespace.to_owned(),
        pod: pod.to_owned(),
        uid: uid.map(str::to_owned),
        container: container.to_owned(),
    }
}

/// The container of a path that may have a uid.
fn container_of(names: &[&str]) -> Option<ContainerTarget> {
    match *names {
        [namespace, pod, name] => Some(container(namespace, pod, None, name)),
        [namespace, pod, uid, name] => Some(container(namespace, pod, Some(uid), name)),
        _ => None,
    }
}

/// The permission for a path below a root.
fn rule(method: &str, root: &str, settings: RouteSettings) -> Rule {
    let subresources: &'static [&'static str] = match root {
        "pods" | "runningpods" => &["pods", "proxy"],
        "healthz" => &["healthz", "proxy"],
        "configz" => &["configz", "proxy"],
        "stats" => &["stats"],
        "metrics" => &["metrics"],
        "logs" => &["log"],
        "checkpoint" => &["checkpoint"],
        "statusz" => &["statusz"],
        "flagz" => &["configz"],
        _ => &["proxy"],
    };
    let is_stream = matches!(root, "run" | "exec" | "attach" | "portForward");
    let verb = match method {
        // A WebSocket begins with a GET. Read permission must not allow commands.
        "GET" if is_stream && !settings.get_allows_streams => "create",
        "GET" => "get",
        "POST" => "create",
        "PUT" => "update",
        "PATCH" => "patch",
        "DELETE" => "delete",
        _ => "",
    };
    Rule { verb, subresources }
}

/// The labels of the metrics of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RequestLabels {
    /// The method, `other` for unusual ones.
    pub method: &'static str,
    /// The first segment of the path, two for metrics, `other` for unknown ones.
    pub path: &'static str,
    /// Whether the request is long-running, by upstream's table (which lacks port-forward).
    pub long_running: &'static str,
}

const METHODS: [&str; 8] = ["OPTIONS", "GET", "HEAD", "POST", "PUT", "DELETE", "TRACE", "CONNECT"];

/// The values of the label `path` that every port has.
const PATHS: [&str; 13] = [
    "healthz",
    "pods",
    "stats",
    "metrics",
    "metrics/cadvisor",
    "metrics/probes",
    "metrics/resource",
    "run",
    "exec",
    "attach",
    "portForward",
    "containerLogs",
    "runningpods",
];
/// The additional routes of a port with debugging endpoints.
const DEBUGGING_PATHS: [&str; 6] = ["logs", "configz", "checkpoint", "debug", "statusz", "flagz"];
/// The routes of a port without debugging endpoints.
const OTHER_PATHS: [&str; 2] = ["logs", "pprof"];

/// The labels of a request: its method, and its path as it was sent.
pub fn labels(method: &str, path: &str, settings: RouteSettings) -> RequestLabels {
    let path = decoded(path).unwrap_or_default();
    let mut segments = path.trim_start_matches('/').splitn(3, '/');
    let first = segments.next().unwrap_or_default();
    let bucket = match segments.next() {
        Some(second) if first == "metrics" => format!("{first}/{second}"),
        _ => first.to_owned(),
    };
    let further = if settings.debugging { &DEBUGGING_PATHS[..] } else { &OTHER_PATHS[..] };
    let path = PATHS.iter().chain(further).copied().find(|known| *known == bucket);
    let path = path.unwrap_or("other");
    let is_long = matches!(path, "exec" | "attach" | "debug");
    RequestLabels {
        method: METHODS.iter().copied().find(|known| *known == method).unwrap_or("other"),
        path,
        long_running: if is_long { "true" } else { "false" },
    }
}

#[cfg(test)]
#[path = "node_routes_tests.rs"]
mod tests;
