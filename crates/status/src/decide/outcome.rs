//! Decides what an error of the API server means for the next write.

use std::time::Duration;

use model::ports::cluster::ApiError;

use crate::decide::queue::Wrote;

/// The outcome of a write that ended with an error.
pub fn outcome(error: &ApiError) -> Wrote {
    match error {
        // The watch delivers the current object.
        ApiError::NotFound => Wrote::Well,
        ApiError::Throttled { retry_after } => Wrote::Away(retry_after.unwrap_or_default()),
        error if error.is_away() => Wrote::Away(Duration::ZERO),
        // An expired token or a failing storage backend.
        ApiError::Refused { code: 401 | 500.., .. } | ApiError::Unreadable(_) => Wrote::Failed,
        _ => Wrote::Refused,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // behaviour: STW-32, STW-33, STW-34, STW-39
    #[test]
    fn error_concerns_the_pod_or_the_server() {
        let refused = |code| ApiError::Refused { code, message: String::new() };
        let second = Duration::from_secs(1);
        let rows = [
            (ApiError::NotFound, Wrote::Well),
            (ApiError::Conflict(String::new()), Wrote::Refused),
            (ApiError::Throttled { retry_after: Some(second) }, Wrote::Away(second)),
            (ApiError::Throttled { retry_after: None }, Wrote::Away(Duration::ZERO)),
            (ApiError::Unreachable("away".into()), Wrote::Away(Duration::ZERO)),
            (ApiError::TooSlow(second), Wrote::Away(Duration::ZERO)),
            (refused(503), Wrote::Away(Duration::ZERO)),
            (refused(500), Wrote::Failed),
            (refused(401), Wrote::Failed),
            (refused(403), Wrote::Refused),
            (refused(422), Wrote::Refused),
            (ApiError::Unreadable("no JSON".into()), Wrote::Failed),
        ];
        for (error, expected) in rows {
            assert_eq!(outcome(&error), expected, "{error:?}");
        }
    }
}
