//! Differences between what two agents report of the same thing.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use serde_json::Value;

/// An accepted difference. In patterns, `*` matches any text; in a path, any text without `/`.
#[derive(Debug, Clone, Copy)]
pub struct KnownDifference {
    /// The paths of the leaves.
    pub path: &'static str,
    /// A pattern for our value. Empty: there is none; `*`: any value, or none; `a|b`: one of them. If a value (or none)
    /// is right for both agents, the difference need not occur: not all differences occur in each run.
    pub ours: &'static str,
    /// A pattern for upstream's value, likewise.
    pub upstream: &'static str,
    /// Why it is accepted: upstream's defect, or the page that documents our value.
    pub why: &'static str,
}

impl KnownDifference {
    fn is(&self, found: &Difference<'_>) -> bool {
        fits(self.path, found.path, Some('/'))
            && is_value(self.ours, found.ours)
            && is_value(self.upstream, found.upstream)
    }

    /// Whether the difference may be absent: all our values are right for upstream, too.
    fn need_not_be(&self, ours: &BTreeMap<String, String>, paths: &BTreeSet<&String>) -> bool {
        let mut found = paths.iter().filter(|path| fits(self.path, path, Some('/'))).peekable();
        let is_right = |value| is_value(self.ours, value) && is_value(self.upstream, value);
        if found.peek().is_none() {
            is_right(None)
        } else {
            found.all(|path| is_right(ours.get(*path)))
        }
    }
}

impl fmt::Display for KnownDifference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "no such difference any more: {} ({})", self.path, self.why)
    }
}

/// A leaf with different values.
#[derive(Debug, Clone, Copy)]
struct Difference<'a> {
    path: &'a str,
    ours: Option<&'a String>,
    upstream: Option<&'a String>,
}

impl fmt::Display for Difference<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let value = |value: Option<&String>| value.map_or("(nothing)".to_owned(), String::clone);
        let (ours, upstream) = (value(self.ours), value(self.upstream));
        write!(f, "{}\n    ours:       {ours}\n    upstream's: {upstream}", self.path)
    }
}

/// Whether a text matches a pattern. `*` does not match the wall character.
fn fits(pattern: &str, text: &str, wall: Option<char>) -> bool {
    let Some((before, after)) = pattern.split_once('*') else { return pattern == text };
    let Some(rest) = text.strip_prefix(before) else { return false };
    let end = wall.and_then(|wall| rest.find(wall)).unwrap_or(rest.len());
    let mut ends = (0..=end).filter(|at| rest.is_char_boundary(*at));
    ends.any(|at| fits(after, &rest[at..], wall))
}

fn is_value(pattern: &str, value: Option<&String>) -> bool {
    pattern.split('|').any(|pattern| match value {
        None => pattern.is_empty() || pattern == "*",
        Some(value) => fits(pattern, value, None),
    })
}

/// The leaves of a value, by their paths. Strings are as they are, other values as JSON.
pub fn leaves(value: &Value) -> BTreeMap<String, String> {
    let mut all = BTreeMap::new();
    gather(value, "", &mut all);
    all
}

fn gather(value: &Value, path: &str, all: &mut BTreeMap<String, String>) {
    match value {
        Value::Object(map) if !map.is_empty() => {
            for (name, inner) in map {
                let name = name.replace('~', "~0").replace('/', "~1");
                gather(inner, &format!("{path}/{name}"), all);
            }
        }
        Value::Array(list) if !list.is_empty() => {
            for (at, inner) in list.iter().enumerate() {
                gather(inner, &format!("{path}/{at}"), all);
            }
        }
        Value::String(text) if !text.is_empty() => drop(all.insert(path.to_owned(), text.clone())),
        leaf => drop(all.insert(path.to_owned(), leaf.to_string())),
    }
}

/// Whether a leaf is a time, which differs with every write.
pub fn is_time(path: &str) -> bool {
    ["Time", "Timestamp", "timeAdded", "startedAt", "finishedAt", "config.seen"]
        .iter()
        .any(|end| path.ends_with(end))
}

/// Whether one side has values inside an object or list that is empty on the other: each such value is
/// a separate leaf.
fn is_shape(found: &Difference<'_>, all: &BTreeMap<String, String>) -> bool {
    let is_empty =
        |value: Option<&String>| value.is_some_and(|value| value == "{}" || value == "[]");
    let below = format!("{}/", found.path);
    let mut after = all.range(below.clone()..);
    (is_empty(found.ours) || is_empty(found.upstream))
        && after.next().is_some_and(|(path, _)| path.starts_with(&below))
}

