//! The host ID ranges of user namespaces.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use model::ids::PodUid;
use model::wanted::IdMapping;

/// The first ID for pods; the host itself uses the IDs below.
const ALL_IDS: u64 = 1 << 32;

/// Host IDs that are reserved for pods.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct IdSpan {
    /// The first ID.
    pub first: u32,
    /// The number of IDs.
    pub length: u32,
}

/// Why reserved IDs are not usable.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SpanError {
    /// There is not exactly one line with a range.
    #[error("{0:?} is not a single range of ids")]
    Text(String),
    /// User and group IDs differ.
    #[error("its user ids and group ids are not the same")]
    Differ,
    /// They do not begin at a range of a pod.
    #[error("its first id {0} is not a multiple of {1}, or 0")]
    First(u32, u32),
    /// The number of ids is not a multiple of the range length.
    #[error("its {0} ids are not a multiple of {1}")]
    Length(u32, u32),
    /// There are too few.
    #[error("its ids are not enough for {0} pods")]
    TooFew(u32),
}

impl IdSpan {
    /// Parses two lines like `0: kubelet 65536 7208960`, for users and for groups.
    pub fn read(users: &str, groups: &str) -> Result<Self, SpanError> {
        if users != groups {
            return Err(SpanError::Differ);
        }
        let wrong = || SpanError::Text(users.to_owned());
        let words: Vec<&str> = match users.trim_matches('\n') {
            line if line.contains('\n') => return Err(wrong()),
            line => line.split_whitespace().collect(),
        };
        let [_, _, first, length] = words[..] else { return Err(wrong()) };
        let number = |text: &str| text.parse().map_err(|_| wrong());
        Ok(Self { first: number(first)?, length: number(length)? })
    }

    /// Checks that `pods` ranges of `length` IDs fit.
    pub fn is_for(self, ids_per_pod: u32, pods: u32) -> Result<(), SpanError> {
        let Self { first, length } = self;
        if first % ids_per_pod != 0 || first == 0 {
            return Err(SpanError::First(first, ids_per_pod));
        }
        if length % ids_per_pod != 0 {
            return Err(SpanError::Length(length, ids_per_pod));
        }
        if length / ids_per_pod < pods { Err(SpanError::TooFew(pods)) } else { Ok(()) }
    }
}

/// The ID ranges of pods. All have the same length, and they do not overlap.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IdRanges {
    /// The length of a range; ranges begin at multiples of it.
    length: u32,
    /// The numbers of all ranges.
    numbers: Range<u32>,
    /// The number of each pod's range.
    taken: BTreeMap<PodUid, u32>,
}

/// Why a pod has no range.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RangeError {
    /// All are taken.
    #[error("could not find an empty slot to allocate a user namespace")]
    NoneLeft,
    /// The range has another length than configured.
    #[error("wrong user namespace length {0}")]
    Length(u32),
    /// The range does not begin at a multiple of the length.
    #[error("wrong user namespace offset specified {0}")]
    Offset(u32),
    /// The range belongs to the host.
    #[error("id {0} is out of range")]
    OutOfRange(u32),
    /// The pod has another range.
    #[error("different user namespace range already used by pod {0:?}")]
    Another(String),
    /// Another pod has the range.
    #[error("range picked for pod {0:?} already taken")]
    Taken(String),
    /// The mapping is not that of a pod.
    #[error("invalid user namespace configuration: UID 0 must be mapped")]
    NotRoot,
}

impl IdRanges {
    /// No ranges yet. They come from the reserved IDs, else from all IDs above those of the host.
    pub fn new(length: u32, span: Option<IdSpan>) -> Self {
        let each = u64::from(length.max(1));
        let number = |id: u64| u32::try_from(id / each).unwrap_or(u32::MAX);
        let numbers = match span {
            Some(IdSpan { first, length }) => {
                let first = u64::from(first);
                number(first).max(1)..number((first + u64::from(length)).min(ALL_IDS))
            }
            None => 1..number(ALL_IDS),
        };
        Self { length, numbers, taken: BTreeMap::new() }
    }

