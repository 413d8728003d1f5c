//! The rows of the behaviour table that are pure decisions.

use std::collections::BTreeSet;
use std::time::Duration;

use model::ids::PodName;
use model::verdict::Input;

use super::harness::{BEGAN, Harness, at, disk, full, id, image, using};
use crate::decide::images::*;
use crate::plan::Fate;

fn times(detected: &Detected, key: &str) -> (jiff::Timestamp, Option<jiff::Timestamp>) {
    let times = detected.records.images[&ImageKey::parse(key)];
    (times.first_detected, times.last_used)
}

// behaviour: IMG-1
#[test]
fn first_detection_and_last_use_are_recorded() {
    let mut harness = Harness::new(vec![image("0", 1), image("1", 2), image("2", 3)]);
    harness.image("1").repo_tags.clear();
    harness.listing.uses = vec![using("a", "1"), using("b", "2")];
    let detected = detect(&Records::default(), &harness.listing, at(0), at(1));
    assert_eq!(detected.images.len(), 3);
    assert_eq!(times(&detected, "0"), (at(0), None));
    assert_eq!(times(&detected, "1"), (at(0), Some(at(1))));
    assert_eq!(times(&detected, "2"), (at(0), Some(at(1))));
}

// behaviour: IMG-2
#[test]
fn image_key_is_id_and_runtime_handler() {
    let mut harness = Harness::new(vec![image("0", 1), image("1", 2), image("2", 3)]);
    for id in ["0", "1"] {
        harness.image(id).runtime_handler = "h".to_owned();
    }
    harness.listing.per_handler = true;
    harness.listing.uses = vec![using("a", "1"), using("b", "2")];
    harness.listing.uses[0].runtime_handler = "h".into();
    let detected = harness.detect(0);
    let keys: Vec<String> = detected.images.iter().map(|image| image.key.to_string()).collect();
    assert_eq!(keys, ["0,h", "1,h", "2"]);
    let used: Vec<bool> = detected.images.iter().map(|image| image.used.is_some()).collect();
    assert_eq!(used, [false, true, true]);
    for key in ["0,h", "2"] {
        assert_eq!(ImageKey::parse(key).to_string(), key);
    }
    // A mount does not name a handler.
    harness.listing.uses.clear();
    harness.listing.mounted = vec![("v".into(), "1".to_owned())];
    assert_eq!(harness.detect(1).images[1].used, Some(Use::Volume("v".into())));
}

// behaviour: IMG-2
#[test]
fn image_used_pinned_or_young_for_one_handler_stays_for_all() {
    let of = |id: &str, handler: &str| model::ports::runtime::Image {
        runtime_handler: handler.to_owned(),
        ..image(id, 1)
    };
    let ids = ["loose", "pinned", "used", "young"];
    let mut harness = Harness::new(ids.iter().flat_map(|id| [of(id, ""), of(id, "h")]).collect());
    harness.listing.per_handler = true;
    harness.policy.minimum_age = Duration::from_mins(1);
    harness.listing.images.iter_mut().find(|image| image.id == "pinned").unwrap().pinned = true;
    harness.listing.uses = vec![using("c", "used")];
    harness.listing.uses[0].runtime_handler = "other".into();
    let young = harness.listing.images.pop().expect("the test created it");
    harness.detect(0);
    harness.listing.images.push(young);
    harness.detect(300);
    let mut fates = harness.fates(310, full());
    fates.sort();
    let expected = [
        "loose disk-over-high-threshold",
        "pinned image-pinned",
        "used image-in-use",
        "young younger-than-minimum-age",
    ];
    assert_eq!(fates, expected, "each has one fate");
}

