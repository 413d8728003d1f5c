//! When a token is refreshed.

use std::time::Duration;

use jiff::Timestamp;
use model::objects::ServiceAccountToken;

/// A token is refreshed after this time even if it is valid for longer.
const OLDEST: Duration = Duration::from_hours(24);
/// A hundred years, in seconds: the longest lifetime of a token.
const LONGEST: u64 = 100 * 365 * 24 * 3600;
/// The maximum jitter, so that not all tokens are refreshed at the same moment.
pub const MOST_JITTER: Duration = Duration::from_secs(10);

/// When a token is refreshed: after four fifths of its lifetime or a day, `jitter` earlier.
pub fn refresh_at(token: &ServiceAccountToken, jitter: Duration) -> Timestamp {
    let seconds = u64::try_from(token.expiration_seconds).unwrap_or(0).min(LONGEST);
    let given = Duration::from_secs(seconds);
    let last_fifth = Duration::from_secs(seconds * 20 / 100);
    let jitter = jitter.min(MOST_JITTER);
    let in_time = token.expires - last_fifth;
    let of_age = token.expires - given + OLDEST;
    in_time.min(of_age) - jitter
}

/// Whether a token has expired.
pub fn is_expired(token: &ServiceAccountToken, now: Timestamp) -> bool {
    now > token.expires
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn token(given: i64) -> ServiceAccountToken {
        let expires = Timestamp::from_second(1_000_000 + given).unwrap();
        ServiceAccountToken { token: String::new(), expiration_seconds: given, expires }
    }

    // behaviour: OBJ-14
    #[test]
    fn token_is_refreshed_after_four_fifths_or_a_day() {
        // Seconds after it was issued.
        let rows = [
            (600, 0, 480),
            (3600, 0, 2880),
            (3607, 0, 2886),
            (3607, 7, 2879),
            (100_000, 0, 80_000),
            (1_000_000, 0, 86_400),
            (1_000_000, 99, 86_390),
        ];
        for (given, jitter, expected) in rows {
            let at = refresh_at(&token(given), Duration::from_secs(jitter)).as_second();
            assert_eq!(at - 1_000_000, expected, "{given} {jitter}");
        }
        let token = token(600);
        assert!(!is_expired(&token, token.expires));
        assert!(is_expired(&token, token.expires + Duration::from_secs(1)));
    }

    proptest! {
        #[test]
        fn token_is_refreshed_before_it_expires_and_within_a_day(
            given in 600..10_000_000i64, jitter in 0..20u64,
        ) {
            let token = token(given);
            let at = refresh_at(&token, Duration::from_secs(jitter));
            prop_assert!(at < token.expires);
            prop_assert!(at.as_second() <= 1_000_000 + 86_400);
            prop_assert!(at.as_second() > 1_000_000);
        }
    }
}
