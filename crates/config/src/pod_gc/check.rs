//! Validates the command line.

use model::selector::Selector;

use super::{CONTROLLER, Election, TLS_VERSIONS};
use crate::duration::GoDuration;
use crate::flags::FlagSet;

/// The shortest check period and quarantine time.
const SHORTEST: GoDuration = GoDuration::from_millis(100);

/// How much longer than the retry period the renew deadline must be.
const JITTER: f64 = 1.2;

/// All errors.
pub(super) fn problems(flags: &FlagSet) -> Vec<String> {
    let mut problems = Vec::new();
    if flags.is_on("leader-elect") {
        election(flags, &mut problems);
    }
    controllers(flags, &mut problems);
    numbers(flags, &mut problems);
    let order = flags.text("terminated-pod-order");
    if !["creation", "finish"].contains(&order) {
        problems.push(format!("--terminated-pod-order is {order:?}, not creation or finish"));
    }
    let format = flags.text("logging-format");
    if !["text", "json"].contains(&format) {
        problems.push(format!("--logging-format is {format:?}, not text or json"));
    }
    if flags.text("tls-cert-file").is_empty() != flags.text("tls-private-key-file").is_empty() {
        problems.push("--tls-cert-file and --tls-private-key-file belong together".to_owned());
    }
    let version = flags.text("tls-min-version");
    if !version.is_empty() && !TLS_VERSIONS.contains(&version) {
        let known = TLS_VERSIONS.join(", ");
        problems.push(format!("--tls-min-version is {version:?}, none of {known}"));
    }
    for name in ["exclude-labels", "exclude-annotations"] {
        if let Err(error) = flags.text(name).parse::<Selector>() {
            problems.push(format!("--{name}: {error}"));
        }
    }
    for path in flags.list("authorization-always-allow-paths") {
        if !path.starts_with('/') || path.trim_end_matches('*').contains('*') {
            problems.push(format!("--authorization-always-allow-paths: {path:?} is no path"));
        }
    }
    if flags.text("state-dir").is_empty() {
        problems.push("--state-dir is empty".to_owned());
    }
    problems
}

fn election(flags: &FlagSet, problems: &mut Vec<String>) {
    let Election { lease_duration: lease, renew_deadline: renew, retry_period: retry, .. } =
        Election::of(flags);
    if lease <= renew {
        problems.push(
            "--leader-elect-lease-duration must be longer than --leader-elect-renew-deadline"
                .to_owned(),
        );
    }
    if retry.is_zero() || renew <= retry.mul_f64(JITTER) {
        problems.push(format!(
            "--leader-elect-renew-deadline must be longer than {JITTER} times \
             --leader-elect-retry-period, which must be longer than nothing"
        ));
    }
    if lease.as_secs() == 0 {
        problems.push("--leader-elect-lease-duration must be at least a second".to_owned());
    }
    let lock = flags.text("leader-elect-resource-lock");
    if lock != "leases" {
        problems.push(format!("--leader-elect-resource-lock is {lock:?}, not leases"));
    }
    for name in ["leader-elect-resource-name", "leader-elect-resource-namespace"] {
        if flags.text(name).is_empty() {
            problems.push(format!("--{name} is empty"));
        }
    }
}

/// Upstream's syntax: `*` is all, a name is one, a hyphen before it removes it.
fn controllers(flags: &FlagSet, problems: &mut Vec<String>) {
    let list = flags.list("controllers");
    let is_ours = |name: &str| CONTROLLER.contains(&name);
    for item in &list {
        let name = item.strip_prefix('-').unwrap_or(item);
        if name != "*" && !is_ours(name) {
            let ours = CONTROLLER[0];
            problems.push(format!("--controllers names {name:?}; here is only {ours}"));
        }
    }
    let off = list.iter().any(|item| item.strip_prefix('-').is_some_and(is_ours));
    let on = list.iter().any(|item| is_ours(item) || item == "*");
    if off || !on {
        problems.push("--controllers switches off the only controller there is".to_owned());
    }
}

fn numbers(flags: &FlagSet, problems: &mut Vec<String>) {
    let ranges: [(&str, i64, i64); 7] = [
        ("terminated-pod-gc-threshold", i32::MIN.into(), i32::MAX.into()),
        ("concurrent-deletions", 1, 1000),
        ("kube-api-burst", 0, i32::MAX.into()),
        ("secure-port", 0, 65535),
        ("terminated-pods-per-namespace", 0, i32::MAX.into()),
        ("terminated-pods-per-node", 0, i32::MAX.into()),
        ("journal-max-bytes", 1 << 20, 1 << 40),
    ];
    for (name, least, most) in ranges {
        let number = flags.integer(name).unwrap_or_default();
        if !(least..=most).contains(&number) {
            problems.push(format!("--{name} is {number}, not between {least} and {most}"));
        }
    }
    let percent = flags.number("max-deletion-percent").unwrap_or_default();
    if !(0.0..=100.0).contains(&percent) {
        problems.push(format!("--max-deletion-percent is {percent}, not between 0 and 100"));
    }
    for name in ["gc-check-period", "quarantine-time"] {
        let time = flags.duration(name).unwrap_or_default();
        if time < SHORTEST {
            problems.push(format!("--{name} is {time}, must be at least {SHORTEST}"));
        }
    }
    if flags.duration("terminated-pod-ttl").is_some_and(GoDuration::is_negative) {
        problems.push("--terminated-pod-ttl is negative".to_owned());
    }
}
