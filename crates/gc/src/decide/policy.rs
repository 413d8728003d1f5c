//! The policy for dead containers.

use std::time::Duration;

use jiff::SignedDuration;

/// The start of a dead container's age.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum AgeBy {
    /// Its creation, like upstream.
    #[default]
    Created,
    /// Its exit.
    Finished,
}

/// From the end of a periodic pass to the start of the next, like upstream.
pub const PERIOD: Duration = Duration::from_mins(1);

/// How many dead containers are kept, for how long, and how often that is checked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ContainerPolicy {
    /// The minimum age of removed containers.
    pub min_age: Duration,
    /// How many instances of each container are kept; `None` for no limit.
    pub per_container: Option<usize>,
    /// How many dead containers are kept on the node; `None` for no limit.
    pub in_all: Option<usize>,
    /// The start of the age, and the meaning of "oldest".
    pub age_by: AgeBy,
    /// From the end of a periodic pass to the start of the next.
    pub period: Duration,
}

/// The minimum age is negative.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("invalid minimum garbage collection age: {}s", .0.as_secs_f64())]
pub struct NegativeAge(SignedDuration);

impl ContainerPolicy {
    /// A policy from flag values: a negative number means no limit, a negative age is refused.
    pub fn new(
        min_age: SignedDuration,
        per_container: i64,
        in_all: i64,
    ) -> Result<Self, NegativeAge> {
        Ok(Self {
            min_age: Duration::try_from(min_age).map_err(|_| NegativeAge(min_age))?,
            per_container: usize::try_from(per_container).ok(),
            in_all: usize::try_from(in_all).ok(),
            age_by: AgeBy::Created,
            period: PERIOD,
        })
    }
}

impl Default for ContainerPolicy {
    fn default() -> Self {
        let (min_age, age_by) = (Duration::ZERO, AgeBy::Created);
        Self { min_age, per_container: Some(1), in_all: None, age_by, period: PERIOD }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // behaviour: GC-70, GC-71
    #[test]
    fn negative_count_is_unlimited_and_negative_age_is_refused() {
        let second = SignedDuration::from_secs(1);
        assert_eq!(ContainerPolicy::new(SignedDuration::ZERO, 1, -1), Ok(<_>::default()));
        let none = ContainerPolicy::new(second, i64::MIN, -7).unwrap();
        assert_eq!((none.per_container, none.in_all), (None, None));
        let error = ContainerPolicy::new(-second, 1, -1).unwrap_err();
        assert_eq!(error.to_string(), "invalid minimum garbage collection age: -1s");
    }
}