    /// The range of a pod, a new one if it has none.
    pub fn take(&mut self, pod: &PodUid) -> Result<IdMapping, RangeError> {
        if let Some(mapping) = self.get(pod) {
            return Ok(mapping);
        }
        let used: BTreeSet<u32> = self.taken.values().copied().collect();
        let free = self.numbers.clone().find(|number| !used.contains(number));
        let number = free.ok_or(RangeError::NoneLeft)?;
        self.taken.insert(pod.clone(), number);
        Ok(self.mapping(number))
    }

    /// The range of a pod, if it has one.
    pub fn get(&self, pod: &PodUid) -> Option<IdMapping> {
        self.taken.get(pod).map(|number| self.mapping(*number))
    }

    /// Records the existing range of a pod.
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
        if !self.numbers.contains(&number) {
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

    /// Releases the range of a pod. Whether it had one.
    pub fn release(&mut self, pod: &PodUid) -> bool {
        self.taken.remove(pod).is_some()
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
    fn pod_keeps_its_own_id_range_above_that_of_the_host() {
        let mut ranges = IdRanges::new(65_536, None);
        assert_eq!(ranges.take(&uid("a")), Ok(mapping(65_536)));
        assert_eq!(ranges.take(&uid("b")), Ok(mapping(131_072)));
        assert_eq!(ranges.take(&uid("a")), Ok(mapping(65_536)));
        assert!(ranges.release(&uid("a")) && !ranges.release(&uid("a")));
        assert_eq!(ranges.take(&uid("c")), Ok(mapping(65_536)));
    }

    // behaviour: CON-81
    #[test]
    fn recorded_id_range_is_kept_and_an_invalid_one_rejected() {
        let mut ranges = IdRanges::new(65_536, None);
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
    fn id_ranges_can_be_exhausted() {
        let mut ranges = IdRanges::new(1 << 30, None);
        for pod in ["a", "b", "c"] {
            ranges.take(&uid(pod)).unwrap();
        }
        assert_eq!(ranges.take(&uid("d")), Err(RangeError::NoneLeft));
        ranges.release(&uid("b"));
        assert_eq!(ranges.take(&uid("d")).unwrap().host_id, 2 << 30);
    }

    // behaviour: CON-88
    #[test]
    fn pods_use_only_the_ids_of_the_kubelet_user() {
        let line = "0: kubelet 2147483648 196608\n";
        let span = IdSpan::read(line, line).unwrap();
        assert_eq!(span, IdSpan { first: 1 << 31, length: 196_608 });
        assert_eq!(span.is_for(65_536, 3), Ok(()));
        let mut ranges = IdRanges::new(65_536, Some(span));
        for number in 0..3 {
            let taken = ranges.take(&uid(&number.to_string())).unwrap().host_id;
            assert_eq!(taken, (1 << 31) + number * 65_536);
        }
        assert_eq!(ranges.take(&uid("more")), Err(RangeError::NoneLeft));
        assert_eq!(
            ranges.record(&uid("old"), mapping(65_536)),
            Err(RangeError::OutOfRange(65_536))
        );
    }

    // behaviour: CON-88
    #[test]
    fn invalid_id_spans_are_rejected() {
        let line = "0: kubelet 65536 65536";
        let two = format!("{line}\n1: kubelet 196608 65536\n");
        for text in
            ["", "0: kubelet 65536", "0: kubelet a 65536", "0: kubelet 65536 4294967296", &two]
        {
            assert_eq!(IdSpan::read(text, text), Err(SpanError::Text(text.to_owned())));
        }
        assert_eq!(IdSpan::read(line, ""), Err(SpanError::Differ));
        let rows = [
            ((0, 65_536), 1, SpanError::First(0, 65_536)),
            ((65_537, 65_536), 1, SpanError::First(65_537, 65_536)),
            ((65_536, 65_537), 1, SpanError::Length(65_537, 65_536)),
            ((65_536, 131_072), 3, SpanError::TooFew(3)),
        ];
        for ((first, length), pods, expected) in rows {
            assert_eq!(IdSpan { first, length }.is_for(65_536, pods), Err(expected));
        }
    }

    proptest! {
        #[test]
        fn pods_never_share_an_id(steps in prop::collection::vec((0_u8..20, any::<bool>()), 1..80)) {
            let mut ranges = IdRanges::new(65_536, None);
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
