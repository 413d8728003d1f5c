//! Errors in one line.

use std::error::Error;
use std::fmt;

/// Shows an error with its causes: errors do not repeat their sources themselves.
#[derive(Debug)]
pub struct Chain<'a>(pub &'a (dyn Error + 'a));

impl fmt::Display for Chain<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)?;
        let mut cause = self.0.source();
        while let Some(error) = cause {
            write!(f, ": {error}")?;
            cause = error.source();
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::io;

    use super::Chain;
    use crate::ports::files::FileError;

    #[test]
    fn an_error_is_shown_with_its_causes() {
        let error = FileError {
            operation: "read",
            path: "/a".into(),
            source: io::Error::other("it is on fire"),
        };
        assert_eq!(Chain(&error).to_string(), "read /a: it is on fire");
    }
}
