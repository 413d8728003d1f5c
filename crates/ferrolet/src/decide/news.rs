//! What a pod that a source gives means for its worker.

use k8s_openapi::api::core::v1::Pod;
use podspec::view;

/// How the pod came.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Came {
    /// It was not there before.
    Added,
    /// It was there and is different now.
    Changed,
}

/// What pod it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Given {
    /// Of a manifest of this node.
    Static,
    /// Of a cluster.
    Api,
    /// One that somebody wants gone.
    Going,
}

impl Given {
    pub(crate) fn of(pod: &Pod) -> Self {
        if view::is_being_deleted(pod) {
            Self::Going
        } else if view::is_static(pod) {
            Self::Static
        } else {
            Self::Api
        }
    }
}

/// What is known of the pod.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Known {
    /// What pod it is.
    pub(crate) given: Given,
    /// Whether its last version was refused.
    pub(crate) refused: bool,
    /// Whether it has a worker.
    pub(crate) working: bool,
    /// Whether everything that it asks for can be done. Of a pod of a cluster this is asked when it is let in.
    pub(crate) supported: bool,
}

/// What to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Answer {
    /// Nothing: its cluster knows that it has failed, which stays so.
    StaysRefused,
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
        (_, Known { refused: true, given: Given::Api, .. }) => Answer::StaysRefused,
        (_, Known { supported: false, given: Given::Static, working, .. }) => {
            Answer::Refuse { kill: working }
        }
        (_, Known { working: false, .. }) => Answer::Admit,
        (Came::Added, _) | (_, Known { refused: true, .. }) => Answer::StartOver,
        (Came::Changed, _) => Answer::Update,
    }
}

/// Whether what was said of the pod's last version holds no more: a manifest can be mended, a pod that failed
/// in its cluster cannot.
pub(crate) fn is_mended(known: Known) -> bool {
    known.refused && known.given == Given::Static
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
    use podspec::annotations;
    use testkit::pods::pod;

    use super::*;

    fn check(given: Given, rows: &[(Came, bool, bool, bool, Answer)]) {
        for (came, refused, working, supported, expected) in rows.iter().copied() {
            let known = Known { given, refused, working, supported };
            assert_eq!(answer(came, known), expected, "{came:?} {known:?}");
            assert_eq!(is_mended(known), refused && given == Given::Static, "{known:?}");
        }
    }

    // behaviour: ADM-25, API-11
    #[test]
    fn a_pod_that_failed_in_its_cluster_stays_so_until_it_goes() {
        use Came::{Added, Changed};
        // came, refused before, has a worker, supported
        let stays = [
            (Added, true, false, true, Answer::StaysRefused),
            (Changed, true, false, true, Answer::StaysRefused),
            (Changed, true, false, false, Answer::StaysRefused),
            (Changed, true, true, true, Answer::StaysRefused),
            (Changed, true, true, false, Answer::StaysRefused),
            (Added, false, false, true, Answer::Admit),
            (Changed, false, true, true, Answer::Update),
            (Changed, false, true, false, Answer::Update),
        ];
        check(Given::Api, &stays);
        let goes = [
            (Changed, true, false, true, Answer::Admit),
            (Changed, true, false, false, Answer::Admit),
            (Changed, true, true, false, Answer::StartOver),
            (Changed, false, true, true, Answer::Update),
            (Changed, false, true, false, Answer::Update),
            (Added, false, false, false, Answer::Admit),
        ];
        check(Given::Going, &goes);
    }

    // behaviour: SRC-26, WRK-10
    #[test]
    fn each_static_pod_has_its_answer() {
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
        check(Given::Static, &rows);
    }

    #[test]
    fn a_pod_is_of_a_manifest_or_of_a_cluster_or_goes() {
        let file = (annotations::CONFIG_SOURCE, annotations::SOURCE_FILE);
        let fixed = pod("web").annotation(file.0, file.1).build();
        assert_eq!(Given::of(&fixed), Given::Static);
        let mut of_cluster = pod("web").build();
        assert_eq!(Given::of(&of_cluster), Given::Api);
        of_cluster.metadata.deletion_timestamp = Some(Time(Timestamp::UNIX_EPOCH));
        assert_eq!(Given::of(&of_cluster), Given::Going);
    }
}
