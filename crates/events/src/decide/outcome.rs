//! Decides what follows an attempt to send an event.

use std::time::Duration;

use model::ports::cluster::ApiError;

/// The maximum number of attempts for one event.
const MOST_TRIES: u32 = 12;
/// The pause between attempts.
const PAUSE: Duration = Duration::from_secs(10);

/// Why an event was dropped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DropReason {
    /// The queue was full.
    QueueFull,
    /// Its object exceeded the rate limit.
    TooMany,
    /// The server rejected the event.
    Refused,
    /// The server did not respond for too long.
    GivenUp,
}

impl DropReason {
    /// The label value for metrics.
    pub fn label(self) -> &'static str {
        match self {
            Self::QueueFull => "queue-full",
            Self::TooMany => "too-many",
            Self::Refused => "refused",
            Self::GivenUp => "given-up",
        }
    }
}

/// The next step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Next {
    /// Nothing: the event is stored.
    Done,
    /// Create the event again, because the server no longer has it.
    Write,
    /// Retry after this time.
    Wait(Duration),
    /// Drop the event.
    Drop(DropReason),
}

/// The step after the response to attempt `tries` for an event. `fraction`, from 0 to 1, spreads the first
/// waits, so that nodes do not retry at the same time.
pub fn next(answer: Result<(), &ApiError>, counted: bool, tries: u32, fraction: f64) -> Next {
    let error = match answer {
        Ok(()) => return Next::Done,
        Err(error) => error,
    };
    let pause = if tries <= 1 { PAUSE.mul_f64(fraction.clamp(0.0, 1.0)) } else { PAUSE };
    let wait = match error {
        ApiError::NotFound if counted => return Next::Write,
        // An earlier attempt wrote it, and the response was lost.
        ApiError::Conflict(_) => return Next::Done,
        // The namespace is terminating, or the event is invalid: a retry would not help.
        ApiError::NotFound | ApiError::Refused { .. } => return Next::Drop(DropReason::Refused),
        ApiError::Throttled { retry_after } => {
            pause.max(retry_after.unwrap_or_default().min(PAUSE))
        }
        ApiError::Unreachable(_) | ApiError::TooSlow(_) | ApiError::Unreadable(_) => pause,
    };
    if tries >= MOST_TRIES { Next::Drop(DropReason::GivenUp) } else { Next::Wait(wait) }
}

#[cfg(test)]
mod tests {
    use super::*;

    // behaviour: EVT-6, EVT-7, EVT-8
    #[test]
    fn each_response_has_its_next_step() {
        let refused = |code: u16| ApiError::Refused { code, message: String::new() };
        let away = || ApiError::Unreachable("away".into());
        let busy =
            |seconds| ApiError::Throttled { retry_after: Some(Duration::from_secs(seconds)) };
        let seconds = |seconds| Next::Wait(Duration::from_secs(seconds));
        let (unwanted, given_up) =
            (Next::Drop(DropReason::Refused), Next::Drop(DropReason::GivenUp));
        let rows = [
            (ApiError::NotFound, true, 1, Next::Write),
            (ApiError::NotFound, false, 1, unwanted),
            (ApiError::Conflict(String::new()), false, 1, Next::Done),
            (refused(403), false, 1, unwanted),
            (refused(422), true, 1, unwanted),
            (refused(500), false, 1, unwanted),
            (away(), false, 1, seconds(5)),
            (away(), true, 2, seconds(10)),
            (ApiError::TooSlow(Duration::ZERO), false, 11, seconds(10)),
            (away(), false, 12, given_up),
            (busy(7), false, 1, seconds(7)),
            (busy(3600), false, 2, seconds(10)),
            (busy(1), false, 12, given_up),
        ];
        for (error, counted, tries, expected) in rows {
            assert_eq!(next(Err(&error), counted, tries, 0.5), expected, "{error} {tries}");
        }
        assert_eq!(next(Ok(()), true, 3, 0.5), Next::Done);
    }
}
