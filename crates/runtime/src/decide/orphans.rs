//! Directories of orphaned pods.

use std::collections::BTreeSet;

use model::ids::PodUid;

/// The directories, by UID, of pods that are not desired, have no worker, and do not run in the runtime.
pub fn orphaned_directories(found: Vec<PodUid>, known: &BTreeSet<PodUid>) -> Vec<PodUid> {
    found.into_iter().filter(|uid| !known.contains(uid)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    // behaviour: ACT-96
    #[test]
    fn directories_of_unknown_pods_are_orphaned() {
        let known = BTreeSet::from(["a".into(), "b".into()]);
        let found = ["a", "gone"].map(PodUid::from).into();
        assert_eq!(orphaned_directories(found, &known), [PodUid::from("gone")]);
    }
}
