//! Random delays, so that many clients do not act at the same moment.

use std::hash::{BuildHasher as _, RandomState};
use std::time::Duration;

/// A random number from zero to one.
pub fn fraction() -> f64 {
    let random = RandomState::new().hash_one(0u8);
    f64::from(u16::try_from(random % 1000).unwrap_or(0)) / 1000.0
}

/// A random duration between `time` and twice that.
pub fn jittered(time: Duration) -> Duration {
    time.mul_f64(1.0 + fraction())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fractions_are_between_zero_and_one_and_differ() {
        let all: Vec<f64> = (0..100).map(|_| fraction()).collect();
        assert!(all.iter().all(|one| (0.0..1.0).contains(one)), "{all:?}");
        assert!(all.iter().any(|one| (one - all[0]).abs() > 1e-9), "{all:?}");
        let time = Duration::from_secs(10);
        assert!((time..time * 2).contains(&jittered(time)));
    }
}
