//! A hash of all objects of a runtime and their states. If it is the same, nothing has changed. It does not
//! depend on the order in which the runtime lists its objects.

use crate::observed::{Container, ContainerState, Sandbox, SandboxState};

/// The kind and state of an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Mark {
    /// A sandbox that is ready.
    ReadySandbox,
    /// A sandbox that is not.
    DeadSandbox,
    /// A container that runs.
    RunningContainer,
    /// A container that has ended.
    EndedContainer,
    /// An object in any other state: its pod must be inspected.
    Unsettled,
}

impl From<SandboxState> for Mark {
    fn from(state: SandboxState) -> Self {
        match state {
            SandboxState::Ready => Self::ReadySandbox,
            SandboxState::NotReady => Self::DeadSandbox,
        }
    }
}

impl From<ContainerState> for Mark {
    fn from(state: ContainerState) -> Self {
        match state {
            ContainerState::Running => Self::RunningContainer,
            ContainerState::Exited => Self::EndedContainer,
            ContainerState::Created | ContainerState::Unknown => Self::Unsettled,
        }
    }
}

/// A hash of objects and their states.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Fingerprint {
    objects: u64,
    unsettled: u64,
    sum: u64,
}

impl Fingerprint {
    /// Adds an object. An ID always means the same object; only its state changes.
    pub fn add(&mut self, id: &[u8], mark: Mark) {
        self.sum = self.sum.wrapping_add(hash(id, mark));
        self.objects += 1;
        self.unsettled += u64::from(mark == Mark::Unsettled);
    }

    /// The fingerprint of the objects of both.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        Self {
            objects: self.objects + other.objects,
            unsettled: self.unsettled + other.unsettled,
            sum: self.sum.wrapping_add(other.sum),
        }
    }

    /// As numbers, for transport.
    pub fn to_numbers(self) -> [u64; 3] {
        [self.objects, self.unsettled, self.sum]
    }

    /// From [`Fingerprint::to_numbers`].
    pub fn from_numbers([objects, unsettled, sum]: [u64; 3]) -> Self {
        Self { objects, unsettled, sum }
    }

    /// The fingerprint of two lists.
    pub fn of(sandboxes: &[Sandbox], containers: &[Container]) -> Self {
        let mut fingerprint = Self::default();
        for sandbox in sandboxes {
            fingerprint.add(sandbox.id.as_str().as_bytes(), sandbox.state.into());
        }
        for container in containers {
            fingerprint.add(container.id.as_str().as_bytes(), container.state.into());
        }
        fingerprint
    }

    /// Whether both mean the same objects in the same states. It is false if any object is in another state
    /// ([`Mark::Unsettled`]): the hash does not distinguish those.
    pub fn is_same(&self, other: &Self) -> bool {
        self == other && self.unsettled == 0
    }
}

/// A hash of an id and a mark. Ids are the runtime's and are random: what counts is that it takes
/// little time, for thousands of them.
fn hash(id: &[u8], mark: Mark) -> u64 {
    const ODD: u128 = 0x9e37_79b9_7f4a_7c15;
    let mix = |state: u64, word: u64| {
        let wide = u128::from(state ^ word) * ODD;
        u64::try_from(wide & u128::from(u64::MAX)).unwrap_or_default()
            ^ u64::try_from(wide >> 64).unwrap_or_default()
    };
    let (words, rest) = id.as_chunks::<8>();
    let start = mix(mark as u64 + 1, id.len() as u64);
    let state = words.iter().fold(start, |state, word| mix(state, u64::from_le_bytes(*word)));
    let state = rest.iter().fold(state, |state, byte| mix(state, u64::from(*byte) + 1));
    mix(state, 0x6a09_e667_f3bc_c908)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fingerprint(objects: &[(&str, Mark)]) -> Fingerprint {
        let mut fingerprint = Fingerprint::default();
        for (id, mark) in objects {
            fingerprint.add(id.as_bytes(), *mark);
        }
        fingerprint
    }

    #[test]
    fn fingerprint_depends_on_objects_and_states_but_not_on_order() {
        use Mark::{EndedContainer, ReadySandbox, RunningContainer, Unsettled};
        let known = fingerprint(&[("s", ReadySandbox), ("c", RunningContainer)]);
        let rows: &[(&[(&str, Mark)], bool)] = &[
            (&[("c", RunningContainer), ("s", ReadySandbox)], true),
            (&[("s", ReadySandbox), ("c", EndedContainer)], false),
            (&[("s", ReadySandbox), ("d", RunningContainer)], false),
            (&[("s", ReadySandbox)], false),
            (&[("s", ReadySandbox), ("c", RunningContainer), ("c", RunningContainer)], false),
            (&[("s", RunningContainer), ("c", ReadySandbox)], false),
            (&[], false),
        ];
        for (objects, same) in rows {
            assert_eq!(known.is_same(&fingerprint(objects)), *same, "{objects:?}");
        }
        let (one, other) = (&[("s", ReadySandbox)], &[("c", RunningContainer)]);
        assert_eq!(fingerprint(one).and(fingerprint(other)), known);
        let similar: std::collections::BTreeSet<u64> = (0..10_000)
            .flat_map(|number| {
                let id = format!("{number:064x}");
                [ReadySandbox, RunningContainer, EndedContainer]
                    .map(|mark| hash(id.as_bytes(), mark))
            })
            .collect();
        assert_eq!(similar.len(), 30_000);
        let unsettled = fingerprint(&[("c", Unsettled)]);
        assert!(!unsettled.is_same(&unsettled));
        assert!(fingerprint(&[]).is_same(&fingerprint(&[])));
    }
}
