//! Rules of garbage collection from flags and files. They are checked before anything starts, so that
//! `config check` reports what would abort a start.

use config::flags::FlagSet;
use config::{
    ConfigError, FerroletConfiguration, FieldError, FieldErrors, GoDuration, KubeletConfiguration,
};
use gc::decide::images::{Pins, Policy};
use gc::policy::{AgeBy, ContainerPolicy};

use crate::image_gc::ImageRules;

/// The flag for the minimum age of dead containers.
const MINIMUM_AGE: &str = "minimum-container-ttl-duration";

/// The rules of garbage collection.
#[derive(Debug, Clone)]
pub(crate) struct CollectionRules {
    /// Dead containers.
    pub(crate) containers: ContainerPolicy,
    /// Images.
    pub(crate) images: ImageRules,
}

impl CollectionRules {
    /// The rules of a valid configuration.
    pub(crate) fn new(
        config: &KubeletConfiguration,
        own: &FerroletConfiguration,
        dead: ContainerPolicy,
    ) -> Self {
        let policy = Policy {
            minimum_age: config.image_minimum_gc_age.to_std(),
            maximum_age: config.image_maximum_gc_age.to_std(),
            high_threshold: config.image_gc_high_threshold_percent,
            low_threshold: config.image_gc_low_threshold_percent,
            per_handler: config.features().enabled("RuntimeClassInImageCriApi"),
        };
        debug_assert!(policy.check().is_ok(), "the configuration is valid: {policy:?}");
        let by_end = own.gc.containers.is_by_end();
        let age_by = if by_end { AgeBy::Finished } else { AgeBy::Created };
        let period = own.gc.containers.period.to_std();
        let pins =
            Pins::parse(&own.gc.images.pin).expect("patterns were checked when they were read");
        let keep_static_and_critical = own.gc.images.keep_static_and_critical;
        Self {
            containers: ContainerPolicy { age_by, period, ..dead },
            images: ImageRules { policy, pins, keep_static_and_critical },
        }
    }
}

/// The rules for dead containers, from the flags.
pub(crate) fn dead_containers(flags: &FlagSet) -> Result<ContainerPolicy, ConfigError> {
    let min_age: GoDuration = flags.duration(MINIMUM_AGE).unwrap_or_default();
    let per_container = flags.integer("maximum-dead-containers-per-container").unwrap_or(1);
    let in_all = flags.integer("maximum-dead-containers").unwrap_or(-1);
    let min_age = jiff::SignedDuration::from_nanos(min_age.nanos());
    ContainerPolicy::new(min_age, per_container, in_all).map_err(|error| {
        let flag = format!("--{MINIMUM_AGE}");
        invalid(vec![FieldError {
            field: flag.clone(),
            problem: error.to_string(),
            source: Some(flag),
        }])
    })
}

/// The invalid patterns of pinned images.
pub(crate) fn wrong_pins(own: &FerroletConfiguration) -> Vec<FieldError> {
    let wrong = own.gc.images.pin.iter().enumerate().filter_map(|(index, pattern)| {
        let problem = Pins::parse(&[pattern]).err()?.to_string();
        Some(FieldError { field: format!("gc.images.pin[{index}]"), problem, source: None })
    });
    wrong.collect()
}

fn invalid(errors: Vec<FieldError>) -> ConfigError {
    ConfigError::Invalid { source: FieldErrors(errors), warnings: Vec::new() }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use gc::policy::PERIOD;

    use super::*;

    // behaviour: GC-34, IMG-52
    #[test]
    fn own_configuration_sets_age_and_image_rules() {
        let config = KubeletConfiguration::of_empty_file();
        let dead = ContainerPolicy::new(jiff::SignedDuration::from_secs(7), 3, 5).expect("limits");
        let rules = |own: &FerroletConfiguration| {
            let CollectionRules { containers, images } = CollectionRules::new(&config, own, dead);
            let ContainerPolicy { age_by, period, .. } = containers;
            let usual = ContainerPolicy { age_by: AgeBy::Created, period: PERIOD, ..containers };
            assert_eq!(usual, dead);
            (age_by, period, images.keep_static_and_critical)
        };
        let mut own = FerroletConfiguration::default();
        assert_eq!(rules(&own), (AgeBy::Created, PERIOD, false));
        own.gc.containers.age_by = "finished".to_owned();
        assert_eq!(rules(&own), (AgeBy::Finished, PERIOD, false));
        own.gc.containers.age_by = "created".to_owned();
        own.gc.images.keep_static_and_critical = true;
        assert_eq!(rules(&own), (AgeBy::Created, PERIOD, true));
        own.gc.containers.period = GoDuration::from_secs(2);
        assert_eq!(rules(&own), (AgeBy::Created, Duration::from_secs(2), true));
    }
}
