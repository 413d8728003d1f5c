//! Errors in one line.

use std::error::Error;
use std::fmt;

/// Shows an error with its causes: errors do not repeat their sources themselves.
#[derive(Debug)]
pub struct Chain<'a>(pub &'a (dyn Error + 'a));

impl fmt::Display for Chain<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut last = self.0.to_string();
        f.write_str(&last)?;
        let mut cause = self.0.source();
        while let Some(error) = cause {
            // Errors of libraries are often wrapped in errors with the same text.
            let text = error.to_string();
            if text != last {
                write!(f, ": {text}")?;
                last = text;
            }
            cause = error.source();
        }
        Ok(())
    }
}

/// Several errors as one text, as upstream aggregates them: without duplicates, in brackets if there are
/// several.
pub fn aggregate(errors: impl IntoIterator<Item = String>) -> Option<String> {
    let mut texts: Vec<String> = Vec::new();
    for text in errors {
        if !texts.contains(&text) {
            texts.push(text);
        }
    }
    match texts.len() {
        0 => None,
        1 => texts.pop(),
        _ => Some(format!("[{}]", texts.join(", "))),
    }
}

#[cfg(test)]
mod tests {
    use std::io;

    use super::{Chain, aggregate};
    use crate::ports::files::FileError;

    #[test]
    fn error_is_displayed_with_its_causes() {
        let error = FileError {
            operation: "read",
            path: "/a".into(),
            source: io::Error::other("it is on fire"),
        };
        assert_eq!(Chain(&error).to_string(), "read /a: it is on fire");
        let wrapped = FileError { source: io::Error::other(io::Error::other("lost")), ..error };
        assert_eq!(Chain(&wrapped).to_string(), "read /a: lost", "and no words twice in a row");
    }

    #[test]
    fn aggregate_joins_errors_without_duplicates() {
        let of = |texts: &[&str]| aggregate(texts.iter().map(ToString::to_string));
        assert_eq!(of(&[]), None);
        assert_eq!(of(&["a", "a"]).as_deref(), Some("a"));
        assert_eq!(of(&["a", "b", "a"]).as_deref(), Some("[a, b]"));
    }
}
