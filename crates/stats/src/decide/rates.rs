//! Rates of CPU time: they need an earlier measurement.

use std::collections::BTreeMap;

use jiff::{SignedDuration, Timestamp};
use model::cgroup::usage::CgroupSample;

/// The shortest time between the two measurements of a rate.
const SHORTEST: SignedDuration = SignedDuration::from_millis(900);
/// An earlier measurement is replaced once it is this old.
const PERIOD: SignedDuration = SignedDuration::from_secs(10);
/// An older measurement would make a rate of another time.
const LONGEST: SignedDuration = SignedDuration::from_secs(120);

const NANOSECONDS: u128 = 1_000_000_000;

/// The CPU time of a cgroup at a time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Base {
    at: Timestamp,
    usage: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Entry {
    base: Base,
    /// The last rate, in billionths of a CPU, and its time.
    rate: Option<(Timestamp, u64)>,
}

/// Earlier measurements of cgroups, by path.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Rates(BTreeMap<String, Entry>);

impl Rates {
    /// Records measurements. Cgroups that were not measured for long are dropped.
    pub fn record(&mut self, samples: &[CgroupSample]) {
        let Some(now) = samples.iter().map(|sample| sample.time).max() else { return };
        self.0.retain(|_, entry| now.duration_since(entry.base.at) <= LONGEST);
        for sample in samples {
            let Some(cpu) = &sample.cpu else { continue };
            let new = Base { at: sample.time, usage: cpu.usage };
            let entry = self.0.entry(sample.path.clone());
            let entry = entry.or_insert(Entry { base: new, rate: None });
            let age = new.at.duration_since(entry.base.at);
            // A cgroup of the same name is another one if it has used less time.
            if age.is_negative() || new.usage < entry.base.usage {
                *entry = Entry { base: new, rate: None };
            } else if age >= SHORTEST {
                let used = u128::from(new.usage - entry.base.usage) * NANOSECONDS;
                let rate = used / u128::try_from(age.as_nanos()).unwrap_or(1).max(1);
                entry.rate = Some((new.at, u64::try_from(rate).unwrap_or(u64::MAX)));
                if age >= PERIOD {
                    entry.base = new;
                }
            }
        }
    }

    /// The last rate of a cgroup; `None` without two measurements within two minutes.
    pub fn rate(&self, path: &str, now: Timestamp) -> Option<u64> {
        let (at, rate) = self.0.get(path)?.rate?;
        (now.duration_since(at) <= LONGEST).then_some(rate)
    }
}

#[cfg(test)]
mod tests {
    use model::cgroup::usage::CpuSample;

    use super::*;

    fn sample(path: &str, milliseconds: i64, usage: u64) -> CgroupSample {
        CgroupSample {
            path: path.to_owned(),
            time: Timestamp::from_millisecond(milliseconds).unwrap(),
            cpu: Some(CpuSample { usage, ..CpuSample::default() }),
            ..CgroupSample::default()
        }
    }

    /// Records measurements `(milliseconds, milliseconds of CPU)`; returns the last rate in thousandths of a CPU.
    fn rate(measured: &[(i64, u64)]) -> Option<u64> {
        let mut rates = Rates::default();
        for &(at, usage) in measured {
            rates.record(&[sample("/a", at, usage * 1_000_000)]);
        }
        let (last, _) = measured.last().unwrap();
        let rate = rates.rate("/a", Timestamp::from_millisecond(*last).unwrap());
        rate.map(|rate| rate / 1_000_000)
    }

    // behaviour: STA-5
    #[test]
    fn rate_needs_two_measurements_a_second_apart() {
        assert_eq!(rate(&[(0, 5)]), None);
        assert_eq!(rate(&[(0, 5), (200, 105)]), None, "too short");
        assert_eq!(rate(&[(0, 5), (1000, 505)]), Some(500));
        assert_eq!(rate(&[(0, 5), (1000, 505), (1100, 600)]), Some(540), "since the first");
        assert_eq!(
            rate(&[(0, 0), (12_000, 12_000), (13_000, 12_000)]),
            Some(0),
            "since the second"
        );
    }

    #[test]
    fn rate_is_unknown_after_a_long_pause_or_with_a_new_cgroup() {
        assert_eq!(rate(&[(0, 0), (121_000, 500)]), None);
        assert_eq!(rate(&[(0, 9000), (5000, 10)]), None, "used less: a new cgroup");
        assert_eq!(rate(&[(5000, 0), (0, 10)]), None, "the clock was set back");
    }

    #[test]
    fn removed_cgroups_are_dropped() {
        let mut rates = Rates::default();
        rates.record(&[sample("/gone", 0, 0), sample("/", 0, 0)]);
        rates.record(&[sample("/", 125_000, 0)]);
        assert_eq!(rates.0.keys().collect::<Vec<_>>(), ["/"]);
    }
}
