//! Whether a target is met, from all measured rounds.
//!
//! A target is met when at least [`ROUNDS`] rounds began on a quiet machine and the worst of all rounds is within the
//! limit. It is missed when a sound round that began on a quiet machine is not. Otherwise it is not judged, with a
//! reason: too few rounds, a busy machine, a window that is too short, or a number that is not above its floor.

use std::collections::BTreeSet;

use crate::report::short;
use crate::results::About;

/// How many rounds on a quiet machine a verdict needs.
pub const ROUNDS: usize = 3;
/// A machine is quiet when its load average of one minute is below this.
pub const QUIET_LOAD: f64 = 1.0;

/// The measurement of something that does no work of an agent: a sleeping process, bare calls, the runtime alone. If
/// our number is not above it, it says nothing about the agent.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Floor {
    /// Counts have no floor.
    NotNeeded,
    /// The number needs a floor, and there is none.
    Missing,
    /// Both in the unit of the metric.
    Of {
        /// The floor.
        floor: f64,
        /// Our number of the same round.
        ours: f64,
    },
}

impl Floor {
    /// A floor that may be missing.
    pub fn of(floor: Option<f64>, ours: f64) -> Self {
        floor.map_or(Self::Missing, |floor| Self::Of { floor, ours })
    }
}

/// The number of one round that is compared with the limit.
#[derive(Debug, Clone, PartialEq)]
pub struct Measured {
    /// From 1. A round may have several values.
    pub round: u32,
    /// The value; nothing if the divisor is missing.
    pub value: Option<f64>,
    /// The load before the round; nothing if it was not recorded.
    pub load: Option<f64>,
    /// Its floor.
    pub floor: Floor,
    /// Another reason why the round cannot be judged.
    pub flaw: Option<String>,
}

/// The judgement of a target.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Judgement {
    /// The worst round is within the limit.
    Met,
    /// A round is above the limit.
    Missed,
    /// The rounds prove neither.
    NotJudged(String),
}

impl Judgement {
    /// In Markdown.
    pub fn written(&self) -> String {
        match self {
            Self::Met => "met".to_owned(),
            Self::Missed => "**missed**".to_owned(),
            Self::NotJudged(why) => format!("not judged: {why}"),
        }
    }
}

impl Measured {
    fn is_quiet(&self) -> bool {
        self.load.is_some_and(|load| load < QUIET_LOAD)
    }

    /// Why its value is meaningless.
    fn void(&self) -> Option<String> {
        let Self { round, floor, flaw, value, .. } = self;
        let why = match (flaw, floor, value) {
            (Some(flaw), ..) => flaw.clone(),
            (None, Floor::Missing, _) => "no floor was measured".to_owned(),
            (None, Floor::Of { floor, ours }, _) if floor >= ours => {
                format!("the floor ({}) is not below ours ({})", short(*floor), short(*ours))
            }
            (None, _, None) => "not measured".to_owned(),
            (None, _, Some(_)) => return None,
        };
        Some(format!("round {round}: {why}"))
    }
}

/// Compares all rounds with a limit.
pub fn judge(limit: f64, all: &[Measured]) -> Judgement {
    if all.is_empty() {
        return Judgement::NotJudged("not measured".to_owned());
    }
    let above = |one: &&Measured| one.value.is_some_and(|value| value > limit);
    let quiet = || all.iter().filter(|one| one.is_quiet());
    if quiet().any(|one| above(&one) && one.void().is_none()) {
        return Judgement::Missed;
    }
    if let Some(why) = all.iter().find_map(Measured::void) {
        return Judgement::NotJudged(why);
    }
    let rounds: BTreeSet<u32> = quiet().map(|one| one.round).collect();
    if rounds.len() < ROUNDS {
        let why =
            format!("{} of {ROUNDS} rounds with a load below {QUIET_LOAD} before", rounds.len());
        return Judgement::NotJudged(why);
    }
    match all.iter().find(above) {
        None => Judgement::Met,
        Some(Measured { round, load, .. }) => {
            let load = load.map_or("unknown".to_owned(), |load| format!("{load:.2}"));
            Judgement::NotJudged(format!("above it in round {round}, with a load of {load} before"))
        }
    }
}

/// The largest of the values.
pub fn worst(all: &[Measured]) -> Option<f64> {
    all.iter().filter_map(|one| one.value).reduce(f64::max)
}

/// Every value in order, for the page.
pub fn every(all: &[Measured]) -> String {
    let values = all.iter().map(|one| one.value.map_or("–".to_owned(), short));
    values.collect::<Vec<_>>().join(", ")
}

