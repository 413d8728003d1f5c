//! Label selectors of Kubernetes, for labels or annotations.

use std::str::FromStr;

/// Why a selector is invalid.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "{requirement:?} is no requirement; write key, !key, key=value, key!=value or key in (a,b)"
)]
pub struct SelectorError {
    /// The invalid part.
    pub requirement: String,
}

/// Requirements that all must hold. Without any, nothing matches.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Selector {
    requirements: Vec<Requirement>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Requirement {
    key: String,
    must: Operator,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Operator {
    Exist,
    NotExist,
    BeOneOf(Vec<String>),
    BeNoneOf(Vec<String>),
}

impl FromStr for Selector {
    type Err = SelectorError;

    fn from_str(text: &str) -> Result<Self, SelectorError> {
        let parts = parts(text).into_iter().map(str::trim).filter(|part| !part.is_empty());
        let requirements = parts.map(requirement).collect::<Result<_, _>>()?;
        Ok(Self { requirements })
    }
}

/// Splits at commas outside of parentheses.
fn parts(text: &str) -> Vec<&str> {
    let mut depth = 0i32;
    text.split(|letter| {
        match letter {
            '(' => depth += 1,
            ')' => depth -= 1,
            _ => {}
        }
        letter == ',' && depth == 0
    })
    .collect()
}

fn requirement(text: &str) -> Result<Requirement, SelectorError> {
    let wrong = || SelectorError { requirement: text.to_owned() };
    let value = |value: &str| vec![value.trim().to_owned()];
    let (key, must) = if let Some((key, rest)) = text.split_once("!=") {
        (key, Operator::BeNoneOf(value(rest)))
    } else if let Some((key, rest)) = text.split_once("==").or_else(|| text.split_once('=')) {
        (key, Operator::BeOneOf(value(rest)))
    } else if let Some(key) = text.strip_prefix('!') {
        (key, Operator::NotExist)
    } else if let Some((key, rest)) = text.split_once(" notin ") {
        (key, Operator::BeNoneOf(values(rest).ok_or_else(wrong)?))
    } else if let Some((key, rest)) = text.split_once(" in ") {
        (key, Operator::BeOneOf(values(rest).ok_or_else(wrong)?))
    } else {
        (text, Operator::Exist)
    };
    let key = key.trim();
    let allowed = |letter: char| letter.is_ascii_alphanumeric() || "-_./".contains(letter);
    if key.is_empty() || !key.chars().all(allowed) {
        return Err(wrong());
    }
    Ok(Requirement { key: key.to_owned(), must })
}

fn values(text: &str) -> Option<Vec<String>> {
    let inner = text.trim().strip_prefix('(')?.strip_suffix(')')?;
    Some(inner.split(',').map(|value| value.trim().to_owned()).collect())
}

impl Selector {
    /// Whether it has no requirements.
    pub fn is_empty(&self) -> bool {
        self.requirements.is_empty()
    }

    /// Whether these labels match.
    pub fn matches<'a>(&self, get: impl Fn(&str) -> Option<&'a str>) -> bool {
        !self.is_empty()
            && self.requirements.iter().all(|Requirement { key, must }| match (must, get(key)) {
                (Operator::Exist, value) => value.is_some(),
                (Operator::NotExist, value) => value.is_none(),
                (Operator::BeOneOf(values), value) => {
                    value.is_some_and(|value| values.iter().any(|one| one == value))
                }
                (Operator::BeNoneOf(values), value) => {
                    value.is_none_or(|value| values.iter().all(|one| one != value))
                }
            })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn selector_matches_as_in_kubernetes() {
        let labels = |key: &str| match key {
            "app" => Some("web"),
            "example.com/keep" => Some(""),
            _ => None,
        };
        let rows = [
            ("", false),
            ("app", true),
            ("!app", false),
            ("!other", true),
            ("app=web", true),
            ("app==web", true),
            ("app = db", false),
            ("app!=db", true),
            ("other!=db", true),
            ("app in (db, web)", true),
            ("app notin (db,web)", false),
            ("app in (db,web),example.com/keep", true),
            ("app=web,other", false),
            ("example.com/keep=", true),
        ];
        for (text, means) in rows {
            assert_eq!(text.parse::<Selector>().unwrap().matches(labels), means, "{text}");
        }
    }

    #[test]
    fn invalid_selector_is_rejected() {
        for text in ["a b", "=x", "app in web", "a(b", "app in (a", "ü"] {
            assert!(text.parse::<Selector>().is_err(), "{text}");
        }
    }
}
