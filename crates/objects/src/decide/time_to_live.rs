//! How long a version of an object is fresh after a read.

use std::collections::BTreeMap;
use std::time::Duration;

/// The annotation of a node with this time, in seconds.
const ANNOTATION: &str = "node.alpha.kubernetes.io/ttl";

/// The time in the annotations of the node, if they have one.
pub fn time_to_live(annotations: Option<&BTreeMap<String, String>>) -> Option<Duration> {
    let seconds: i64 = annotations?.get(ANNOTATION)?.parse().ok()?;
    Some(Duration::from_secs(u64::try_from(seconds).unwrap_or(0)))
}

#[cfg(test)]
mod tests {
    use super::*;

    // behaviour: OBJ-15
    #[test]
    fn annotation_is_a_number_of_seconds() {
        let rows = [("0", Some(0)), ("300", Some(300)), ("-1", Some(0)), ("5m", None), ("", None)];
        for (text, expected) in rows {
            let annotations = [(ANNOTATION.to_owned(), text.to_owned())].into();
            let found = time_to_live(Some(&annotations));
            assert_eq!(found, expected.map(Duration::from_secs), "{text}");
        }
        assert_eq!(time_to_live(None), None);
        assert_eq!(time_to_live(Some(&BTreeMap::new())), None);
    }
}
