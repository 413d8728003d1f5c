//! How soon to relist a pod after a container event.

use model::ports::runtime::ContainerEventKind;

use super::diff::ObjectState;

/// When a pod is relisted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Urgency {
    /// At once.
    Now,
    /// After the relist period, unless the record already reflects the event.
    Soon,
}

/// How soon to relist a pod after an event of a container or sandbox with this recorded state. The end of a container
/// or sandbox is always inspected at once. Other events mostly come from the agent's own calls: while calls for the pod
/// are `in_flight`, the agent relists the pod when they are done, and an earlier list would show an intermediate state.
pub fn event_urgency(
    kind: ContainerEventKind,
    state: Option<ObjectState>,
    in_flight: bool,
) -> Urgency {
    match (kind, state) {
        (ContainerEventKind::Stopped, _)
        | (ContainerEventKind::Deleted, Some(ObjectState::Running)) => Urgency::Now,
        _ if in_flight => Urgency::Soon,
        _ => Urgency::Now,
    }
}

/// Whether the recorded state of a container or sandbox reflects an event.
pub fn reflects(state: Option<ObjectState>, kind: ContainerEventKind) -> bool {
    match kind {
        ContainerEventKind::Created => state.is_some(),
        ContainerEventKind::Started => {
            matches!(state, Some(ObjectState::Running | ObjectState::Exited))
        }
        ContainerEventKind::Stopped => state == Some(ObjectState::Exited),
        ContainerEventKind::Deleted => state.is_none(),
    }
}

#[cfg(test)]
mod tests {
    use ContainerEventKind::{Created, Deleted, Started, Stopped};
    use ObjectState::{Exited, Running, Unknown};

    use super::*;

    const STATES: [Option<ObjectState>; 4] = [None, Some(Unknown), Some(Running), Some(Exited)];

    // behaviour: PLEG-41, PLEG-52
    #[test]
    fn only_stop_events_trigger_an_immediate_inspection_while_the_pod_is_in_flight() {
        let rows = [
            (Created, [Urgency::Soon; 4]),
            (Started, [Urgency::Soon; 4]),
            (Stopped, [Urgency::Now; 4]),
            (Deleted, [Urgency::Soon, Urgency::Soon, Urgency::Now, Urgency::Soon]),
        ];
        for (kind, expected) in rows {
            for (state, expected) in STATES.into_iter().zip(expected) {
                assert_eq!(event_urgency(kind, state, true), expected, "{kind:?} {state:?}");
                assert_eq!(event_urgency(kind, state, false), Urgency::Now, "{kind:?} {state:?}");
            }
        }
    }

    // behaviour: PLEG-52
    #[test]
    fn event_is_observed_when_the_recorded_state_reflects_it() {
        let rows = [
            (Created, [false, true, true, true]),
            (Started, [false, false, true, true]),
            (Stopped, [false, false, false, true]),
            (Deleted, [true, false, false, false]),
        ];
        for (kind, expected) in rows {
            assert_eq!(STATES.map(|state| reflects(state, kind)), expected, "{kind:?}");
        }
    }
}
