//! Decides what an error of the API server means for the next write.

use std::time::Duration;

use model::ports::cluster::ApiError;

use crate::decide::queue::WriteOutcome;

/// The outcome of a write that ended with an error.
pub fn outcome(error: &ApiError) -> WriteOutcome {
    match error {
        // The watch delivers the current object.
        ApiError::NotFound => WriteOutcome::Well,
        ApiError::Throttled { retry_after } => WriteOutcome::Away(retry_after.unwrap_or_default()),
        error if error.is_away() => WriteOutcome::Away(Duration::ZERO),
        // An expired token or a failing storage backend.
        ApiError::Refused { code: 401 | 500.., .. } | ApiError::Unreadable(_) => {
            WriteOutcome::Failed
        }
        _ => WriteOutcome::Refused,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // behaviour: STW-32, STW-33, STW-34, STW-39
    #[test]
    fn error_is_classified_as_pod_or_server_error() {
        let refused = |code| ApiError::Refused { code, message: String::new() };
        let second = Duration::from_secs(1);
        let rows = [
            (ApiError::NotFound, WriteOutcome::Well),
            (ApiError::Conflict(String::new()), WriteOutcome::Refused),
            (ApiError::Throttled { retry_after: Some(second) }, WriteOutcome::Away(second)),
            (ApiError::Throttled { retry_after: None }, WriteOutcome::Away(Duration::ZERO)),
            (ApiError::Unreachable("away".into()), WriteOutcome::Away(Duration::ZERO)),
            (ApiError::TooSlow(second), WriteOutcome::Away(Duration::ZERO)),
            (refused(503), WriteOutcome::Away(Duration::ZERO)),
            (refused(500), WriteOutcome::Failed),
            (refused(401), WriteOutcome::Failed),
            (refused(403), WriteOutcome::Refused),
            (refused(422), WriteOutcome::Refused),
            (ApiError::Unreadable("no JSON".into()), WriteOutcome::Failed),
        ];
        for (error, expected) in rows {
            assert_eq!(outcome(&error), expected, "{error:?}");
        }
    }
}