/// The load before a round. Older files have it of their first round only.
pub fn load_before(about: &About, round: u32) -> Option<f64> {
    let at = usize::try_from(round).ok()?.checked_sub(1)?;
    let starts = about.rounds.iter().map(|start| &start.machine);
    let older = about.rounds.is_empty().then_some(&about.machine);
    starts.chain(older).nth(at).map(|machine| machine.load_before)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn round(number: u32, value: f64, load: f64) -> Measured {
        let floor = Floor::Of { floor: 1.0, ours: 2.0 };
        Measured { round: number, value: Some(value), load: Some(load), floor, flaw: None }
    }

    fn rounds(values: &[(f64, f64)]) -> Vec<Measured> {
        (1..).zip(values).map(|(number, (value, load))| round(number, *value, *load)).collect()
    }

    fn not_judged(why: &str) -> Judgement {
        Judgement::NotJudged(why.to_owned())
    }

    #[test]
    fn met_needs_three_quiet_rounds_and_the_worst_round_below_the_limit() {
        let rows = [
            (vec![(0.1, 0.2), (0.3, 0.9), (0.2, 0.0)], Judgement::Met),
            (vec![(0.1, 0.2), (0.31, 0.9), (0.2, 0.0)], Judgement::Missed),
            // One round is enough to miss it.
            (vec![(0.31, 0.9)], Judgement::Missed),
            (vec![], not_judged("not measured")),
            (vec![(0.1, 0.2)], not_judged("1 of 3 rounds with a load below 1 before")),
            (
                vec![(0.1, 0.2), (0.1, 1.0), (0.1, 0.2)],
                not_judged("2 of 3 rounds with a load below 1 before"),
            ),
            // A busy round among three quiet ones.
            (vec![(0.1, 0.2), (0.1, 3.0), (0.1, 0.2), (0.1, 0.2)], Judgement::Met),
            (
                vec![(0.1, 0.2), (0.4, 3.0), (0.1, 0.2), (0.1, 0.2)],
                not_judged("above it in round 2, with a load of 3.00 before"),
            ),
        ];
        for (values, expected) in rows {
            assert_eq!(judge(0.3, &rounds(&values)), expected, "{values:?}");
        }
    }

    #[test]
    fn turns_of_one_round_count_as_one_round() {
        let all: Vec<Measured> = (0..6).map(|turn| round(1 + turn / 3, 0.1, 0.2)).collect();
        assert_eq!(judge(0.3, &all), not_judged("2 of 3 rounds with a load below 1 before"));
    }

    #[test]
    fn round_without_a_recorded_load_is_not_quiet() {
        let mut all = rounds(&[(0.1, 0.2); 3]);
        all[1].load = None;
        assert_eq!(judge(0.3, &all), not_judged("2 of 3 rounds with a load below 1 before"));
    }

    #[test]
    fn number_that_is_not_above_its_floor_is_not_judged() {
        let with = |floor| {
            let mut all = rounds(&[(-2.0, 0.2); 3]);
            all[1].floor = floor;
            judge(0.3, &all)
        };
        assert_eq!(with(Floor::Of { floor: 1.0, ours: 1.5 }), Judgement::Met);
        assert_eq!(with(Floor::NotNeeded), Judgement::Met);
        for (floor, ours) in [(12.4, 10.7), (2.0, 2.0)] {
            let Judgement::NotJudged(why) = with(Floor::Of { floor, ours }) else {
                panic!("{ours}")
            };
            assert!(why.starts_with("round 2: the floor ("), "{why}");
        }
        assert_eq!(with(Floor::Missing), not_judged("round 2: no floor was measured"));
    }

    #[test]
    fn flawed_round_is_not_judged() {
        let mut all = rounds(&[(0.4, 0.2), (0.1, 0.2), (0.1, 0.2)]);
        all[0].flaw = Some("its window held 1 relist".to_owned());
        assert_eq!(judge(0.3, &all), not_judged("round 1: its window held 1 relist"));
        // Another round has missed the target.
        all[1].value = Some(0.4);
        assert_eq!(judge(0.3, &all), Judgement::Missed);
        let mut all = rounds(&[(0.1, 0.2); 3]);
        all[2].value = None;
        assert_eq!(judge(0.3, &all), not_judged("round 3: not measured"));
    }

    #[test]
    fn page_has_the_worst_round_and_every_round() {
        let all = rounds(&[(0.1, 0.2), (0.3, 0.9), (0.2, 0.0)]);
        assert_eq!((worst(&all), every(&all)), (Some(0.3), "0.100, 0.300, 0.200".to_owned()));
        assert_eq!(worst(&[]), None);
    }
}