// behaviour: IMG-2
#[test]
fn image_of_several_handlers_has_the_largest_size_and_latest_use() {
    let of = |handler: &str, size| model::ports::runtime::Image {
        runtime_handler: handler.to_owned(),
        repo_tags: vec![format!("registry.test/{handler}:1"), "registry.test/both:1".to_owned()],
        ..image("a", size)
    };
    let mut harness = Harness::new(vec![of("x", 7), of("y", 9)]);
    harness.listing.per_handler = true;
    harness.listing.uses = vec![using("c", "a")];
    harness.detect(0);
    harness.listing.uses.clear();
    let plan = harness.plan(600, full());
    assert_eq!(plan.len(), 1);
    let detail =
        |name: &str| plan[0].detail.0.iter().find(|(of, _)| *of == name).cloned().unwrap().1;
    let names = ["registry.test/x:1", "registry.test/both:1", "registry.test/y:1"];
    assert_eq!(detail("names"), Input::Texts(names.map(str::to_owned).to_vec()));
    assert_eq!((detail("size"), detail("lastUsed")), (Input::Number(9), Input::Time(at(0))));
}

// behaviour: IMG-63
#[test]
fn removed_container_counts_as_a_use_of_its_image() {
    let mut harness = Harness::new(vec![image("a", 1), image("b", 1), image("c", 1)]);
    harness.image("a").repo_tags = vec!["docker.io/library/busybox:latest".to_owned()];
    harness.detect(0);
    let made = [("busybox:latest", 20), ("registry.test/b:1", 500), ("other:1", 20)];
    harness.listing.made_since = made.map(|(name, second)| (name.to_owned(), at(second))).into();
    let detected = harness.detect(60);
    assert_eq!(times(&detected, "a"), (at(0), Some(at(20))));
    // The clock was set back since.
    assert_eq!(times(&detected, "b"), (at(0), Some(at(60))));
    assert_eq!(times(&detected, "c"), (at(0), None));
    assert!(detected.images.iter().all(|image| image.used.is_none()));
    // An older use does not replace a newer one.
    harness.listing.made_since = [("busybox:latest".to_owned(), at(10))].into();
    assert_eq!(times(&harness.detect(61), "a"), (at(0), Some(at(20))));
}

#[test]
fn detail_lists_all_names_of_an_image_with_several() {
    let mut harness = Harness::new(vec![image("a", 1), image("b", 1)]);
    harness.image("a").repo_digests = vec!["registry.test/a@sha256:1".to_owned()];
    let plan = harness.plan(600, full());
    let names =
        |item: &crate::plan::Item| item.detail.0.iter().find(|(name, _)| *name == "names").cloned();
    let both = ["registry.test/a:1", "registry.test/a@sha256:1"].map(str::to_owned).to_vec();
    assert_eq!(names(&plan[0]), Some(("names", Input::Texts(both))));
    assert_eq!((&*plan[0].name, names(&plan[1])), ("registry.test/a:1", None));
}

// behaviour: IMG-3, IMG-4, IMG-5
#[test]
fn records_follow_the_list_of_images() {
    let mut harness = Harness::new(vec![image("0", 1), image("1", 2)]);
    harness.listing.uses = vec![using("a", "1")];
    harness.detect(10);
    harness.listing.images.push(image("2", 3));
    harness.listing.uses.clear();
    let second = harness.detect(20);
    assert_eq!(times(&second, "0"), (at(10), None));
    assert_eq!(times(&second, "1"), (at(10), Some(at(10))));
    assert_eq!(times(&second, "2"), (at(20), None));
    harness.listing.images.clear();
    assert_eq!(harness.detect(30).records.images.len(), 0);
}

// behaviour: IMG-7, IMG-8, IMG-9
#[test]
fn least_recently_used_then_first_detected_image_is_removed_first() {
    let mut harness = Harness::new(vec![image("late", 1), image("never", 1), image("early", 1)]);
    harness.listing.uses = vec![using("a", "early"), using("b", "late")];
    harness.detect(0);
    harness.listing.uses.remove(0);
    harness.detect(10);
    harness.listing.uses.clear();
    harness.listing.images.push(image("fresh", 1));
    harness.detect(20);
    let order: Vec<String> =
        harness.plan(300, full()).iter().map(|item| id(item).to_owned()).collect();
    assert_eq!(order, ["never", "fresh", "early", "late"]);
}

