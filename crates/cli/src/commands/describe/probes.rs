//! The probes of a container in a description.

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Container, Probe};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use model::probe::{ProbeKind, ProbeReport, ProbeVerdict};
use status::decide::human_duration;

use super::text::Text;

/// Describes probes in kubectl's order and words, each with its last attempt.
pub(super) fn describe_probes(
    text: &mut Text,
    container: &Container,
    reports: &[ProbeReport],
    now: Timestamp,
) {
    let probes = [
        (ProbeKind::Liveness, &container.liveness_probe),
        (ProbeKind::Readiness, &container.readiness_probe),
        (ProbeKind::Startup, &container.startup_probe),
    ];
    for (kind, probe) in probes {
        let Some(probe) = probe else { continue };
        text.field(4, kind.as_str(), &described(probe));
        let mut reports = reports.iter();
        let report = reports.find(|one| one.container == container.name && one.kind == kind);
        if let Some(report) = report {
            last_attempt(text, report, now);
        }
    }
}

fn last_attempt(text: &mut Text, report: &ProbeReport, now: Timestamp) {
    let Some(last) = &report.last else {
        let result = match report.passes {
            Some(true) => "passed before the agent started",
            _ => "not probed yet",
        };
        text.field(6, "Last Result", result);
        return;
    };
    let verdict = match last.verdict {
        Some(ProbeVerdict::Success | ProbeVerdict::Warning) => "passed",
        Some(ProbeVerdict::Failure | ProbeVerdict::Unknown) => "failed",
        None => "error, not counted",
    };
    let ago = human_duration(now.duration_since(last.at));
    let took = last.took_millis;
    let run = match report.run {
        0 | 1 => String::new(),
        run => format!(", {run} in a row"),
    };
    text.field(6, "Last Result", &format!("{verdict} {ago} ago in {took}ms{run}"));
    let output = last.output.trim_end();
    if !output.is_empty() {
        text.field(6, "Output", output);
    }
}

/// A probe in kubectl's words.
fn described(probe: &Probe) -> String {
    let Probe { exec, http_get, tcp_socket, grpc, .. } = probe;
    let handler = if let Some(exec) = exec {
        format!("exec [{}]", exec.command.clone().unwrap_or_default().join(" "))
    } else if let Some(http) = http_get {
        let scheme = http.scheme.as_deref().unwrap_or("http").to_ascii_lowercase();
        let host = http.host.as_deref().unwrap_or_default();
        let path = http.path.as_deref().unwrap_or_default();
        format!("http-get {scheme}://{host}:{}{path}", port(&http.port))
    } else if let Some(tcp) = tcp_socket {
        format!("tcp-socket {}:{}", tcp.host.as_deref().unwrap_or_default(), port(&tcp.port))
    } else if let Some(grpc) = grpc {
        format!("grpc <pod>:{} {}", grpc.port, grpc.service.as_deref().unwrap_or_default())
    } else {
        "unknown".to_owned()
    };
    let number =
        |value: Option<i32>, default: i32| value.filter(|value| *value != 0).unwrap_or(default);
    format!(
        "{} delay={}s timeout={}s period={}s #success={} #failure={}",
        handler.trim_end(),
        number(probe.initial_delay_seconds, 0),
        number(probe.timeout_seconds, 1),
        number(probe.period_seconds, 10),
        number(probe.success_threshold, 1),
        number(probe.failure_threshold, 3),
    )
}

fn port(port: &IntOrString) -> String {
    match port {
        IntOrString::Int(number) => number.to_string(),
        IntOrString::String(name) => name.clone(),
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::{ExecAction, GRPCAction, HTTPGetAction, TCPSocketAction};
    use model::probe::LastAttempt;

    use super::*;

    #[test]
    fn probes_are_described_as_kubectl_does() {
        let exec = Some(ExecAction { command: Some(vec!["cat".to_owned(), "/ok".to_owned()]) });
        let http = HTTPGetAction {
            path: Some("/healthz".to_owned()),
            port: IntOrString::String("web".to_owned()),
            scheme: Some("HTTP".to_owned()),
            ..HTTPGetAction::default()
        };
        let tcp = TCPSocketAction { host: None, port: IntOrString::Int(80) };
        let grpc = GRPCAction { port: 90, service: None };
        let numbers = "delay=0s timeout=1s period=10s #success=1 #failure=3";
        let rows = [
            (Probe { exec, ..Probe::default() }, "exec [cat /ok]"),
            (Probe { http_get: Some(http), ..Probe::default() }, "http-get http://:web/healthz"),
            (Probe { tcp_socket: Some(tcp), ..Probe::default() }, "tcp-socket :80"),
            (Probe { grpc: Some(grpc), ..Probe::default() }, "grpc <pod>:90"),
        ];
        for (probe, handler) in rows {
            assert_eq!(described(&probe), format!("{handler} {numbers}"));
        }
    }

    #[test]
    fn last_attempt_has_result_age_duration_and_run() {
        let container = Container {
            name: "main".to_owned(),
            liveness_probe: Some(Probe::default()),
            ..Container::default()
        };
        let at = |second| Timestamp::from_second(second).unwrap();
        let shown = |last: Option<(ProbeVerdict, &str)>| {
            let last = last.map(|(verdict, output)| LastAttempt {
                at: at(1_000),
                took_millis: 12,
                verdict: Some(verdict),
                output: output.to_owned(),
            });
            let (container_name, kind) = (container.name.clone(), ProbeKind::Liveness);
            let report =
                ProbeReport { container: container_name, kind, passes: None, run: 4, last };
            let mut text = Text::default();
            describe_probes(&mut text, &container, &[report], at(1_003));
            let text = text.finish();
            text.lines().skip(1).map(|line| line.trim().to_owned()).collect::<Vec<_>>()
        };
        assert_eq!(shown(None), ["Last Result:   not probed yet"]);
        let passed = shown(Some((ProbeVerdict::Success, "")));
        assert_eq!(passed, ["Last Result:   passed 3s ago in 12ms, 4 in a row"]);
        let failed = shown(Some((ProbeVerdict::Failure, "no\n")));
        assert_eq!(
            failed,
            ["Last Result:   failed 3s ago in 12ms, 4 in a row", "Output:        no"]
        );
    }
}
