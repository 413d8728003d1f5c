//! Directories of pods that are gone.

use std::collections::BTreeSet;

use model::ids::PodUid;

/// The names of directories that belong to no pod that is wanted, worked on, or alive in the runtime.
pub fn orphaned_directories(names: Vec<String>, known: &BTreeSet<PodUid>) -> Vec<String> {
    names.into_iter().filter(|name| !known.contains(&PodUid::from(name.as_str()))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    // behaviour: ACT-96
    #[test]
    fn only_directories_of_unknown_pods_are_orphans() {
        let known = BTreeSet::from(["a".into(), "b".into()]);
        let names = ["a", "gone"].map(ToOwned::to_owned).into();
        assert_eq!(orphaned_directories(names, &known), ["gone"]);
    }
}