// behaviour: IMG-14
#[test]
fn image_stays_until_it_reaches_the_minimum_age() {
    let mut harness = Harness::new(vec![image("0", 1)]);
    harness.policy.minimum_age = Duration::from_mins(1);
    harness.detect(10);
    assert_eq!(harness.fates(69, full()), ["0 younger-than-minimum-age"]);
    assert_eq!(harness.fates(70, full()), ["0 disk-over-high-threshold"]);
}

// behaviour: IMG-66
#[test]
fn new_image_has_no_age_in_its_detail() {
    let mut harness = Harness::new(vec![image("0", 1)]);
    harness.policy.minimum_age = Duration::from_mins(1);
    let known_for = |harness: &Harness, seconds| {
        let plan = harness.plan(seconds, full());
        assert_eq!(plan[0].rule, "younger-than-minimum-age");
        plan[0].detail.0.iter().find(|(name, _)| *name == "knownFor").cloned().unwrap().1
    };
    for seconds in [10, 400] {
        assert_eq!(known_for(&harness, seconds), Input::Nothing, "a plan records nothing");
    }
    harness.detect(500);
    assert_eq!(known_for(&harness, 503), Input::Span(Duration::from_secs(3)));
}

// behaviour: IMG-57
#[test]
fn minimum_age_counts_from_the_agent_start() {
    let mut harness = Harness::new(vec![image("0", 1)]);
    harness.policy.minimum_age = Duration::from_mins(2);
    harness.policy.maximum_age = Duration::from_mins(5);
    harness.detect(0);
    harness.began = at(10_000);
    assert_eq!(harness.fates(10_119, full()), ["0 younger-than-minimum-age"]);
    assert_eq!(harness.fates(10_120, full()), ["0 unused-longer-than-maximum-age"]);
}

// behaviour: IMG-15, IMG-21
#[test]
fn images_are_removed_from_the_high_threshold_on() {
    let mut harness = Harness::new(vec![image("0", 1)]);
    harness.policy.high_threshold = 90;
    harness.detect(0);
    assert_eq!(harness.fates(60, disk(100, 60)), ["0 below-high-threshold"]);
    assert_eq!(harness.fates(60, disk(100, 11)), ["0 below-high-threshold"]);
    assert_eq!(harness.fates(60, disk(100, 10)), ["0 disk-over-high-threshold"]);
}

// behaviour: IMG-22, IMG-23, IMG-24
#[test]
fn maximum_age_applies_after_uses_were_observed_that_long() {
    let mut harness = Harness::new(vec![image("0", 1), image("1", 1)]);
    harness.policy.maximum_age = Duration::from_mins(1);
    harness.listing.uses = vec![using("a", "0")];
    harness.detect(0);
    harness.listing.uses.clear();
    let roomy = disk(100, 100);
    let stays = ["1 below-high-threshold", "0 below-high-threshold"];
    assert_eq!(harness.fates(60, roomy), stays);
    let goes = ["1 unused-longer-than-maximum-age", "0 unused-longer-than-maximum-age"];
    assert_eq!(harness.fates(61, roomy), goes);
    // The age of a later image counts from its first detection, although it was never used.
    harness.listing.images.push(image("2", 1));
    harness.detect(61);
    assert_eq!(harness.fates(62, roomy)[2], "2 below-high-threshold");
    harness.policy.maximum_age = Duration::ZERO;
    assert!(
        harness
            .fates(1_000_000_000, roomy)
            .iter()
            .all(|fate| fate.ends_with("below-high-threshold"))
    );
}

