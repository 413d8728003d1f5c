//! Which pods of the node nobody looks after: those that should have a worker and have none, and
//! those that run although nobody wants them.

use std::collections::{BTreeMap, BTreeSet};

use model::ids::{PodName, PodUid};

/// How many passes over all pods in a row may be left out.
const MOST_LEFT_OUT: u32 = 4;

/// Whether all pods are to be gone through, after so many passes were left out. Where nothing `stirred` since
/// the last one, it would find what that found; but then nobody would ever notice what was missed.
pub(crate) fn is_due(stirred: bool, left_out: u32) -> bool {
    stirred || left_out >= MOST_LEFT_OUT
}

/// The pods of the node as they are wanted, worked on and seen.
#[derive(Debug)]
pub(crate) struct Pods<'a> {
    /// Those that are wanted and can be run, by uid.
    pub(crate) wanted: BTreeMap<PodUid, Wanted>,
    /// Those with a worker.
    pub(crate) working: &'a BTreeSet<PodUid>,
    /// Those of which something may live in the runtime.
    pub(crate) live: &'a BTreeMap<PodUid, PodName>,
    /// Those of which a source knows only that they are there.
    pub(crate) unread: BTreeSet<PodUid>,
    /// Whether every source was heard. Before that nobody knows what is unwanted.
    pub(crate) all_heard: bool,
}

/// A pod that is wanted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Wanted {
    pub(crate) name: PodName,
    /// Whether it has its name for itself.
    pub(crate) is_static: bool,
}

/// What must be done about a pod.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Step {
    /// End what runs and nobody wants.
    End(PodUid, PodName),
    /// Give the pod a worker.
    Create(PodUid),
}

/// What must be done about all pods, in this order: whatever ends comes first, so that it keeps its
/// name until it has ended, and a static pod of that name waits for it.
pub(crate) fn steps(pods: &Pods<'_>) -> Vec<Step> {
    let strangers = pods
        .live
        .iter()
        .filter(|(uid, _)| !pods.wanted.contains_key(*uid) && !pods.working.contains(*uid));
    let mut steps = Vec::new();
    let mut taken = BTreeSet::new();
    for (uid, name) in strangers {
        // Of one that cannot be understood nobody knows that it is unwanted.
        if is_stranger(pods.unread.contains(uid), false, pods.all_heard) {
            steps.push(Step::End(uid.clone(), name.clone()));
        } else {
            taken.insert(name);
        }
    }
    let missing = pods.wanted.iter().filter(|(uid, _)| !pods.working.contains(*uid));
    let free = missing.filter(|(_, pod)| !(pod.is_static && taken.contains(&pod.name)));
    steps.extend(free.map(|(uid, _)| Step::Create(uid.clone())));
    steps
}

