//! Events of probe attempts, in upstream's words.

use model::ports::events::EventType;
use model::probe::{ProbeKind, ProbeOutput, ProbeVerdict};

/// Type, reason and message of an event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProbeEvent {
    /// The type.
    pub kind: EventType,
    /// The reason.
    pub reason: &'static str,
    /// The message.
    pub message: String,
}

/// The event of an attempt, if there is one.
pub fn event(kind: ProbeKind, attempt: &Result<ProbeOutput, String>) -> Option<ProbeEvent> {
    let warning = |reason, message| Some(ProbeEvent { kind: EventType::Warning, reason, message });
    match attempt {
        Ok(ProbeOutput { verdict, output }) => match verdict {
            ProbeVerdict::Success | ProbeVerdict::Unknown => None,
            ProbeVerdict::Warning => {
                warning("ProbeWarning", format!("{kind} probe warning: {output}"))
            }
            ProbeVerdict::Failure => warning("Unhealthy", format!("{kind} probe failed: {output}")),
        },
        Err(error) => {
            let verdict = ProbeVerdict::Unknown.as_str();
            warning(
                "Unhealthy",
                format!("{kind} probe errored and resulted in {verdict} state: {error}"),
            )
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // behaviour: PRB-21
    #[test]
    fn failures_warnings_and_errors_have_events() {
        let output = |verdict| Ok(ProbeOutput { verdict, output: "x".to_owned() });
        let rows = [
            (output(ProbeVerdict::Success), None),
            (output(ProbeVerdict::Unknown), None),
            (output(ProbeVerdict::Warning), Some(("ProbeWarning", "Liveness probe warning: x"))),
            (output(ProbeVerdict::Failure), Some(("Unhealthy", "Liveness probe failed: x"))),
            (
                Err("no task".to_owned()),
                Some((
                    "Unhealthy",
                    "Liveness probe errored and resulted in unknown state: no task",
                )),
            ),
        ];
        for (attempt, expected) in rows {
            let event = event(ProbeKind::Liveness, &attempt);
            let shown = event.as_ref().map(|event| (event.reason, event.message.as_str()));
            assert_eq!(shown, expected, "{attempt:?}");
        }
    }
}