// behaviour: IMG-27, IMG-28, IMG-53, IMG-55
#[test]
fn containers_mounts_and_sandboxes_count_as_uses() {
    let mut harness = Harness::new(["a", "b", "c", "d"].map(|id| image(id, 1)).to_vec());
    harness.listing.uses = vec![using("one", "a"), using("two", "a")];
    harness.listing.mounted = vec![("three".into(), "b".to_owned())];
    harness.listing.sandboxes = BTreeSet::from(["registry.test/c:1".to_owned()]);
    let plan = harness.plan(600, full());
    let fates: Vec<_> = plan.iter().map(|item| (id(item), item.fate, item.rule)).collect();
    let kept = |id| (id, Fate::Keep, "image-in-use");
    let goes = ("d", Fate::Remove, "disk-over-high-threshold");
    assert_eq!(fates, [goes, kept("a"), kept("b"), kept("c")]);
    assert_eq!(plan[1].detail.0[0], ("containers", Input::Number(2)));
    assert_eq!(plan[2].detail.0[0], ("mountedBy", Input::Text("three".to_owned())));
    assert_eq!(&*plan[0].name, "registry.test/d:1");
}

#[test]
fn use_by_name_counts_for_every_image_of_that_name() {
    let mut harness = Harness::new(vec![image("a", 1)]);
    harness.image("a").repo_digests = vec!["registry.test/a@sha256:1".to_owned()];
    harness.listing.uses = vec![using("one", "registry.test/a@sha256:1")];
    assert_eq!(harness.fates(600, full()), ["a image-in-use"]);
}

// behaviour: IMG-30
#[test]
fn invalid_policy_is_refused() {
    let check = |high_threshold, low_threshold| {
        Policy { high_threshold, low_threshold, ..Policy::default() }.check()
    };
    check(2, 1).unwrap();
    check(2, 2).unwrap();
    assert!(check(101, 1).unwrap_err().to_string().contains("high threshold is 101"));
    assert!(check(2, 101).unwrap_err().to_string().contains("low threshold is 101"));
    assert_eq!(check(1, 2), Err(PolicyError::Order { low: 2, high: 1 }));
}

// behaviour: IMG-46
#[test]
fn claimed_image_stays_under_any_of_its_names() {
    let mut harness = Harness::new(vec![image("a", 1), image("b", 1)]);
    harness.image("a").repo_tags = vec!["docker.io/library/busybox:latest".to_owned()];
    harness.image("b").repo_digests = vec![format!("registry.test/b@sha256:{}", "b".repeat(64))];
    for name in ["busybox:latest", "busybox", "docker.io/library/busybox:latest"] {
        harness.claimed = BTreeSet::from([name.to_owned()]);
        assert!(harness.fates(600, full()).contains(&"a being-pulled".to_owned()), "{name}");
    }
    harness.claimed = BTreeSet::from([format!("registry.test/b:9@sha256:{}", "b".repeat(64))]);
    assert!(harness.fates(600, full()).contains(&"b being-pulled".to_owned()));
    harness.claimed = BTreeSet::from(["a".to_owned()]);
    assert!(harness.fates(600, full()).contains(&"a being-pulled".to_owned()));
}

#[test]
fn pinned_images_and_images_of_kept_pods_stay() {
    let mut harness = Harness::new(["a", "b", "c", "d", "e"].map(|id| image(id, 1)).to_vec());
    harness.image("a").pinned = true;
    harness.pins = Pins::parse(&["registry.test/b"]).unwrap();
    let kept = |name: &str, keeper| KeptImage {
        name: name.to_owned(),
        keeper,
        pod: PodName::new("kube-system", "proxy"),
    };
    let of_pods = [("registry.test/c:1", Keeper::Static), ("registry.test/d:1", Keeper::Critical)];
    let by_id = ("e", Keeper::Critical);
    let of_pods = of_pods.into_iter().chain([by_id]).map(|(name, keeper)| kept(name, keeper));
    harness.of_pods = Some(of_pods.collect());
    assert_eq!(
        harness.fates(600, full()),
        [
            "a image-pinned",
            "b pinned-by-name",
            "c kept-for-static-pod",
            "d kept-for-critical-pod",
            "e kept-for-critical-pod",
        ]
    );
}

