//! What a pod that a source gives means for its worker.

/// How the pod came.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Came {
    /// It was not there before.
    Added,
    /// It was there and is different now.
    Changed,
}

/// What is known of the pod.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Known {
    /// Whether its last version was refused.
    pub(crate) refused: bool,
    /// Whether it has a worker.
    pub(crate) working: bool,
    /// Whether everything that it asks for can be done.
    pub(crate) supported: bool,
}

/// What to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Answer {
    /// Refuse it; and end what its last version left running.
    Refuse {
        /// Whether there may be such.
        kill: bool,
    },
    /// Take it in: it gets a worker as soon as nothing stands in the way.
    Admit,
    /// Tell its worker, which is ending the last version, to start over.
    StartOver,
    /// Tell its worker.
    Update,
}

/// What to do with a pod of a source.
pub(crate) fn answer(came: Came, known: Known) -> Answer {
    match (came, known) {
        (_, Known { supported: false, working, .. }) => Answer::Refuse { kill: working },
        (_, Known { working: false, .. }) => Answer::Admit,
        (Came::Added, _) | (_, Known { refused: true, .. }) => Answer::StartOver,
        (Came::Changed, _) => Answer::Update,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // behaviour: SRC-26, WRK-10
    #[test]
    fn each_pod_of_a_source_has_its_answer() {
        use Came::{Added, Changed};
        // came, refused before, has a worker, supported
        let rows = [
            (Added, false, false, true, Answer::Admit),
            (Added, false, true, true, Answer::StartOver),
            (Added, false, false, false, Answer::Refuse { kill: false }),
            (Added, false, true, false, Answer::Refuse { kill: true }),
            (Changed, false, true, true, Answer::Update),
            (Changed, false, false, true, Answer::Admit),
            (Changed, false, true, false, Answer::Refuse { kill: true }),
            (Changed, true, false, true, Answer::Admit),
            (Changed, true, true, true, Answer::StartOver),
            (Changed, true, false, false, Answer::Refuse { kill: false }),
            (Changed, true, true, false, Answer::Refuse { kill: true }),
        ];
        for (came, refused, working, supported, expected) in rows {
            let known = Known { refused, working, supported };
            assert_eq!(answer(came, known), expected, "{came:?} {known:?}");
        }
    }
}
