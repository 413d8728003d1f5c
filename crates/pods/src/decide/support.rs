//! Decides whether a new version of a manifest replaces the last good one. A version that the node cannot run
//! does not terminate a pod that it can run.

use k8s_openapi::api::core::v1::Pod;
use podspec::view;

/// The reason why a new version of a file is held back, if there is one. Without a last good version,
/// or with one that is not supported either, the version is published, and the pod is rejected with its
/// usual event.
pub fn held_back(
    new: &Pod,
    last_good: Option<&Pod>,
    unsupported: impl Fn(&Pod) -> Option<String>,
) -> Option<String> {
    let message = unsupported(new)?;
    let last_good = last_good?;
    unsupported(last_good).is_none().then_some(message)
}

/// Like `held_back`, for a set of pods: the problem of the first pod that is held back. A set is replaced as a whole.
pub fn set_held_back(
    new: &[Pod],
    last_good: &[&Pod],
    unsupported: impl Fn(&Pod) -> Option<String>,
) -> Option<String> {
    new.iter().find_map(|pod| {
        let name = view::pod_name(pod);
        let before = last_good.iter().find(|before| view::pod_name(before) == name);
        let message = held_back(pod, before.copied(), &unsupported)?;
        Some(format!("{name}: {message}"))
    })
}

#[cfg(test)]
mod tests {
    use testkit::pods::pod;

    use super::*;

    fn made(name: &str, is_supported: bool) -> Pod {
        let marked = pod(name);
        if is_supported { marked.build() } else { marked.annotation("cannot", "run").build() }
    }

    fn unsupported(pod: &Pod) -> Option<String> {
        let marks = pod.metadata.annotations.as_ref()?;
        marks.get("cannot").map(|_| "not supported".to_owned())
    }

    // behaviour: SRC-67
    #[test]
    fn unsupported_version_is_held_back_when_the_last_good_one_is_supported() {
        // the new version, the last good one, whether the new one is held back
        let rows = [
            (true, None, false),
            (true, Some(true), false),
            (true, Some(false), false),
            (false, None, false),
            (false, Some(true), true),
            (false, Some(false), false),
        ];
        for (new, last_good, expected) in rows {
            let last_good = last_good.map(|is_supported| made("web", is_supported));
            let message = held_back(&made("web", new), last_good.as_ref(), unsupported);
            let expected = expected.then_some("not supported");
            assert_eq!(message.as_deref(), expected, "{new} {last_good:?}");
        }
    }

    // behaviour: SRC-67
    #[test]
    fn set_is_held_back_for_a_pod_that_was_supported_under_the_same_name() {
        let before = [made("a", true), made("b", true), made("c", false)];
        let before: Vec<&Pod> = before.iter().collect();
        // Columns: the new set, and the pod because of which it is held back.
        let rows = [
            (vec![], None),
            (vec![("a", true), ("b", true)], None),
            (vec![("a", true), ("b", false)], Some("default/b: not supported")),
            (vec![("a", true), ("c", false)], None),
            (vec![("a", true), ("new", false)], None),
        ];
        for (new, expected) in rows {
            let pods: Vec<Pod> = new.iter().map(|(name, good)| made(name, *good)).collect();
            let message = set_held_back(&pods, &before, unsupported);
            assert_eq!(message.as_deref(), expected, "{new:?}");
        }
    }
}
