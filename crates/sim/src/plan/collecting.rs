//! The GC settings of the node of a history.

use std::fmt;
use std::time::Duration;

use gc::policy::{AgeBy, ContainerPolicy};
use jiff::SignedDuration;
use testkit::random::Random;

/// The GC settings.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Collecting {
    /// The caps and the minimum age of dead containers.
    pub containers: ContainerPolicy,
    /// How long an unused image is kept although there is space; zero for ever.
    pub images_unused: Duration,
    /// Whether images of static pods are kept.
    pub keeps_images_of_pods: bool,
}

impl Collecting {
    /// Settings other than the default.
    pub(super) fn drawn(random: &mut Random) -> Self {
        // A negative number means no limit.
        let per_container =
            random.weighted(&[(30, 1_i64), (25, 0), (15, 2), (15, 3), (10, -1), (5, -7)]);
        let in_all = random.weighted(&[(35, -1_i64), (10, 0), (15, 1), (20, 3), (20, 6)]);
        let min_age = random.weighted(&[(60, 0_i64), (20, 60), (20, 180)]);
        let policy =
            ContainerPolicy::new(SignedDuration::from_secs(min_age), per_container, in_all);
        let policy = policy.expect("ages are not negative");
        let age_by = random.pick(&[AgeBy::Created, AgeBy::Finished]);
        Self {
            containers: ContainerPolicy { age_by, ..policy },
            images_unused: Duration::from_secs(random.weighted(&[(50, 0), (25, 90), (25, 300)])),
            keeps_images_of_pods: random.chance(50),
        }
    }

    /// Whether a cap may remove the last dead instance of a container, so that no record of its run is left.
    pub fn takes_the_last(&self) -> bool {
        self.containers.per_container == Some(0) || self.containers.in_all.is_some()
    }
}

impl fmt::Display for Collecting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ContainerPolicy { min_age, per_container, in_all, age_by, period: _ } = self.containers;
        let cap = |cap: Option<usize>| cap.map_or("any number".to_owned(), |cap| cap.to_string());
        write!(
            f,
            "dead containers: {} of each, {} in all, for {min_age:?} since {age_by:?}; ",
            cap(per_container),
            cap(in_all)
        )?;
        match self.images_unused {
            Duration::ZERO => f.write_str("images")?,
            most => write!(f, "images that are unused for {most:?}")?,
        }
        f.write_str(if self.keeps_images_of_pods { ", but none of pods" } else { "" })
    }
}
