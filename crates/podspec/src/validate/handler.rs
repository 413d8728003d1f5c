//! Rules for probes and lifecycle hooks, and for their handlers.

use k8s_openapi::api::core::v1::{
    Container, ExecAction, GRPCAction, HTTPGetAction, Lifecycle, LifecycleHandler, Probe,
    SleepAction, TCPSocketAction,
};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;

use super::{PodContext, check_not_negative, word};
use crate::field_error::{FieldErrors, FieldPath};
use crate::names::{header_name, port_name, port_number};

const SCHEMES: &[&str] = &["HTTP", "HTTPS"];
/// The signals of Linux below the real-time ones, which are [`is_real_time_signal`].
const SIGNALS: &[&str] = &[
    "SIGABRT",
    "SIGALRM",
    "SIGBUS",
    "SIGCHLD",
    "SIGCLD",
    "SIGCONT",
    "SIGFPE",
    "SIGHUP",
    "SIGILL",
    "SIGINT",
    "SIGIO",
    "SIGIOT",
    "SIGKILL",
    "SIGPIPE",
    "SIGPOLL",
    "SIGPROF",
    "SIGPWR",
    "SIGQUIT",
    "SIGSEGV",
    "SIGSTKFLT",
    "SIGSTOP",
    "SIGSYS",
    "SIGTERM",
    "SIGTRAP",
    "SIGTSTP",
    "SIGTTIN",
    "SIGTTOU",
    "SIGURG",
    "SIGUSR1",
    "SIGUSR2",
    "SIGVTALRM",
    "SIGWINCH",
    "SIGXCPU",
    "SIGXFSZ",
    "SIGRTMIN",
    "SIGRTMAX",
];

/// Probes and hooks of a container type that supports them.
pub(super) fn check_container(
    container: &Container,
    path: &FieldPath,
    context: &PodContext<'_>,
    errors: &mut FieldErrors,
) {
    if let Some(lifecycle) = &container.lifecycle {
        check_lifecycle(lifecycle, &path.child("lifecycle"), context, errors);
    }
    let probes = [
        ("livenessProbe", &container.liveness_probe),
        ("readinessProbe", &container.readiness_probe),
        ("startupProbe", &container.startup_probe),
    ];
    for (field, probe) in probes {
        let Some(probe) = probe else {
            continue;
        };
        let path = path.child(field);
        check_probe(probe, &path, errors);
        if field == "readinessProbe" {
            if let Some(seconds) = probe.termination_grace_period_seconds {
                let problem = "must not be set for readinessProbes";
                errors.invalid(&path.child("terminationGracePeriodSeconds"), seconds, problem);
            }
        } else if let Some(threshold) = probe.success_threshold
            && threshold != 1
        {
            errors.invalid(&path.child("successThreshold"), threshold, "must be 1");
        }
    }
}

fn check_probe(probe: &Probe, path: &FieldPath, errors: &mut FieldErrors) {
    let handler = Handler {
        exec: probe.exec.as_ref(),
        http_get: probe.http_get.as_ref(),
        tcp_socket: probe.tcp_socket.as_ref(),
        grpc: probe.grpc.as_ref(),
        sleep: None,
    };
    handler.check(path, None, errors);
    let numbers = [
        ("initialDelaySeconds", probe.initial_delay_seconds),
        ("timeoutSeconds", probe.timeout_seconds),
        ("periodSeconds", probe.period_seconds),
        ("successThreshold", probe.success_threshold),
        ("failureThreshold", probe.failure_threshold),
    ];
    for (field, number) in numbers {
        check_not_negative(number.map(i64::from), &path.child(field), errors);
    }
    if let Some(seconds) = probe.termination_grace_period_seconds
        && seconds <= 0
    {
        let path = path.child("terminationGracePeriodSeconds");
        errors.invalid(&path, seconds, "must be greater than 0");
    }
}

fn check_lifecycle(
    lifecycle: &Lifecycle,
    path: &FieldPath,
    context: &PodContext<'_>,
    errors: &mut FieldErrors,
) {
    let grace = context.termination_grace_period_seconds;
    for (field, hook) in [("postStart", &lifecycle.post_start), ("preStop", &lifecycle.pre_stop)] {
        if let Some(hook) = hook {
            Handler::from(hook).check(&path.child(field), grace, errors);
        }
    }
    let Some(signal) = &lifecycle.stop_signal else {
        return;
    };
    let path = path.child("stopSignal");
    match context.os {
        None => errors.forbidden(&path, "may not be set for containers with empty `spec.os.name`"),
        Some("windows") => {
            if !["SIGKILL", "SIGTERM"].contains(&signal.as_str()) {
                errors.not_supported(&path, signal, &["SIGKILL", "SIGTERM"]);
            }
        }
        Some(_) => {
            if !SIGNALS.contains(&signal.as_str()) && !is_real_time_signal(signal) {
                errors.not_supported(&path, signal, SIGNALS);
            }
        }
    }
}

