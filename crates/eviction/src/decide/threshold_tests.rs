//! Tables for thresholds.

use std::fmt::Write as _;

use jiff::Timestamp;

use super::*;

type Pairs = [(&'static str, &'static str)];

fn amounts(pairs: &Pairs) -> BTreeMap<Signal, Amount> {
    pairs.iter().map(|(signal, text)| (signal.parse().unwrap(), text.parse().unwrap())).collect()
}

/// The fields of a configuration.
#[derive(Default)]
struct Fields {
    /// `None` for the defaults.
    hard: Option<&'static Pairs>,
    soft: &'static Pairs,
    grace: &'static Pairs,
    reclaim: &'static Pairs,
    without_pods: bool,
}

impl Fields {
    fn config(&self) -> KubeletConfiguration {
        let mut config = KubeletConfiguration::of_empty_file();
        if let Some(hard) = self.hard {
            config.eviction_hard = amounts(hard);
        }
        config.eviction_soft = amounts(self.soft);
        config.eviction_minimum_reclaim = amounts(self.reclaim);
        let grace = self.grace.iter();
        config.eviction_soft_grace_period =
            grace.map(|(signal, text)| (signal.parse().unwrap(), text.parse().unwrap())).collect();
        if self.without_pods {
            config.enforce_node_allocatable = vec![NodeAllocatableEnforcement::None];
        }
        config
    }
}

fn text(threshold: &Threshold) -> String {
    let level = |level: &Level| match level {
        Level::Amount(amount) => amount.to_string(),
        Level::Share(share) => format!("{share}"),
    };
    let mut text = format!("{} {}", threshold.signal, level(&threshold.level));
    if !threshold.is_hard() {
        write!(text, " for {:?}", threshold.grace).unwrap();
    }
    if let Some(reclaim) = &threshold.minimum_reclaim {
        write!(text, " +{}", level(reclaim)).unwrap();
    }
    text
}

// behaviour: EVI-3, EVI-4, EVI-5
#[test]
fn thresholds_follow_from_the_configuration() {
    let rows: [(Fields, &[&str]); 5] = [
        (
            Fields::default(),
            &[
                "memory.available 100Mi",
                "nodefs.available 0.1",
                "nodefs.inodesFree 0.05",
                "imagefs.available 0.15",
                "imagefs.inodesFree 0.05",
                "allocatableMemory.available 100Mi",
            ],
        ),
        (Fields { hard: Some(&[]), ..Fields::default() }, &[]),
        (
            Fields {
                hard: Some(&[("nodefs.available", "0%"), ("pid.available", "100%")]),
                ..Fields::default()
            },
            &[],
        ),
        (
            Fields {
                hard: Some(&[("memory.available", "1Gi")]),
                without_pods: true,
                ..Fields::default()
            },
            &["memory.available 1Gi"],
        ),
        (
            Fields {
                hard: Some(&[("memory.available", "5%"), ("pid.available", "10")]),
                reclaim: &[("memory.available", "1Mi"), ("nodefs.available", "1%")],
                ..Fields::default()
            },
            &[
                "memory.available 0.05 +1Mi",
                "pid.available 10",
                "allocatableMemory.available 0.05 +1Mi",
            ],
        ),
    ];
    check(&rows);
}

fn check(rows: &[(Fields, &[&str])]) {
    for (row, (fields, expected)) in rows.iter().enumerate() {
        let found: Vec<String> = thresholds(&fields.config()).iter().map(text).collect();
        assert_eq!(&found[..], *expected, "row {row}");
    }
}

// behaviour: EVI-3, EVI-4
#[test]
fn soft_thresholds_have_their_grace_period_and_without_one_are_hard() {
    let rows: [(Fields, &[&str]); 2] = [
        (
            Fields {
                hard: Some(&[]),
                soft: &[("memory.available", "1Gi"), ("nodefs.available", "20%")],
                grace: &[("memory.available", "30s"), ("nodefs.available", "0s")],
                reclaim: &[("memory.available", "10%")],
                ..Fields::default()
            },
            &["nodefs.available 0.2", "memory.available 1Gi for 30s +0.1"],
        ),
        (
            Fields {
                hard: Some(&[]),
                soft: &[("memory.available", "1Gi")],
                grace: &[("memory.available", "0s")],
                ..Fields::default()
            },
            &["memory.available 1Gi", "allocatableMemory.available 1Gi"],
        ),
    ];
    check(&rows);
}

// behaviour: EVI-6, EVI-7
#[test]
fn threshold_is_met_below_its_level_and_resolved_after_its_minimum_reclaim() {
    let amount = |text: &str| Level::Amount(text.parse().unwrap());
    let rows = [
        (amount("100"), None, 100, false, false),
        (amount("100"), None, 99, true, true),
        (amount("100"), Some(amount("50")), 149, false, true),
        (amount("100"), Some(amount("50")), 150, false, false),
        (Level::Share(0.1), None, 99, true, true),
        (Level::Share(0.1), None, 100, false, false),
        (Level::Share(0.1), Some(Level::Share(0.2)), 299, false, true),
        (Level::Share(0.1), Some(Level::Share(0.2)), 300, false, false),
    ];
    for (level, minimum_reclaim, available, met, unresolved) in rows {
        let signal = Signal::NodeFsAvailable;
        let threshold = Threshold { signal, level, grace: Duration::ZERO, minimum_reclaim };
        let seen = Observed { available, capacity: 1000, at: Timestamp::UNIX_EPOCH };
        assert_eq!(threshold.is_met(&seen), met, "{threshold:?} {available}");
        assert_eq!(threshold.is_unresolved(&seen), unresolved, "{threshold:?} {available}");
    }
}

// behaviour: EVI-8
#[test]
fn share_is_computed_with_the_precision_of_upstream() {
    let share = Level::from(&"10%".parse::<Amount>().unwrap());
    assert_eq!(share.amount(10 << 30).to_string(), "1073741840");
    assert_eq!(share.amount(1_000_000).to_string(), "100000");
}
