//! `/healthz`, and the metrics of its checks.

use std::fmt::Write as _;

use hyper::{Method, StatusCode};
use jiff::Timestamp;
use model::program::{Check, HealthChecks};
use prometheus::{IntCounterVec, IntGaugeVec, Opts, Registry, TextEncoder};

use super::{not_found, pages, plain_error};
use crate::respond::{Answer, TEXT, text};

/// `/metrics/slis`: the results of health checks.
#[derive(Debug)]
pub(super) struct Slis {
    registry: Registry,
    last: IntGaugeVec,
    all: IntCounterVec,
}

impl Slis {
    /// Registers the metrics in a registry that has no others.
    pub(super) fn new(registry: Registry) -> Self {
        let last = Opts::new(
            "kubernetes_healthcheck",
            "[STABLE] This metric records the result of a single healthcheck.",
        );
        let all = Opts::new(
            "kubernetes_healthchecks_total",
            "[STABLE] This metric records the results of all healthcheck.",
        );
        let last = IntGaugeVec::new(last, &["name", "type"]).expect("its name is valid");
        let all = IntCounterVec::new(all, &["name", "status", "type"]).expect("its name is valid");
        registry.register(Box::new(last.clone())).expect("it is the first of its name");
        registry.register(Box::new(all.clone())).expect("it is the first of its name");
        Self { registry, last, all }
    }

    /// The metrics, or their reset.
    pub(super) fn page(&self, method: &Method, started: Timestamp) -> Answer {
        if method == Method::DELETE {
            self.last.reset();
            self.all.reset();
            return text(StatusCode::OK, TEXT, "metrics reset\n".to_owned());
        }
        let families = self.registry.gather();
        let content = TextEncoder::new().encode_to_string(&families).unwrap_or_default();
        pages::metrics(content, started)
    }

    fn observe(&self, check: &Check) {
        let is_well = check.result.is_ok();
        self.last.with_label_values(&[check.name, "healthz"]).set(i64::from(is_well));
        let status = if is_well { "success" } else { "error" };
        self.all.with_label_values(&[check.name, status, "healthz"]).inc();
    }

    /// All checks.
    pub(super) fn healthz(&self, health: &dyn HealthChecks, query: Option<&str>) -> Answer {
        let pairs = form_urlencoded::parse(query.unwrap_or_default().as_bytes());
        let mut excluded: Vec<String> = Vec::new();
        let mut is_verbose = false;
        for (name, value) in pairs {
            match &*name {
                "verbose" => is_verbose = true,
                "exclude" => excluded.push(value.into_owned()),
                _ => {}
            }
        }
        let (mut lines, mut is_well) = (String::new(), true);
        let mut line = |text: String| writeln!(lines, "{text}").expect("a string takes every text");
        for check in checks(health) {
            let name = check.name;
            if excluded.iter().any(|excluded| excluded == name) {
                excluded.retain(|excluded| excluded != name);
                line(format!("[+]{name} excluded: ok"));
                continue;
            }
            self.observe(&check);
            if check.result.is_ok() {
                line(format!("[+]{name} ok"));
            } else {
                is_well = false;
                line(format!("[-]{name} failed: reason withheld"));
            }
        }
        if !excluded.is_empty() {
            let names: Vec<String> = excluded.iter().map(|name| format!("{name:?}")).collect();
            let names = names.join(",");
            line(format!("warn: some health checks cannot be excluded: no matches for {names}"));
        }
        if !is_well {
            let text = format!("{lines}healthz check failed");
            return plain_error(StatusCode::INTERNAL_SERVER_ERROR, &text);
        }
        well(if is_verbose { format!("{lines}healthz check passed\n") } else { "ok".to_owned() })
    }

    /// One check.
    pub(super) fn check(health: &dyn HealthChecks, name: &str) -> Answer {
        let Some(check) = checks(health).into_iter().find(|check| check.name == name) else {
            return not_found();
        };
        match check.result {
            Ok(()) => well("ok".to_owned()),
            Err(why) => {
                let text = format!("internal server error: {why}");
                plain_error(StatusCode::INTERNAL_SERVER_ERROR, &text)
            }
        }
    }
}

/// The checks of the agent, and that of its log, which is written synchronously.
fn checks(health: &dyn HealthChecks) -> Vec<Check> {
    let mut checks = health.checks();
    checks.insert(checks.len().min(1), Check { name: "log", result: Ok(()) });
    checks
}

fn well(lines: String) -> Answer {
    let mut answer = text(StatusCode::OK, TEXT, lines);
    pages::no_sniffing(&mut answer);
    answer
}
