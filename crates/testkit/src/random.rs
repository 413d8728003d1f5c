//! Random numbers from a seed. Implemented here and not by a library, so that a stored seed means the same
//! history after every update of a dependency.

use std::time::Duration;

/// The increment of the generator's state.
const STEP: u64 = 0x9e37_79b9_7f4a_7c15;

/// `SplitMix64`.
#[derive(Debug, Clone)]
pub struct Random(u64);

/// The number of a state of the generator: different for different states.
pub fn mixed(state: u64) -> u64 {
    let mut mixed = state.wrapping_add(STEP);
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}

impl Random {
    /// A generator with this seed.
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// Any number.
    pub fn number(&mut self) -> u64 {
        let number = mixed(self.0);
        self.0 = self.0.wrapping_add(STEP);
        number
    }

    /// A number below this one.
    pub fn below(&mut self, end: u64) -> u64 {
        self.number() % end
    }

    /// An index into a list of this length.
    pub fn place(&mut self, count: usize) -> usize {
        let count = u64::try_from(count).expect("nothing is longer than memory");
        usize::try_from(self.below(count)).expect("less than a length")
    }

    /// A number from `least` to `most`, both inclusive.
    pub fn between(&mut self, least: u64, most: u64) -> u64 {
        least + self.below(most - least + 1)
    }

    /// Like `between`, in milliseconds.
    pub fn millis(&mut self, least: u64, most: u64) -> Duration {
        Duration::from_millis(self.between(least, most))
    }

    /// Like `between`, in seconds.
    pub fn seconds(&mut self, least: u64, most: u64) -> Duration {
        Duration::from_secs(self.between(least, most))
    }

    /// True with this percentage.
    pub fn chance(&mut self, percent: u64) -> bool {
        self.below(100) < percent
    }

    /// One of these, with equal probability.
    pub fn pick<T: Clone>(&mut self, of: &[T]) -> T {
        of[self.place(of.len())].clone()
    }

    /// One of these, by weight.
    pub fn weighted<T: Copy>(&mut self, of: &[(u64, T)]) -> T {
        let all: u64 = of.iter().map(|(weight, _)| weight).sum();
        let mut left = self.below(all);
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
    fn seed_yields_the_same_numbers() {
        let mut random = Random::new(1_234_567);
        let numbers = [random.number(), random.number(), random.number()];
        let known =
            [6_457_827_717_110_365_317, 3_203_168_211_198_807_973, 9_817_491_932_198_370_423];
        assert_eq!(numbers, known);
    }

    #[test]
    fn choice_follows_the_weights() {
        let mut random = Random::new(1);
        let mut ones = 0;
        for _ in 0..1000 {
            ones += random.weighted(&[(9, 1), (1, 0), (0, 100)]);
        }
        assert!((850..950).contains(&ones), "{ones}");
    }
}
