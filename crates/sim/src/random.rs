//! Numbers that follow from a seed. Our own few lines and not a library's, so that a stored seed
//! means the same history after every update of a dependency.

use std::time::Duration;

/// `SplitMix64`.
#[derive(Debug, Clone)]
pub(crate) struct Random(u64);

impl Random {
    /// The numbers of a seed.
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed)
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A number from `least` to `most`, both included.
    pub(crate) fn between(&mut self, least: u64, most: u64) -> u64 {
        least + self.next() % (most - least + 1)
    }

    /// The same, of milliseconds.
    pub(crate) fn millis(&mut self, least: u64, most: u64) -> Duration {
        Duration::from_millis(self.between(least, most))
    }

    /// The same, of seconds.
    pub(crate) fn seconds(&mut self, least: u64, most: u64) -> Duration {
        Duration::from_secs(self.between(least, most))
    }

    /// True that often of a hundred times.
    pub(crate) fn chance(&mut self, percent: u64) -> bool {
        self.next() % 100 < percent
    }

    /// One of these, each as likely as the others.
    pub(crate) fn pick<T: Copy>(&mut self, of: &[T]) -> T {
        let count = u64::try_from(of.len()).expect("a slice is no longer than memory");
        let index = usize::try_from(self.next() % count).expect("less than a slice's length");
        of[index]
    }

    /// One of these, as often as its weight says.
    pub(crate) fn weighted<T: Copy>(&mut self, of: &[(u64, T)]) -> T {
        let all: u64 = of.iter().map(|(weight, _)| weight).sum();
        let mut left = self.next() % all;
        for (weight, value) in of {
            if left < *weight {
                return *value;
            }
            left -= weight;
        }
        unreachable!("the rest is less than the sum of the weights")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_always_gives_the_same_numbers() {
        let mut random = Random::new(1_234_567);
        let numbers = [random.next(), random.next(), random.next()];
        let known =
            [6_457_827_717_110_365_317, 3_203_168_211_198_807_973, 9_817_491_932_198_370_423];
        assert_eq!(numbers, known);
    }

    #[test]
    fn weights_count() {
        let mut random = Random::new(1);
        let mut ones = 0;
        for _ in 0..1000 {
            ones += random.weighted(&[(9, 1), (1, 0), (0, 100)]);
        }
        assert!((850..950).contains(&ones), "{ones}");
    }
}
