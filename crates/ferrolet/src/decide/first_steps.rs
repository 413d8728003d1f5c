//! What of a pod's start a status tells.

/// What became of a pod.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct FirstSteps {
    /// Its worker has begun.
    pub(crate) began: bool,
    /// It runs, and did not before.
    pub(crate) runs: bool,
    /// It does not start any more.
    pub(crate) is_over: bool,
}

/// What became of a pod, by its phases: the one that was told before, if any, and the one that is told now.
pub(crate) fn first_steps(before: Option<&str>, now: Option<&str>) -> FirstSteps {
    let is_pending = |phase: Option<&str>| matches!(phase, None | Some("Pending"));
    FirstSteps {
        began: before.is_none(),
        runs: is_pending(before) && now == Some("Running"),
        is_over: !is_pending(now),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // behaviour: WRK-29
    #[test]
    fn a_pod_begins_and_runs_once() {
        let rows = [
            (None, "Pending", (true, false, false)),
            (None, "Running", (true, true, true)),
            (Some("Pending"), "Pending", (false, false, false)),
            (Some("Pending"), "Running", (false, true, true)),
            (Some("Running"), "Running", (false, false, true)),
            (Some("Pending"), "Succeeded", (false, false, true)),
            (None, "Failed", (true, false, true)),
        ];
        for (before, now, (began, runs, is_over)) in rows {
            let expected = FirstSteps { began, runs, is_over };
            assert_eq!(first_steps(before, Some(now)), expected, "{before:?} {now}");
        }
    }
}
