//! What to do after an attempt to send an event.

use std::time::Duration;

use model::ports::cluster::ApiError;

/// How often one event is tried.
const MOST_TRIES: u32 = 12;
/// How long to wait in between.
const PAUSE: Duration = Duration::from_secs(10);

/// Why an event did not reach the API server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Dropped {
    /// Too many waited.
    QueueFull,
    /// Too many about one object.
    TooMany,
    /// The server did not want it.
    Refused,
    /// The server did not answer for too long.
    GivenUp,
}

impl Dropped {
    /// In a word, for metrics.
    pub fn label(self) -> &'static str {
        match self {
            Self::QueueFull => "queue-full",
            Self::TooMany => "too-many",
            Self::Refused => "refused",
            Self::GivenUp => "given-up",
        }
    }
}

/// What follows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Next {
    /// Nothing: it is there.
    Done,
    /// It is written anew, because the server has forgotten it.
    Write,
    /// It is tried again after this time.
    Wait(Duration),
    /// It is given up.
    Drop(Dropped),
}

/// What follows on an answer, the `tries`th for this event. `fraction`, from 0 to 1, spreads the first
/// waits, so that not all nodes come back at the same moment.
pub fn next(answer: Result<(), &ApiError>, counted: bool, tries: u32, fraction: f64) -> Next {
    let error = match answer {
        Ok(()) => return Next::Done,
        Err(error) => error,
    };
    let pause = if tries <= 1 { PAUSE.mul_f64(fraction.clamp(0.0, 1.0)) } else { PAUSE };
    let wait = match error {
        ApiError::NotFound if counted => return Next::Write,
        // It was written, and the answer was lost.
        ApiError::Conflict(_) => return Next::Done,
        // A namespace that goes, or something wrong with the event: no other time is better.
        ApiError::NotFound | ApiError::Refused { .. } => return Next::Drop(Dropped::Refused),
        ApiError::Throttled { retry_after } => {
            pause.max(retry_after.unwrap_or_default().min(PAUSE))
        }
        ApiError::Unreachable(_) | ApiError::TooSlow(_) | ApiError::Unreadable(_) => pause,
    };
    if tries >= MOST_TRIES { Next::Drop(Dropped::GivenUp) } else { Next::Wait(wait) }
}

#[cfg(test)]
mod tests {
    use super::*;

    // behaviour: EVT-6, EVT-7, EVT-8
    #[test]
    fn what_follows_an_answer() {
        let refused = |code: u16| ApiError::Refused { code, message: String::new() };
        let away = || ApiError::Unreachable("away".into());
        let busy =
            |seconds| ApiError::Throttled { retry_after: Some(Duration::from_secs(seconds)) };
        let seconds = |seconds| Next::Wait(Duration::from_secs(seconds));
        let (unwanted, given_up) = (Next::Drop(Dropped::Refused), Next::Drop(Dropped::GivenUp));
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
