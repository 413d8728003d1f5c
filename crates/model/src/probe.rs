//! Probes: their kinds, verdicts and results.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::ids::ContainerId;

/// What a probe decides about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ProbeKind {
    /// Whether the container has started; the other probes wait for it.
    Startup,
    /// Whether the container is ready to serve.
    Readiness,
    /// Whether the container must be restarted.
    Liveness,
}

impl ProbeKind {
    /// All kinds, in the order in which a container's probes start.
    pub const ALL: [Self; 3] = [Self::Startup, Self::Readiness, Self::Liveness];

    /// The kind in events and metrics: `Startup`, `Readiness`, `Liveness`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Startup => "Startup",
            Self::Readiness => "Readiness",
            Self::Liveness => "Liveness",
        }
    }
}

impl fmt::Display for ProbeKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// The verdict of one probe attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ProbeVerdict {
    /// The container passes.
    Success,
    /// The container passes, and an event warns.
    Warning,
    /// The container fails.
    Failure,
    /// The attempt has no result; it counts as a failure.
    Unknown,
}

impl ProbeVerdict {
    /// The verdict in upstream's terms.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Success => "success",
            Self::Warning => "warning",
            Self::Failure => "failure",
            Self::Unknown => "unknown",
        }
    }
}

/// What one probe attempt returned.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProbeOutput {
    /// The verdict.
    pub verdict: ProbeVerdict,
    /// Upstream's text for it. Bodies of HTTP responses appear only where upstream prints them.
    pub output: String,
}

/// The longest output of a probe in events, statuses and the journal, in bytes.
const LONGEST_OUTPUT: usize = 256;

/// Ends an output that was cut off.
const CUT_OFF: &str = "...";

/// The output of a probe as one short line without control characters.
pub fn short_line(output: &str) -> String {
    let line = output.split_whitespace().collect::<Vec<_>>().join(" ");
    let line: String = line.chars().filter(|c| !c.is_control()).collect();
    if line.len() <= LONGEST_OUTPUT {
        return line;
    }
    let most = LONGEST_OUTPUT - CUT_OFF.len();
    let end = (0..=most).rev().find(|end| line.is_char_boundary(*end)).unwrap_or(0);
    format!("{}{CUT_OFF}", &line[..end])
}

/// A liveness or startup probe that failed often enough to kill its container.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProbeFailure {
    /// The kind of the probe.
    pub kind: ProbeKind,
    /// Failures in a row.
    pub failures: u32,
    /// The probe's `failureThreshold`.
    pub threshold: u32,
    /// The probe's period.
    pub period: Duration,
    /// The output of the last attempt.
    pub output: String,
}

/// Results of the probes of one container instance.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct InstanceProbes {
    /// Whether its startup probe passed; `None` without a verdict.
    pub startup: Option<bool>,
    /// Whether its readiness probe passes; `None` without a verdict.
    pub readiness: Option<bool>,
    /// Why it must be killed, if it must.
    pub failure: Option<ProbeFailure>,
}

/// Results of the probes of a pod, by container instance.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PodProbes {
    /// Containers that started before this moment count as not started and not ready until their probes pass again
    /// (feature gate `ChangeContainerStatusOnKubeletRestart`).
    pub resets_before: Option<Timestamp>,
    /// The instances.
    pub instances: BTreeMap<ContainerId, InstanceProbes>,
}

/// The counters of a probe; they survive a restart of the agent.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ProbeCount {
    /// The result; `None` without one.
    pub result: Option<bool>,
    /// The last verdict.
    pub last: Option<bool>,
    /// Equal verdicts in a row, counted up to the threshold.
    pub run: u32,
    /// Whether the instance is not probed any more.
    pub on_hold: bool,
    /// Whether the probe has passed for this instance.
    pub has_passed: bool,
    /// Why the instance must be killed: failures in a row, and the output of the last one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failure: Option<(u32, String)>,
}

/// The last attempt of a probe, for users.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct LastAttempt {
    /// When it ended.
    pub at: Timestamp,
    /// How many milliseconds it took.
    pub took_millis: u64,
    /// Its verdict; `None` if it failed without one.
    pub verdict: Option<ProbeVerdict>,
    /// The output of a command, or the failure; empty for network probes that pass.
    pub output: String,
}

/// The state of one probe, for users.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ProbeReport {
    /// Name of the container.
    pub container: String,
    /// Its kind.
    pub kind: ProbeKind,
    /// Whether the container passes; `None` before the first verdict.
    pub passes: Option<bool>,
    /// Equal verdicts in a row since the agent started, or the container.
    pub run: u32,
    /// The last attempt.
    pub last: Option<LastAttempt>,
}