// behaviour: IMG-68
#[test]
fn all_images_stay_until_kept_pods_are_known() {
    let mut harness = Harness::new(["a", "b"].map(|id| image(id, 1)).to_vec());
    harness.image("a").pinned = true;
    harness.of_pods = None;
    assert_eq!(harness.fates(600, full()), ["a image-pinned", "b source-not-ready"]);
    harness.policy.maximum_age = Duration::from_mins(1);
    assert_eq!(harness.fates(600, full()), ["a image-pinned", "b source-not-ready"]);
}

// behaviour: IMG-56
#[test]
fn image_listed_twice_is_pinned_if_one_entry_is() {
    let pinned = model::ports::runtime::Image { pinned: true, ..image("a", 1) };
    for images in [vec![pinned.clone(), image("a", 1)], vec![image("a", 1), pinned]] {
        assert_eq!(Harness::new(images).fates(600, full()), ["a image-pinned"]);
    }
}

// behaviour: IMG-48
#[test]
fn clock_set_back_keeps_no_image() {
    let mut harness = Harness::new(vec![image("a", 1)]);
    harness.listing.uses = vec![using("one", "a")];
    harness.detect(1_000_000);
    harness.listing.uses.clear();
    let detected = harness.detect(100);
    assert_eq!(times(&detected, "a"), (at(100), Some(at(100))));
    assert_eq!(harness.fates(101, full()), ["a disk-over-high-threshold"]);
}

#[test]
fn image_used_at_the_start_of_the_pass_stays() {
    let mut harness = Harness::new(vec![image("a", 1)]);
    harness.listing.uses = vec![using("one", "a")];
    harness.detect(100);
    harness.listing.uses.clear();
    assert_eq!(harness.fates(100, full()), ["a used-since-the-pass-began"]);
}

// behaviour: IMG-42
#[test]
fn sweep_ends_after_three_removals_without_gain() {
    let images = (0..9).map(|number| image(&number.to_string(), 1000)).collect();
    let mut harness = Harness::new(images);
    harness.detect(0);
    let candidates = {
        let detected = harness.detect(60);
        let labels = std::collections::BTreeMap::new();
        let facts = ImageFacts {
            detected: &detected,
            policy: &harness.policy,
            pins: &harness.pins,
            labels: &labels,
            claimed: &harness.claimed,
            of_pods: Some(&[]),
            now: at(60),
            began: BEGAN,
            observed: Observed::Yes,
        };
        sort(&facts).candidates
    };
    let usage = Usage::of(disk(1000, 0)).unwrap();
    let goal = Goal::Room { usage, target: 200, estimated: false };
    let mut sweep = Sweep::new(candidates, goal, &harness.policy, at(60));
    // Two removals without gain, one with gain, three without.
    for available in [0, 0, 50, 50, 40, 40] {
        let (_, item) = sweep.next_step().expect("the sweep continues");
        sweep.removed(item, Some(available.into()));
    }
    assert_eq!(sweep.next_step(), None);
    let swept = sweep.finish();
    assert_eq!((swept.freed, swept.end, swept.is_enough), (50, End::Fruitless, false));
    let kept = swept.items.iter().filter(|item| item.rule == "removals-gain-nothing").count();
    assert_eq!((swept.items.len(), kept), (9, 3));
    let after = |item: &crate::plan::Item| item.detail.0.last().cloned();
    assert_eq!(after(&swept.items[2]), Some(("availableAfter", Input::Number(50))));
}

// behaviour: IMG-54
#[test]
fn image_without_an_id_is_reported_and_stays() {
    let nameless = model::ports::runtime::Image { id: String::new(), ..image("x", 1) };
    let mut harness = Harness::new(vec![nameless, image("a", 1)]);
    let detected = harness.detect(0);
    assert_eq!(detected.without_id, ["registry.test/x:1"]);
    assert_eq!(detected.images.len(), 1);
}
