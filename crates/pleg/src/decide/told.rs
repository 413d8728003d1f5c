//! When to look at a pod that the runtime tells of.

use model::ports::runtime::ContainerEventKind;

use super::diff::ObjectState;

/// When a pod is looked at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Look {
    /// At once.
    Now,
    /// Before long, unless what was told has been seen by then.
    Soon,
}

/// When to look at a pod if this was told of a part of it that was last seen in that state. That something has ended
/// is always looked at. All else is mostly what the agent does itself: while it `acts` on the pod, which it looks at
/// when it is done, a look would show half of it, and the one that shows all would have to wait for its end.
pub fn when_to_look(kind: ContainerEventKind, state: Option<ObjectState>, acts: bool) -> Look {
    match (kind, state) {
        (ContainerEventKind::Stopped, _)
        | (ContainerEventKind::Deleted, Some(ObjectState::Running)) => Look::Now,
        _ if acts => Look::Soon,
        _ => Look::Now,
    }
}

/// Whether a part of a pod that was last seen in that state was seen with what is told of it.
pub fn shows(state: Option<ObjectState>, kind: ContainerEventKind) -> bool {
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
            (Created, [Look::Soon; 4]),
            (Started, [Look::Soon; 4]),
            (Stopped, [Look::Now; 4]),
            (Deleted, [Look::Soon, Look::Soon, Look::Now, Look::Soon]),
        ];
        for (kind, expected) in rows {
            for (state, expected) in STATES.into_iter().zip(expected) {
                assert_eq!(when_to_look(kind, state, true), expected, "{kind:?} {state:?}");
                assert_eq!(when_to_look(kind, state, false), Look::Now, "{kind:?} {state:?}");
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
            assert_eq!(STATES.map(|state| shows(state, kind)), expected, "{kind:?}");
        }
    }
}
