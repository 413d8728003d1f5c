//! Durations for display.

use jiff::SignedDuration;

const MINUTE: i64 = 60;
const HOUR: i64 = 60 * MINUTE;
const DAY: i64 = 24 * HOUR;

/// A duration with two or three significant figures, as kubectl prints ages: `5s`, `2m3s`, `4h`,
/// `3d`. A clock that is ahead by less than two seconds is tolerated.
pub fn human_duration(duration: SignedDuration) -> String {
    let seconds = duration.as_secs();
    let (days, hours, minutes) = (seconds / DAY, seconds / HOUR, seconds / MINUTE);
    if seconds < -1 {
        "<invalid>".to_owned()
    } else if minutes < 2 {
        format!("{}s", seconds.max(0))
    } else if minutes < 10 {
        two_units((minutes, "m"), (seconds % MINUTE, "s"))
    } else if hours < 3 {
        format!("{minutes}m")
    } else if hours < 8 {
        two_units((hours, "h"), (minutes % 60, "m"))
    } else if days < 2 {
        format!("{hours}h")
    } else if days < 8 {
        two_units((days, "d"), (hours % 24, "h"))
    } else if days < 2 * 365 {
        format!("{days}d")
    } else if days < 8 * 365 {
        two_units((days / 365, "y"), (days % 365, "d"))
    } else {
        format!("{}y", days / 365)
    }
}

/// The larger unit, with the smaller one unless it is zero.
fn two_units(large: (i64, &str), small: (i64, &str)) -> String {
    let head = format!("{}{}", large.0, large.1);
    if small.0 == 0 { head } else { format!("{head}{}{}", small.0, small.1) }
}

#[cfg(test)]
mod tests {
    use super::{DAY, HOUR, MINUTE, human_duration};
    use jiff::SignedDuration;

    const YEAR: i64 = 365 * DAY;

    #[test]
    fn each_range_has_its_units() {
        let rows = [
            (-2, "<invalid>"),
            (-1, "0s"),
            (0, "0s"),
            (5, "5s"),
            (119, "119s"),
            (2 * MINUTE, "2m"),
            (2 * MINUTE + 3, "2m3s"),
            (10 * MINUTE - 1, "9m59s"),
            (10 * MINUTE, "10m"),
            (3 * HOUR - 1, "179m"),
            (3 * HOUR, "3h"),
            (4 * HOUR + 59, "4h"),
            (4 * HOUR + 5 * MINUTE, "4h5m"),
            (8 * HOUR - 1, "7h59m"),
            (8 * HOUR, "8h"),
            (2 * DAY - 1, "47h"),
            (2 * DAY, "2d"),
            (3 * DAY + 7 * HOUR, "3d7h"),
            (8 * DAY - 1, "7d23h"),
            (8 * DAY, "8d"),
            (2 * YEAR - 1, "729d"),
            (2 * YEAR, "2y"),
            (2 * YEAR + 10 * DAY, "2y10d"),
            (8 * YEAR - 1, "7y364d"),
            (8 * YEAR, "8y"),
            (30 * YEAR + 100 * DAY, "30y"),
        ];
        for (seconds, expected) in rows {
            let shown = human_duration(SignedDuration::from_secs(seconds));
            assert_eq!(shown, expected, "{seconds} s");
        }
    }

    #[test]
    fn fractions_of_a_second_are_ignored() {
        let rows = [(-1_999, "0s"), (-2_000, "<invalid>"), (1_999, "1s"), (119_999, "119s")];
        for (millis, expected) in rows {
            let shown = human_duration(SignedDuration::from_millis(millis));
            assert_eq!(shown, expected, "{millis} ms");
        }
    }
}
