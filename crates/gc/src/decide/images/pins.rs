//! Images that the operator pins, by name or label.

use std::collections::BTreeMap;

use podspec::image_name::ImageName;

/// An invalid pattern.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "{pattern:?} is neither a name of an image, nor a pattern with * or ?, nor label:NAME[=VALUE]"
)]
pub struct PinError {
    pattern: String,
}

/// The pins.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Pins(Vec<Pin>);

#[derive(Debug, Clone, PartialEq, Eq)]
struct Pin {
    /// The original text.
    text: String,
    kind: Kind,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Kind {
    /// The full name, with a tag or digest, or without one to match all.
    Name(String),
    /// A glob for the full name, with or without its tag or digest.
    Glob(Vec<char>),
    /// A label, and its value if required.
    Label(String, Option<String>),
}

impl Pins {
    /// Parses patterns.
    pub fn parse<T: AsRef<str>>(patterns: &[T]) -> Result<Self, PinError> {
        patterns.iter().map(|text| pin(text.as_ref())).collect::<Result<_, _>>().map(Self)
    }

    /// Whether any pattern matches labels.
    pub fn look_at_labels(&self) -> bool {
        self.0.iter().any(|pin| matches!(pin.kind, Kind::Label(..)))
    }

    /// The first pattern that matches these full names and labels, with its rule.
    pub fn matching(
        &self,
        names: &[String],
        labels: Option<&BTreeMap<String, String>>,
    ) -> Option<(&str, &'static str)> {
        self.0.iter().find_map(|pin| {
            let by_name = || names.iter().any(|name| pin.kind.matches_name(name));
            let by_label = || labels.is_some_and(|labels| pin.kind.matches_label(labels));
            let rule = match pin.kind {
                Kind::Label(..) => by_label().then_some("pinned-by-label"),
                _ => by_name().then_some("pinned-by-name"),
            };
            rule.map(|rule| (&*pin.text, rule))
        })
    }
}

fn pin(text: &str) -> Result<Pin, PinError> {
    let wrong = || PinError { pattern: text.to_owned() };
    let kind = if let Some(label) = text.strip_prefix("label:") {
        let (name, value) = match label.split_once('=') {
            Some((name, value)) => (name, Some(value.to_owned())),
            None => (label, None),
        };
        if name.is_empty() {
            return Err(wrong());
        }
        Kind::Label(name.to_owned(), value)
    } else if text.contains(['*', '?']) {
        if text.contains(char::is_whitespace) {
            return Err(wrong());
        }
        Kind::Glob(text.chars().collect())
    } else {
        let name = ImageName::parse(text).ok_or_else(wrong)?;
        Kind::Name(name.in_full())
    };
    Ok(Pin { text: text.to_owned(), kind })
}

/// A name without its tag or digest.
fn repository(name: &str) -> &str {
    let name = name.split_once('@').map_or(name, |(name, _)| name);
    match name.rfind(':') {
        Some(colon) if !name[colon..].contains('/') => &name[..colon],
        _ => name,
    }
}

impl Kind {
    fn matches_name(&self, name: &str) -> bool {
        let texts = [name, repository(name)];
        match self {
            Self::Name(wanted) => texts.contains(&wanted.as_str()),
            Self::Glob(pattern) => texts.iter().any(|text| glob(pattern, text)),
            Self::Label(..) => false,
        }
    }

    fn matches_label(&self, labels: &BTreeMap<String, String>) -> bool {
        match self {
            Self::Label(name, value) => labels
                .get(name)
                .is_some_and(|found| value.as_ref().is_none_or(|value| value == found)),
            _ => false,
        }
    }
}

/// Whether a text matches a glob: `*` matches any text, `?` one character. Linear in the length of the text for
/// each `*`.
fn glob(pattern: &[char], text: &str) -> bool {
    let text: Vec<char> = text.chars().collect();
    let (mut at, mut read) = (0, 0);
    // The position of the last `*`, and the end of its match so far.
    let mut star: Option<(usize, usize)> = None;
    while read < text.len() {
        match pattern.get(at) {
            Some('*') => {
                star = Some((at, read));
                at += 1;
            }
            Some(wanted) if *wanted == '?' || *wanted == text[read] => {
                at += 1;
                read += 1;
            }
            _ => match star {
                Some((place, reach)) => {
                    star = Some((place, reach + 1));
                    at = place + 1;
                    read = reach + 1;
                }
                None => return false,
            },
        }
    }
    pattern[at..].iter().all(|rest| *rest == '*')
}

#[cfg(test)]
mod tests {
    use super::*;

    // behaviour: IMG-50
    #[test]
    fn image_patterns_are_names_or_globs() {
        let digest = format!("registry.test/app@sha256:{}", "a".repeat(64));
        let rows = [
            ("busybox", "docker.io/library/busybox:1", true),
            ("busybox:1", "docker.io/library/busybox:1", true),
            ("busybox:2", "docker.io/library/busybox:1", false),
            ("registry.test/app", "registry.test/app:7", true),
            ("registry.test/app", &digest, true),
            (&digest, &digest, true),
            ("registry.test/app", "registry.test/application:7", false),
            ("registry.test:5000/app", "registry.test:5000/app:7", true),
            ("registry.test/*", "registry.test/team/app:7", true),
            ("registry.test/*", "docker.io/library/busybox:1", false),
            ("*/busybox", "docker.io/library/busybox:1", true),
            ("*:stable-?", "registry.test/app:stable-1", true),
            ("*:stable-?", "registry.test/app:stable-10", false),
            ("*", "anything:1", true),
        ];
        for (pattern, name, expected) in rows {
            let pins = Pins::parse(&[pattern]).unwrap();
            let found = pins.matching(&[name.to_owned()], None);
            assert_eq!(found.is_some(), expected, "{pattern} on {name}");
            assert!(found.is_none_or(|found| found == (pattern, "pinned-by-name")), "{found:?}");
        }
    }

    // behaviour: IMG-51
    #[test]
    fn labels_match_with_or_without_a_value() {
        let labels = BTreeMap::from([("keep".to_owned(), "always".to_owned())]);
        let rows = [
            ("label:keep", true),
            ("label:keep=always", true),
            ("label:keep=never", false),
            ("label:other", false),
        ];
        for (pattern, expected) in rows {
            let pins = Pins::parse(&[pattern]).unwrap();
            assert!(pins.look_at_labels());
            let found = pins.matching(&["a:1".to_owned()], Some(&labels));
            assert_eq!(found, expected.then_some((pattern, "pinned-by-label")));
            assert_eq!(pins.matching(&["a:1".to_owned()], None), None);
        }
    }

    #[test]
    fn invalid_patterns_are_refused() {
        for wrong in ["", "a b", "* *", "label:", "label:=x", "UPPER/case:x y"] {
            Pins::parse(&[wrong]).expect_err(wrong);
        }
        assert!(!Pins::parse(&["busybox"]).unwrap().look_at_labels());
    }
}
