//! Why the agent kills and restarts containers: texts for events and statuses, rules and numbers for the journal.

use std::time::Duration;

use model::go_duration::milliseconds;
use model::observed::ContainerStatus;
use model::probe::{ProbeFailure, ProbeKind, short_line};
use model::verdict::{Detail, Input};

use super::actions::ContainerKill;
use super::reasons::{KillPod, KillReason, PodEnd, StartReason};

/// The beginning of the text for an HTTP response with a status code of a failure.
const STATUS_CODE: &str = "HTTP probe failed with statuscode:";

/// The rule of restarts after an exit.
const EXIT: &str = "exit";

/// The largest number of a signal.
const LAST_SIGNAL: i32 = 64;

/// The exit codes above this one stand for signals.
const SIGNALED: i32 = 128;

impl ContainerKill {
    /// The message of the event: upstream's text, then the failure of the probe.
    pub fn message(&self, init: bool) -> String {
        let text = self.why.message(init, &self.name, self.restarts);
        match &self.probe {
            Some(failure) => format!("{text}: {}", event_text(failure)),
            None => text,
        }
    }

    /// The message of the terminated instance, if users cannot see otherwise why it was killed.
    pub fn end_message(&self) -> Option<String> {
        match (self.why, &self.probe) {
            (KillReason::LivenessProbe | KillReason::StartupProbe, Some(failure)) => {
                let text = format!("failed {} probe: {}", kind(failure), in_a_row(failure));
                Some(with_output(text, failure))
            }
            (KillReason::Changed, _) => Some("container definition changed".to_owned()),
            (KillReason::Resized, _) => Some("resize requires restart".to_owned()),
            _ => None,
        }
    }

    /// The rule and the numbers of the kill, without the grace period.
    pub(crate) fn cause(&self) -> KillCause {
        let detail = self.probe.as_ref().map(probe_detail).unwrap_or_default();
        KillCause { rule: self.why.rule(), detail }
    }
}

/// Why a container is killed, for the journal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct KillCause {
    /// The rule.
    pub(crate) rule: &'static str,
    /// Its numbers.
    pub(crate) detail: Detail,
}

impl KillCause {
    /// A rule without numbers.
    pub(crate) fn of(rule: &'static str) -> Self {
        Self { rule, detail: Detail::default() }
    }

    /// The numbers with the grace period of the kill.
    pub(crate) fn detail_with(&self, grace: Duration) -> Detail {
        self.detail.clone().with("gracePeriod", Input::Span(grace))
    }
}

impl KillReason {
    /// Its rule in the journal.
    pub fn rule(self) -> &'static str {
        match self {
            Self::UnknownState => "unknown-state",
            Self::Changed => "definition-changed",
            Self::LivenessProbe => "liveness-probe",
            Self::StartupProbe => "startup-probe",
            Self::Resized => "resize",
            Self::Superseded => "newer-instance",
        }
    }
}

impl KillPod {
    /// Its rule in the journal.
    pub fn rule(self) -> &'static str {
        match self {
            Self::SandboxChanged => "sandbox-changed",
            Self::NothingLeft => "pod-finished",
            Self::InitFailed => "init-container-failed",
            Self::OutsideCgroup => "outside-cgroup",
        }
    }
}

impl PodEnd {
    /// Its rule in the journal.
    pub fn rule(self) -> &'static str {
        match self {
            Self::Deleted => "pod-deleted",
            Self::Removed => "pod-removed",
            Self::Orphaned => "orphaned",
            Self::Finished => "pod-finished",
            Self::Preempted => "preempted",
            Self::DeadlineExceeded => "deadline-exceeded",
            Self::Evicted => "evicted",
            Self::NodeShutdown => "node-shutdown",
            Self::Failed => "pod-failed",
        }
    }
}

/// The start of a container that was started before.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Restart<'a> {
    /// Why it starts.
    pub(crate) why: StartReason,
    /// The instance that terminated last.
    pub(crate) ended: Option<&'a ContainerStatus>,
    /// The rule by which the agent killed that instance.
    pub(crate) killed: Option<&'static str>,
    /// The restart count of the new instance.
    pub(crate) count: u32,
    /// The back-off that it waited.
    pub(crate) waited: Option<Duration>,
}

impl Restart<'_> {
    /// The rule and the numbers of the restart; `None` for the first start.
    pub(crate) fn cause(self) -> Option<(&'static str, Detail)> {
        if self.count == 0 {
            return None;
        }
        let (rule, exited) = match self.why {
            StartReason::Ended { .. } => (self.killed.unwrap_or(EXIT), self.ended),
            StartReason::NeverStarted if self.ended.is_some() => {
                (self.killed.unwrap_or(EXIT), self.ended)
            }
            StartReason::New | StartReason::NeverStarted => ("no-instance", None),
            StartReason::NewSandbox => (KillPod::SandboxChanged.rule(), None),
            StartReason::Killed(why) => (why.rule(), None),
        };
        let mut detail = exited.map(exit_detail).unwrap_or_default();
        detail = detail.with("restartCount", Input::Number(self.count.into()));
        if let Some(waited) = self.waited {
            detail = detail.with("backOff", Input::Span(waited));
        }
        Some((rule, detail))
    }
}

fn exit_detail(ended: &ContainerStatus) -> Detail {
    let code = ended.exit_code;
    let mut detail = Detail::default().with("exitCode", Input::Number(code.into()));
    if code > SIGNALED && code <= SIGNALED + LAST_SIGNAL {
        detail = detail.with("signal", Input::Number((code - SIGNALED).into()));
    }
    if !ended.reason.is_empty() {
        detail = detail.with("reason", Input::Text(ended.reason.to_string()));
    }
    detail
}

fn probe_detail(failure: &ProbeFailure) -> Detail {
    let detail = Detail::default()
        .with("failures", Input::Number(failure.failures.into()))
        .with("threshold", Input::Number(failure.threshold.into()))
        .with("period", Input::Span(failure.period));
    match shown_output(&failure.output) {
        output if output.is_empty() => detail,
        output => detail.with("output", Input::Text(output)),
    }
}

fn kind(failure: &ProbeFailure) -> &'static str {
    match failure.kind {
        ProbeKind::Startup => "startup",
        ProbeKind::Readiness => "readiness",
        ProbeKind::Liveness => "liveness",
    }
}

/// `3 failures in a row, 10s apart: HTTP probe failed with statuscode: 500`.
fn event_text(failure: &ProbeFailure) -> String {
    let count = in_a_row(failure);
    let text = match failure.failures {
        0 | 1 => count,
        _ => format!("{count}, {} apart", milliseconds(failure.period)),
    };
    with_output(text, failure)
}

fn in_a_row(failure: &ProbeFailure) -> String {
    match failure.failures {
        1 => "1 failure".to_owned(),
        count => format!("{count} failures in a row"),
    }
}

fn with_output(text: String, failure: &ProbeFailure) -> String {
    match shown_output(&failure.output) {
        output if output.is_empty() => text,
        output => format!("{text}: {output}"),
    }
}

/// The output of a probe as one short line. Of an HTTP response only the status code is shown.
fn shown_output(output: &str) -> String {
    let line = short_line(output);
    let Some(code) = line.strip_prefix(STATUS_CODE) else { return line };
    let code = code.trim_start();
    let digits = code.find(|c: char| !c.is_ascii_digit()).unwrap_or(code.len());
    format!("{STATUS_CODE} {}", &code[..digits])
}

#[cfg(test)]
#[path = "kill_cause_tests.rs"]
mod tests;
