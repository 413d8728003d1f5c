//! Which user ids of the host a pod's users are.

use std::collections::{BTreeMap, BTreeSet};

use model::ids::PodUid;
use model::wanted::IdMapping;

/// Ids that the host itself may use lie below the first range of a pod.
const ALL_IDS: u64 = 1 << 32;

/// The ranges of ids that pods have. Each pod has one of equal length, and no two share any.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IdRanges {
    /// How many ids a pod gets; ranges begin at multiples of it.
    length: u32,
    /// The number of each pod's range.
    taken: BTreeMap<PodUid, u32>,
}

/// Why a pod has no range.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RangeError {
    /// All are taken.
    #[error("could not find an empty slot to allocate a user namespace")]
    NoneLeft,
    /// A range of another length than ranges have now.
    #[error("wrong user namespace length {0}")]
    Length(u32),
    /// A range that begins where none does.
    #[error("wrong user namespace offset specified {0}")]
    Offset(u32),
    /// A range of the host.
    #[error("id {0} is out of range")]
    OutOfRange(u32),
    /// The pod has another one.
    #[error("different user namespace range already used by pod {0:?}")]
    Another(String),
    /// Another pod has it.
    #[error("range picked for pod {0:?} already taken")]
    Taken(String),
    /// Not the mapping that a pod has.
    #[error("invalid user namespace configuration: UID 0 must be mapped")]
    NotRoot,
}

impl IdRanges {
    /// No pod has one yet.
    pub fn new(length: u32) -> Self {
        Self { length, taken: BTreeMap::new() }
    }

    /// The range of a pod, a new one if it has none.
    pub fn take(&mut self, pod: &PodUid) -> Result<IdMapping, RangeError> {
        if let Some(mapping) = self.get(pod) {
            return Ok(mapping);
        }
        let used: BTreeSet<u32> = self.taken.values().copied().collect();
        let free = (1..self.count()).find(|number| !used.contains(number));
        let number = free.ok_or(RangeError::NoneLeft)?;
        self.taken.insert(pod.clone(), number);
        Ok(self.mapping(number))
    }

    /// The range of a pod, if it has one.
    pub fn get(&self, pod: &PodUid) -> Option<IdMapping> {
        self.taken.get(pod).map(|number| self.mapping(*number))
    }

    /// Notes the range that a pod has from before.
    pub fn record(&mut self, pod: &PodUid, mapping: IdMapping) -> Result<(), RangeError> {
        let IdMapping { host_id, container_id, length } = mapping;
        if container_id != 0 {
            return Err(RangeError::NotRoot);
        }
        if length != self.length {
            return Err(RangeError::Length(length));
        }
        if host_id % self.length != 0 {
            return Err(RangeError::Offset(host_id));
        }
        let number = host_id / self.length;
        if !(1..self.count()).contains(&number) {
            return Err(RangeError::OutOfRange(host_id));
        }
        match self.taken.get(pod) {
            Some(had) if *had == number => return Ok(()),
            Some(_) => return Err(RangeError::Another(pod.to_string())),
            None => {}
        }
        if self.taken.values().any(|taken| *taken == number) {
            return Err(RangeError::Taken(pod.to_string()));
        }
        self.taken.insert(pod.clone(), number);
        Ok(())
    }

    /// Gives the range of a pod back; tells whether it had one.
    pub fn release(&mut self, pod: &PodUid) -> bool {
        self.taken.remove(pod).is_some()
    }

    /// One more than the number of the last range.
    fn count(&self) -> u32 {
        u32::try_from(ALL_IDS / u64::from(self.length.max(1))).unwrap_or(u32::MAX)
    }

    fn mapping(&self, number: u32) -> IdMapping {
        IdMapping { host_id: number * self.length, container_id: 0, length: self.length }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn uid(name: &str) -> PodUid {
        name.into()
    }

    fn mapping(host_id: u32) -> IdMapping {
        IdMapping { host_id, container_id: 0, length: 65_536 }
    }

    // behaviour: CON-80
    #[test]
    fn every_pod_has_a_range_of_its_own_above_the_hosts_and_keeps_it() {
        let mut ranges = IdRanges::new(65_536);
        assert_eq!(ranges.take(&uid("a")), Ok(mapping(65_536)));
        assert_eq!(ranges.take(&uid("b")), Ok(mapping(131_072)));
        assert_eq!(ranges.take(&uid("a")), Ok(mapping(65_536)));
        assert!(ranges.release(&uid("a")) && !ranges.release(&uid("a")));
        assert_eq!(ranges.take(&uid("c")), Ok(mapping(65_536)));
    }

    // behaviour: CON-81
    #[test]
    fn a_range_from_before_is_kept_and_one_that_makes_no_sense_refused() {
        let mut ranges = IdRanges::new(65_536);
        assert_eq!(ranges.record(&uid("a"), mapping(131_072)), Ok(()));
        assert_eq!(ranges.record(&uid("a"), mapping(131_072)), Ok(()));
        assert_eq!(ranges.take(&uid("a")), Ok(mapping(131_072)));
        assert_eq!(ranges.take(&uid("b")), Ok(mapping(65_536)));
        let rows = [
            ("c", mapping(131_072), RangeError::Taken("c".into())),
            ("a", mapping(196_608), RangeError::Another("a".into())),
            ("c", mapping(0), RangeError::OutOfRange(0)),
            ("c", mapping(65_537), RangeError::Offset(65_537)),
            ("c", IdMapping { length: 1, ..mapping(65_536) }, RangeError::Length(1)),
            ("c", IdMapping { container_id: 5, ..mapping(196_608) }, RangeError::NotRoot),
        ];
        for (pod, mapping, expected) in rows {
            assert_eq!(ranges.record(&uid(pod), mapping), Err(expected), "{mapping:?}");
        }
    }

    #[test]
    fn ranges_run_out() {
        let mut ranges = IdRanges::new(1 << 30);
        for pod in ["a", "b", "c"] {
            ranges.take(&uid(pod)).unwrap();
        }
        assert_eq!(ranges.take(&uid("d")), Err(RangeError::NoneLeft));
        ranges.release(&uid("b"));
        assert_eq!(ranges.take(&uid("d")).unwrap().host_id, 2 << 30);
    }

    proptest! {
        #[test]
        fn no_two_pods_ever_share_an_id(steps in prop::collection::vec((0_u8..20, any::<bool>()), 1..80)) {
            let mut ranges = IdRanges::new(65_536);
            let mut live: BTreeMap<PodUid, u32> = BTreeMap::new();
            for (pod, takes) in steps {
                let pod = uid(&pod.to_string());
                if takes {
                    let taken = ranges.take(&pod).unwrap().host_id;
                    prop_assert!(taken >= 65_536);
                    prop_assert!(live.get(&pod).is_none_or(|had| *had == taken));
                    prop_assert!(live.iter().all(|(other, id)| *other == pod || *id != taken));
                    live.insert(pod, taken);
                } else {
                    prop_assert_eq!(ranges.release(&pod), live.remove(&pod).is_some());
                }
            }
        }
    }
}
