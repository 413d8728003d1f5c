//! Properties that hold for every node.

use std::collections::BTreeSet;
use std::time::Duration;

use model::ports::runtime::{Image, ImageUse};
use proptest::collection::vec;
use proptest::prelude::*;

use super::harness::{Harness, at, disk, id, image, using};
use crate::decide::images::*;
use crate::plan::{Fate, Item};

/// The time of the pass.
const NOW: u64 = 100_000;

fn removed(items: &[Item]) -> Vec<String> {
    let goes = items.iter().filter(|item| item.fate == Fate::Remove);
    goes.map(|item| id(item).to_owned()).collect()
}

#[derive(Debug, Clone)]
#[expect(clippy::struct_excessive_bools, reason = "each is a separate reason to keep an image")]
struct Grown {
    size: u64,
    pinned: bool,
    used: bool,
    mounted: bool,
    claimed: bool,
    by_name: bool,
    first: u64,
    last: Option<u64>,
}

fn grown() -> impl Strategy<Value = Grown> {
    let flag = || prop::bool::weighted(0.15);
    let flags = (flag(), flag(), flag(), flag(), flag());
    (0..500_u64, flags, 0..NOW, proptest::option::of(0..NOW)).prop_map(
        |(size, (pinned, used, mounted, claimed, by_name), first, last)| Grown {
            size,
            pinned,
            used,
            mounted,
            claimed,
            by_name,
            first,
            last: last.map(|last| last.max(first)),
        },
    )
}

fn harness() -> impl Strategy<Value = Harness> {
    let policy = (1..=100_u32, 0..100_u32, 0..2000_u64, proptest::option::of(2000..NOW));
    (vec(grown(), 0..24), policy, 0..NOW).prop_map(|(grown, policy, began)| {
        let (high, low, minimum, maximum) = policy;
        let name = |number: usize| format!("i{number:02}");
        let images = grown.iter().enumerate().map(|(n, one)| image(&name(n), one.size)).collect();
        let mut harness = Harness::new(images);
        harness.policy = Policy {
            high_threshold: high,
            low_threshold: low.min(high - 1),
            minimum_age: Duration::from_secs(minimum),
            maximum_age: Duration::from_secs(maximum.unwrap_or(0)),
            per_handler: false,
        };
        harness.began = at(began);
        harness.records.since = Some(at(0));
        let mut pins = Vec::new();
        for (number, one) in grown.iter().enumerate() {
            let id = name(number);
            harness.image(&id).pinned = one.pinned;
            if one.used {
                harness.listing.uses.push(using("c", &id));
            }
            if one.mounted {
                harness.listing.mounted.push(("v".into(), id.clone()));
            }
            if one.claimed {
                harness.claimed.insert(format!("registry.test/{id}:1"));
            }
            if one.by_name {
                pins.push(format!("registry.test/{id}"));
            }
            let times = Times { first_detected: at(one.first), last_used: one.last.map(at) };
            harness.records.images.insert(ImageKey::parse(&id), times);
        }
        harness.pins = Pins::parse(&pins).expect("these are names");
        harness
    })
}