/// Unknown differences, and known ones that did not occur.
pub fn differences(
    ours: &BTreeMap<String, String>,
    upstream: &BTreeMap<String, String>,
    known: &[KnownDifference],
) -> Vec<String> {
    let paths: BTreeSet<&String> = ours.keys().chain(upstream.keys()).collect();
    let mut found = Vec::new();
    let mut met = vec![false; known.len()];
    for path in paths.iter().copied() {
        let one = Difference { path, ours: ours.get(path), upstream: upstream.get(path) };
        if one.ours == one.upstream || is_shape(&one, ours) || is_shape(&one, upstream) {
            continue;
        }
        match known.iter().position(|known| known.is(&one)) {
            Some(at) => met[at] = true,
            None => found.push(one.to_string()),
        }
    }
    let unmet =
        known.iter().zip(met).filter(|(known, met)| !met && !known.need_not_be(ours, &paths));
    found.extend(unmet.map(|(known, _)| known.to_string()));
    found
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn known(path: &'static str, ours: &'static str, upstream: &'static str) -> KnownDifference {
        KnownDifference { path, ours, upstream, why: "of a reason" }
    }

    #[test]
    fn known_differences_are_the_only_ones_and_all_occur() {
        let ours = leaves(&json!({ "a": { "x/y": 1 }, "list": ["p", "q"], "same": [] }));
        let upstream = leaves(&json!({ "a": { "x/y": 2 }, "list": ["p"], "same": [] }));
        let all = [known("/list/*", "q", ""), known("/same", "[]", "[1]")];
        let found = differences(&ours, &upstream, &all);
        assert_eq!(found[0], "/a/x~1y\n    ours:       1\n    upstream's: 2");
        assert_eq!(found[1..], ["no such difference any more: /same (of a reason)"]);
    }

    #[test]
    fn occasional_difference_may_be_absent() {
        let none = BTreeMap::new();
        let one = leaves(&json!({ "events": { "done": "twice" } }));
        let met_at_times = known("/events/*", "", "*");
        assert!(differences(&none, &one, &[met_at_times]).is_empty());
        assert!(differences(&none, &none, &[met_at_times]).is_empty());
        // Equal values on both sides: the known difference did not occur.
        assert_eq!(differences(&one, &one, &[met_at_times]).len(), 1);
        assert_eq!(differences(&none, &none, &[known("/events/*", "", "twice")]).len(), 1);
        // One value may be right for both.
        let single = leaves(&json!({ "events": { "done": "once" } }));
        let again_at_times = known("/events/*", "once", "once|twice");
        assert!(differences(&single, &one, &[again_at_times]).is_empty());
        assert!(differences(&single, &single, &[again_at_times]).is_empty());
        assert_eq!(differences(&one, &one, &[again_at_times]).len(), 1);
        assert_eq!(differences(&none, &none, &[again_at_times]).len(), 1);
        let there_at_times = known("/events/*", "", "|twice");
        assert!(differences(&none, &one, &[there_at_times]).is_empty());
        assert!(differences(&none, &none, &[there_at_times]).is_empty());
        assert_eq!(differences(&none, &single, &[there_at_times]).len(), 1);
    }

    #[test]
    fn leaves_of_an_object_that_is_empty_on_the_other_side_differ_one_by_one() {
        let empty = leaves(&json!({ "resources": {} }));
        let full = leaves(&json!({ "resources": { "limits": { "memory": "all" } } }));
        let no_limit = known("/resources/limits/memory", "", "all");
        assert!(differences(&empty, &full, &[no_limit]).is_empty());
        assert_eq!(differences(&full, &empty, &[]).len(), 1);
        // A missing value differs from an empty one.
        let none = BTreeMap::new();
        let found = differences(&empty, &none, &[]);
        assert_eq!(found, ["/resources\n    ours:       {}\n    upstream's: (nothing)"]);
    }

    #[test]
    fn known_difference_matches_only_its_paths_and_values() {
        let ours = leaves(&json!({ "pods": { "web": { "message": "it is late" } } }));
        let upstream =
            leaves(&json!({ "pods": { "web": { "message": "rpc error: it is late" } } }));
        let is_known = |path, ours_is, upstream_is| {
            differences(&ours, &upstream, &[known(path, ours_is, upstream_is)]).is_empty()
        };
        assert!(is_known("/pods/*/message", "it is late", "rpc error: *"));
        assert!(is_known("/pods/w*b/mess*", "*late", "*"));
        // Another path, or a part of the path.
        assert!(!is_known("/pods/*", "*", "*"));
        assert!(!is_known("/*/message", "*", "*"));
        assert!(!is_known("message", "*", "*"));
        // Another value.
        assert!(!is_known("/pods/web/message", "it is early", "*"));
        assert!(!is_known("/pods/web/message", "", "*"));
        assert!(!is_known("/pods/web/message", "it is", "*"));
    }
}
