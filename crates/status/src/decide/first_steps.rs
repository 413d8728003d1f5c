//! The steps of a pod's start that a status shows.

/// Steps of a pod's start.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct FirstSteps {
    /// The worker published the first status.
    pub(crate) began: bool,
    /// The pod runs, and did not before.
    pub(crate) runs: bool,
    /// The start is over: the pod runs or has ended.
    pub(crate) is_over: bool,
}

/// The steps that a change of a pod's phase shows.
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
    fn start_steps_are_reported_once() {
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