proptest! {
    #[test]
    fn used_pinned_claimed_and_young_images_stay(harness in harness(), available in 0..=1000_u64) {
        let items = harness.plan(NOW, disk(1000, available));
        for id in removed(&items) {
            let name = format!("registry.test/{id}:1");
            prop_assert!(harness.listing.uses.iter().all(|used| *used.image_id != *id));
            prop_assert!(harness.listing.mounted.iter().all(|(_, image)| *image != id));
            prop_assert!(harness.listing.images.iter().all(|image| image.id != id || !image.pinned));
            prop_assert!(!harness.claimed.contains(&name));
            prop_assert!(harness.pins.matching(&[name], None).is_none());
            let times = harness.records.images[&ImageKey::parse(&id)];
            let known = times.first_detected.max(harness.began) + harness.policy.minimum_age;
            prop_assert!(known <= at(NOW));
        }
    }

    #[test]
    fn id_used_or_pinned_for_any_handler_stays(
        drawn in vec((0..6_usize, any::<bool>(), prop::bool::weighted(0.2)), 0..16),
        users in vec((0..6_usize, any::<bool>()), 0..4),
    ) {
        let id = |number: usize| format!("i{number}");
        let handler = |other: bool| if other { "h" } else { "" };
        let images = drawn.iter().map(|(number, other, pinned)| Image {
            runtime_handler: handler(*other).to_owned(),
            pinned: *pinned,
            ..image(&id(*number), 10)
        });
        let mut harness = Harness::new(images.collect());
        harness.policy.per_handler = true;
        harness.listing.per_handler = true;
        let uses = users.iter().map(|(number, other)| ImageUse {
            runtime_handler: handler(*other).into(),
            ..using("c", &id(*number))
        });
        harness.listing.uses = uses.collect();
        let items = harness.plan(NOW, disk(1000, 0));
        let once: BTreeSet<&str> = items.iter().map(super::harness::id).collect();
        let listed: BTreeSet<usize> = drawn.iter().map(|(number, ..)| *number).collect();
        prop_assert_eq!((once.len(), items.len()), (listed.len(), listed.len()));
        for gone in removed(&items) {
            prop_assert!(users.iter().all(|(number, _)| id(*number) != gone));
            prop_assert!(drawn.iter().all(|(number, _, pinned)| id(*number) != gone || !pinned));
        }
    }

    #[test]
    fn every_image_has_one_item(harness in harness(), available in 0..=1000_u64) {
        let items = harness.plan(NOW, disk(1000, available));
        let ids: BTreeSet<&str> = items.iter().map(id).collect();
        prop_assert_eq!(ids.len(), items.len());
        prop_assert_eq!(ids.len(), harness.listing.images.len());
    }

    #[test]
    fn image_plan_is_independent_of_the_list_order(
        harness in harness(), available in 0..=1000_u64,
    ) {
        let mut turned = harness.clone();
        turned.listing.images.reverse();
        turned.listing.uses.reverse();
        prop_assert_eq!(
            harness.plan(NOW, disk(1000, available)),
            turned.plan(NOW, disk(1000, available))
        );
    }

    #[test]
    fn sweep_removes_images_in_order_until_there_is_enough_space(
        harness in harness(), available in 0..=1000_u64,
    ) {
        let items = harness.plan(NOW, disk(1000, available));
        let space = |item: &&Item| item.rule == "disk-over-high-threshold";
        let order: Vec<_> = items.iter().filter(space).map(|item| {
            let times = harness.records.images[&ImageKey::parse(id(item))];
            (times.last_used, times.first_detected)
        }).collect();
        prop_assert!(order.is_sorted());
        let target = Usage::of(disk(1000, 0)).unwrap().target(&harness.policy);
        // Before the last removal there was not enough space.
        let sizes: Vec<u64> = items.iter().filter(space).map(|item| {
            harness.listing.images.iter().find(|image| image.id == id(item)).unwrap().size
        }).collect();
        if let Some((_, but_last)) = sizes.split_last() {
            prop_assert!(available + but_last.iter().sum::<u64>() < target.max(available + 1));
        }
    }

    #[test]
    fn lower_low_threshold_removes_a_superset(
        harness in harness(), available in 0..=1000_u64, lower in 0..100_u32,
    ) {
        let before = removed(&harness.plan(NOW, disk(1000, available)));
        let mut greedy = harness.clone();
        greedy.policy.low_threshold = harness.policy.low_threshold.min(lower);
        let after = removed(&greedy.plan(NOW, disk(1000, available)));
        prop_assert!(after.starts_with(&before), "{before:?}, then {after:?}");
    }

    #[test]
    fn longer_maximum_age_removes_a_subset(harness in harness(), longer in 0..NOW) {
        let by_age = |harness: &Harness| -> BTreeSet<String> {
            let items = harness.plan(NOW, disk(1000, 1000));
            let old = items.iter().filter(|item| item.rule == "unused-longer-than-maximum-age");
            old.map(|item| id(item).to_owned()).collect()
        };
        let mut patient = harness.clone();
        if !patient.policy.maximum_age.is_zero() {
            patient.policy.maximum_age += Duration::from_secs(longer);
        }
        prop_assert!(by_age(&patient).is_subset(&by_age(&harness)));
    }
}
