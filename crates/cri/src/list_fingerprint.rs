//! Lists of which only ids and states are decoded while they are received: enough to detect a change.

use std::fmt::Debug;
use std::marker::PhantomData;
use std::mem::take;

use model::fingerprint::{Fingerprint, Mark};
use prost::Message;
use prost::bytes::BytesMut;
use proto::runtime_v1 as cri;
use tonic::Status;

use crate::from_cri;
use crate::rewritten_body::put_message;
use crate::split_body::Digest;
use crate::wire::{Field, next};

/// The field numbers of the entries of a list, and of the id of an entry.
const ENTRIES: u64 = 1;
const ID: u64 = 1;

/// The kind of list entry.
pub(crate) trait ListKind: Debug + Default + Send {
    /// The field number of the state.
    const STATE: u64;

    fn mark(state: i32) -> Mark;
}

/// `PodSandbox`.
#[derive(Debug, Default)]
pub(crate) struct SandboxList;

impl ListKind for SandboxList {
    const STATE: u64 = 3;

    fn mark(state: i32) -> Mark {
        let state = cri::PodSandboxState::try_from(state).unwrap_or_default();
        from_cri::sandbox_state(state).into()
    }
}

/// `Container`.
#[derive(Debug, Default)]
pub(crate) struct ContainerList;

impl ListKind for ContainerList {
    const STATE: u64 = 6;

    fn mark(state: i32) -> Mark {
        let state = cri::ContainerState::try_from(state).unwrap_or_default();
        from_cri::container_state(state).into()
    }
}

/// Replaces a list by its fingerprint.
#[derive(Debug, Default)]
pub(crate) struct FingerprintDigest<L> {
    sum: Fingerprint,
    of: PhantomData<L>,
}

impl<L: ListKind> FingerprintDigest<L> {
    fn add(&mut self, mut entry: &[u8]) -> Result<(), Status> {
        let (mut id, mut state) = (&[][..], 0);
        while let Some(field) = next(&mut entry)? {
            match field {
                Field::Bytes(ID, text) => id = text,
                // An unknown value counts as absent.
                Field::Number(number, value) if number == L::STATE => {
                    state = i32::try_from(value).unwrap_or_default();
                }
                _ => {}
            }
        }
        self.sum.add(id, L::mark(state));
        Ok(())
    }
}

impl<L: ListKind> Digest for FingerprintDigest<L> {
    fn take(
        &mut self,
        mut fields: &[u8],
        last: bool,
        handed_on: &mut BytesMut,
    ) -> Result<(), Status> {
        while let Some(field) = next(&mut fields)? {
            if let Field::Bytes(ENTRIES, entry) = field {
                self.add(entry)?;
            }
        }
        if last {
            let numbers = take(&mut self.sum).to_numbers().to_vec();
            put_message(&FingerprintMessage { numbers }.encode_to_vec(), handed_on);
        }
        Ok(())
    }
}

/// The fingerprint as a message.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct FingerprintMessage {
    #[prost(fixed64, repeated, tag = "1")]
    numbers: Vec<u64>,
}

impl FingerprintMessage {
    pub(crate) fn fingerprint(&self) -> Fingerprint {
        let numbers = self.numbers.as_slice().try_into();
        Fingerprint::from_numbers(numbers.expect("it was made above, from as many"))
    }
}

#[cfg(test)]
#[path = "fingerprint_tests.rs"]
mod tests;
