//! The reports of a pod that waits for its volumes.

use super::resolve::Unresolved;

/// A volume that is not mounted yet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unmounted {
    /// Its name in the pod.
    pub name: String,
    /// The failure of its last operation; none while the first one runs.
    pub failure: Option<String>,
}

/// The message of the event for a pod some of whose volumes cannot be mounted at all. The text is upstream's.
pub fn failed_message(unmounted: &[String], failed: &[Unresolved]) -> String {
    let names: Vec<String> = failed.iter().map(|one| one.name.to_string()).collect();
    let mut missing: Vec<String> = unmounted.iter().chain(&names).cloned().collect();
    missing.sort();
    let causes: Vec<String> = failed.iter().map(|one| one.error.to_string()).collect();
    format!(
        "Unable to attach or mount volumes: unmounted volumes=[{}], unattached volumes=[], failed to process \
         volumes=[{}]: {}",
        missing.join(" "),
        names.join(" "),
        causes.join("; ")
    )
}

#[cfg(test)]
mod tests {
    use super::super::resolve::ResolveError;
    use super::*;

    // behaviour: VOL-7
    #[test]
    fn message_names_all_missing_volumes_and_every_cause() {
        let failed = |name: &str, kind: &str| Unresolved {
            name: name.into(),
            error: ResolveError::Unsupported(kind.into()),
        };
        let message =
            failed_message(&["cache".to_owned()], &[failed("disk", "csi"), failed("b", "iscsi")]);
        let expected = "Unable to attach or mount volumes: unmounted volumes=[b cache disk], unattached \
                        volumes=[], failed to process volumes=[disk b]: volumes of kind csi are not \
                        supported; volumes of kind iscsi are not supported";
        assert_eq!(message, expected);
    }
}