fn is_real_time_signal(signal: &str) -> bool {
    let is_within = |number: &str, limit: u8| {
        !number.starts_with('0')
            && number.bytes().all(|byte| byte.is_ascii_digit())
            && number.parse().is_ok_and(|number: u8| (1..=limit).contains(&number))
    };
    match (signal.strip_prefix("SIGRTMIN+"), signal.strip_prefix("SIGRTMAX-")) {
        (Some(offset), _) => is_within(offset, 15),
        (_, Some(offset)) => is_within(offset, 14),
        _ => false,
    }
}

/// The handler of a probe or a hook; exactly one.
struct Handler<'a> {
    exec: Option<&'a ExecAction>,
    http_get: Option<&'a HTTPGetAction>,
    tcp_socket: Option<&'a TCPSocketAction>,
    grpc: Option<&'a GRPCAction>,
    sleep: Option<&'a SleepAction>,
}

impl<'a> From<&'a LifecycleHandler> for Handler<'a> {
    fn from(handler: &'a LifecycleHandler) -> Self {
        Self {
            exec: handler.exec.as_ref(),
            http_get: handler.http_get.as_ref(),
            tcp_socket: handler.tcp_socket.as_ref(),
            grpc: None,
            sleep: handler.sleep.as_ref(),
        }
    }
}

impl Handler<'_> {
    /// `grace` is the maximum time of a hook; `None` if that is invalid itself.
    fn check(&self, path: &FieldPath, grace: Option<i64>, errors: &mut FieldErrors) {
        let kinds = [
            ("exec", self.exec.is_some()),
            ("httpGet", self.http_get.is_some()),
            ("tcpSocket", self.tcp_socket.is_some()),
            ("grpc", self.grpc.is_some()),
            ("sleep", self.sleep.is_some()),
        ];
        let mut set = kinds.into_iter().filter_map(|(name, is_set)| is_set.then_some(name));
        let Some(first) = set.next() else {
            errors.required(path, "must specify a handler type");
            return;
        };
        for other in set {
            errors.forbidden(&path.child(other), "may not specify more than 1 handler type");
        }
        let path = path.child(first);
        if let ("exec", Some(exec)) = (first, self.exec) {
            if exec.command.as_ref().is_none_or(Vec::is_empty) {
                errors.required(&path.child("command"), "");
            }
        } else if let ("httpGet", Some(http_get)) = (first, self.http_get) {
            check_http_get(http_get, &path, errors);
        } else if let ("tcpSocket", Some(tcp_socket)) = (first, self.tcp_socket) {
            check_port(&tcp_socket.port, &path.child("port"), errors);
        } else if let ("grpc", Some(grpc)) = (first, self.grpc) {
            errors.invalid_each(&path.child("port"), grpc.port, port_number(grpc.port));
        } else if let (Some(sleep), Some(grace)) = (self.sleep, grace)
            && !(0..=grace).contains(&sleep.seconds)
        {
            let problem = format!(
                "must be non-negative and less than terminationGracePeriodSeconds ({grace})"
            );
            errors.invalid(&path, sleep.seconds, problem);
        }
    }
}

fn check_http_get(http_get: &HTTPGetAction, path: &FieldPath, errors: &mut FieldErrors) {
    if word(http_get.path.as_ref()).is_empty() {
        errors.required(&path.child("path"), "");
    }
    check_port(&http_get.port, &path.child("port"), errors);
    let scheme = word(http_get.scheme.as_ref());
    if !SCHEMES.contains(&scheme) {
        errors.not_supported(&path.child("scheme"), scheme, SCHEMES);
    }
    for header in http_get.http_headers.iter().flatten() {
        let name = header.name.as_str();
        errors.invalid_each(&path.child("httpHeaders"), name, header_name(name));
    }
}

fn check_port(port: &IntOrString, path: &FieldPath, errors: &mut FieldErrors) {
    match port {
        IntOrString::Int(number) => errors.invalid_each(path, *number, port_number(*number)),
        IntOrString::String(name) => errors.invalid_each(path, name.as_str(), port_name(name)),
    }
}
