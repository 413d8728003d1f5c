//! Why a pull failed.

use std::fmt;

use model::chain::aggregate;
use model::ports::runtime::{Code, RuntimeError};

/// Why an attempt of a pull failed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AttemptError {
    /// The runtime did not pull the image.
    Runtime(RuntimeError),
    /// The rate limit of the node was exceeded.
    RateLimit,
}

impl fmt::Display for AttemptError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            // The code is left out where it is unknown, as upstream does for pulls.
            Self::Runtime(error) if error.code == Code::Unknown => f.write_str(&error.message),
            Self::Runtime(error) => f.write_str(&error.rpc_text()),
            Self::RateLimit => f.write_str("pull QPS exceeded"),
        }
    }
}

/// Why a pull failed: an error for each credential that was tried. Their texts are joined by upstream's rule.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{}", joined(.0))]
pub struct PullError(pub Vec<AttemptError>);

fn joined(attempts: &[AttemptError]) -> String {
    aggregate(attempts.iter().map(ToString::to_string)).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(code: Code, message: &str) -> AttemptError {
        AttemptError::Runtime(RuntimeError {
            method: "PullImage",
            object: "far:1".to_owned(),
            code,
            message: message.to_owned(),
        })
    }

    // behaviour: PULL-7
    #[test]
    fn errors_of_several_credentials_are_joined() {
        let (a, b) = (refused(Code::Unknown, "a"), refused(Code::NotFound, "b"));
        let rows = [
            (vec![a.clone()], "a"),
            (vec![AttemptError::RateLimit], "pull QPS exceeded"),
            (vec![a.clone(), b.clone()], "[a, rpc error: code = NotFound desc = b]"),
            (vec![a.clone(), a.clone()], "a"),
            (vec![b, a], "[rpc error: code = NotFound desc = b, a]"),
        ];
        for (attempts, expected) in rows {
            assert_eq!(PullError(attempts).to_string(), expected);
        }
    }
}