/// Whether a pod that lives is to be ended: nobody wants it, now that all were heard, and nobody is
/// at it yet.
pub(crate) fn is_stranger(wanted: bool, working: bool, all_heard: bool) -> bool {
    !wanted && !working && all_heard
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn name(name: &str) -> PodName {
        PodName::new("default", name)
    }

    /// Uid and name of each.
    fn live(pods: &[(&str, &str)]) -> BTreeMap<PodUid, PodName> {
        pods.iter().map(|(uid, pod)| (PodUid::from(*uid), name(pod))).collect()
    }

    fn end(uid: &str, pod: &str) -> Step {
        Step::End(uid.into(), name(pod))
    }

    fn create(uid: &str) -> Step {
        Step::Create(uid.into())
    }

    // behaviour: WRK-20
    #[test]
    fn pods_are_gone_through_when_something_stirred_and_every_fifth_time() {
        let rows = [(true, 0, true), (false, 0, false), (false, 3, false), (false, 4, true)];
        for (stirred, left_out, expected) in rows {
            assert_eq!(is_due(stirred, left_out), expected, "{stirred} {left_out}");
        }
    }

    // behaviour: WRK-7, WRK-18, WRK-20
    #[test]
    fn every_pod_that_nobody_looks_after_is_found() {
        let fixed =
            |uid: &str, pod: &str| (PodUid::from(uid), Wanted { name: name(pod), is_static: true });
        let from_api = |uid: &str, pod: &str| {
            (PodUid::from(uid), Wanted { name: name(pod), is_static: false })
        };
        let rows = [
            ("nothing", vec![], vec![], vec![], true, vec![]),
            ("new", vec![fixed("a", "web")], vec![], vec![], true, vec![create("a")]),
            ("known", vec![fixed("a", "web")], vec!["a"], vec![("a", "web")], true, vec![]),
            (
                "adopted",
                vec![fixed("a", "web")],
                vec![],
                vec![("a", "web")],
                false,
                vec![create("a")],
            ),
            ("unwanted", vec![], vec![], vec![("b", "old")], true, vec![end("b", "old")]),
            ("perhaps unwanted", vec![], vec![], vec![("b", "old")], false, vec![]),
            ("being ended", vec![], vec!["b"], vec![("b", "old")], true, vec![]),
            (
                "its earlier self first",
                vec![fixed("a", "web")],
                vec![],
                vec![("b", "web")],
                true,
                vec![end("b", "web"), create("a")],
            ),
            (
                "perhaps another source's",
                vec![fixed("a", "web"), fixed("c", "other")],
                vec![],
                vec![("b", "web")],
                false,
                vec![create("c")],
            ),
            (
                "only static pods have their names for themselves",
                vec![from_api("a", "web")],
                vec![],
                vec![("b", "web")],
                false,
                vec![create("a")],
            ),
        ];
        for (row, wanted, working, seen, all_heard, expected) in rows {
            let working = working.into_iter().map(PodUid::from).collect();
            let live = live(&seen);
            let pods = Pods {
                wanted: wanted.into_iter().collect(),
                working: &working,
                live: &live,
                unread: BTreeSet::new(),
                all_heard,
            };
            assert_eq!(steps(&pods), expected, "{row}");
        }
    }

    // behaviour: API-38
    #[test]
    fn one_that_cannot_be_understood_is_not_ended_and_has_its_name() {
        let (live, working) = (live(&[("a", "web"), ("b", "old")]), BTreeSet::new());
        let wanted = Wanted { name: name("web"), is_static: true };
        let pods = |unread: &[&str]| Pods {
            wanted: [(PodUid::from("c"), wanted.clone())].into(),
            working: &working,
            live: &live,
            unread: unread.iter().copied().map(PodUid::from).collect(),
            all_heard: true,
        };
        assert_eq!(steps(&pods(&["a"])), [end("b", "old")]);
        assert_eq!(steps(&pods(&[])), [end("a", "web"), end("b", "old"), create("c")]);
    }

    fn uids() -> impl Strategy<Value = BTreeSet<u8>> {
        prop::collection::btree_set(0_u8..8, 0..8)
    }

    fn uid(number: u8) -> PodUid {
        number.to_string().as_str().into()
    }

    proptest! {
        #[test]
        fn once_done_nothing_is_left_to_do_and_nothing_wanted_ends(
            wanted in uids(),
            working in uids(),
            seen in uids(),
            all_heard in any::<bool>(),
        ) {
            // Two pods share each name.
            let name_of = |number: u8| name(&(number / 2).to_string());
            let mut working: BTreeSet<PodUid> = working.into_iter().map(uid).collect();
            let live: BTreeMap<_, _> = seen.into_iter().map(|n| (uid(n), name_of(n))).collect();
            let wanted: BTreeMap<_, _> = wanted
                .into_iter()
                .map(|n| (uid(n), Wanted { name: name_of(n), is_static: true }))
                .collect();
            let to_do = |working: &BTreeSet<PodUid>| {
                steps(&Pods {
                    wanted: wanted.clone(),
                    working,
                    live: &live,
                    unread: BTreeSet::new(),
                    all_heard,
                })
            };
            for step in to_do(&working) {
                match step {
                    Step::End(uid, _) => {
                        prop_assert!(all_heard && live.contains_key(&uid));
                        prop_assert!(!wanted.contains_key(&uid));
                        prop_assert!(working.insert(uid), "it has a worker");
                    }
                    Step::Create(uid) => {
                        // Whoever lives under its name has a worker by now, or is wanted too.
                        let name = &wanted[&uid].name;
                        let others = live.iter().filter(|(other, of)| *of == name && **other != uid);
                        for (other, _) in others {
                            prop_assert!(working.contains(other) || wanted.contains_key(other));
                        }
                        prop_assert!(working.insert(uid), "it has a worker");
                    }
                }
            }
            prop_assert_eq!(to_do(&working), []);
            if all_heard {
                prop_assert!(wanted.keys().chain(live.keys()).all(|uid| working.contains(uid)));
            }
        }
    }
}
