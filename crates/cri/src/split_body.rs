//! Splits a long response into many short ones, or replaces it by a shorter one.
//!
//! A list of all containers is one message, which gRPC buffers completely before decoding: for ten thousand
//! containers it is larger than the rest of the agent. But a sequence of fields of a message is a message too.
//! So received data is split between fields, and a [`Digest`] decides what is passed on.

use std::fmt::Debug;

use prost::bytes::{Bytes, BytesMut};
use tonic::Status;
use tonic::codegen::http::Response;

use crate::rewritten_body::{HEADER, Rewriter, RewrittenBody, message_length, put_message};
use crate::wire::{length, whole_fields};

/// Replaces a message.
pub(crate) trait Digest: Debug + Send {
    /// Takes consecutive fields of the message, and appends messages to `handed_on`. The call with `last` ends
    /// the message; it may have no fields.
    fn take(&mut self, fields: &[u8], last: bool, handed_on: &mut BytesMut) -> Result<(), Status>;
}

/// Passes everything on.
#[derive(Debug, Default)]
pub(crate) struct PassThrough;

impl Digest for PassThrough {
    fn take(&mut self, fields: &[u8], _: bool, handed_on: &mut BytesMut) -> Result<(), Status> {
        put_message(fields, handed_on);
        Ok(())
    }
}

/// A response that is split.
pub(crate) type SplitBody = RewrittenBody<Splitter>;

/// Splits the response of any method whose fields are repeated.
pub(crate) fn split_response<D: Digest + Default + 'static>(
    answer: Response<tonic::body::Body>,
) -> Response<SplitBody> {
    answer.map(|whole| RewrittenBody::new(whole, Splitter::new(D::default())))
}

/// Splits messages between fields.
#[derive(Debug)]
pub(crate) struct Splitter {
    digest: Box<dyn Digest>,
    /// An incomplete header or field.
    kept: Vec<u8>,
    /// The rest of the current message, including the kept bytes.
    left: usize,
}

impl Splitter {
    fn new(digest: impl Digest + 'static) -> Self {
        Self { digest: Box::new(digest), kept: Vec::new(), left: 0 }
    }

    fn begin_message(&mut self, data: &mut &[u8], parts: &mut BytesMut) -> Result<(), Status> {
        self.keep(HEADER - self.kept.len(), data);
        let Some(length) = message_length(&mut self.kept)? else { return Ok(()) };
        self.left = length;
        if self.left == 0 {
            self.digest.take(&[], true, parts)?;
        }
        Ok(())
    }

    fn take_fields(&mut self, data: &mut &[u8], parts: &mut BytesMut) -> Result<(), Status> {
        let (here, later) = data.split_at(data.len().min(self.left));
        let (fields, begun) = here.split_at(whole_fields(here)?);
        if !fields.is_empty() {
            self.left -= fields.len();
            self.digest.take(fields, self.left == 0, parts)?;
        }
        self.kept.extend_from_slice(begun);
        *data = later;
        self.check_kept()
    }

    fn complete_field(&mut self, data: &mut &[u8], parts: &mut BytesMut) -> Result<(), Status> {
        // The length itself takes a few bytes.
        let missing = length(&self.kept)?.map_or(1, |length| length - self.kept.len());
        self.keep(missing, data);
        if length(&self.kept)? == Some(self.kept.len()) {
            self.left -= self.kept.len();
            self.digest.take(&self.kept, self.left == 0, parts)?;
            self.kept.clear();
        }
        self.check_kept()
    }

    /// Checks that an incomplete field ends within its message.
    fn check_kept(&self) -> Result<(), Status> {
        let least = length(&self.kept)?.unwrap_or(self.kept.len() + 1);
        if self.kept.is_empty() || least <= self.left {
            return Ok(());
        }
        Err(Status::data_loss("the runtime's answer has a field that is longer than its message"))
    }

    fn keep(&mut self, count: usize, data: &mut &[u8]) {
        let (first, rest) = data.split_at(count.min(data.len()));
        self.kept.extend_from_slice(first);
        *data = rest;
    }
}

impl Rewriter for Splitter {
    fn take(&mut self, mut data: &[u8]) -> Result<Bytes, Status> {
        let mut parts = BytesMut::new();
        while !data.is_empty() {
            if self.left == 0 {
                self.begin_message(&mut data, &mut parts)?;
            } else if self.kept.is_empty() {
                self.take_fields(&mut data, &mut parts)?;
            } else {
                self.complete_field(&mut data, &mut parts)?;
            }
        }
        Ok(parts.freeze())
    }

    fn end(&self) -> Result<(), Status> {
        if self.left == 0 && self.kept.is_empty() {
            return Ok(());
        }
        Err(Status::data_loss("the runtime's answer has an end before its end"))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use prost::Message;
    use prost::bytes::{Buf as _, BufMut as _};
    use proto::runtime_v1 as cri;
    use tonic::Code;

    use super::*;
    use crate::client::MESSAGE_LIMIT;

    fn container(number: usize) -> cri::Container {
        cri::Container {
            id: format!("{number:064}"),
            metadata: Some(cri::ContainerMetadata { name: "main".into(), attempt: 3 }),
            created_at: 1 << 40,
            ..Default::default()
        }
    }

    /// A message with its gRPC header.
    fn framed(message: &[u8]) -> Vec<u8> {
        let mut framed = vec![0];
        framed.put_u32(u32::try_from(message.len()).unwrap());
        framed.put_slice(message);
        framed
    }

    fn list(containers: Vec<cri::Container>) -> Vec<u8> {
        framed(&cri::ListContainersResponse { containers }.encode_to_vec())
    }

    /// The passed-on messages, which are complete.
    fn messages(mut parts: &[u8]) -> Vec<cri::ListContainersResponse> {
        let mut messages = Vec::new();
        while !parts.is_empty() {
            assert_eq!(parts.get_u8(), 0);
            let length = parts.get_u32() as usize;
            messages.push(Message::decode(&parts[..length]).unwrap());
            parts.advance(length);
        }
        messages
    }

    proptest! {
        #[test]
        fn parts_are_complete_and_unique_for_any_chunk_sizes(
            lists in prop::collection::vec(0_usize..5, 0..4),
            sizes in prop::collection::vec(1_usize..200, 1..20),
        ) {
            let mut numbers = 0..;
            let next = |count| (&mut numbers).take(count).map(container).collect::<Vec<_>>();
            let lists: Vec<_> = lists.into_iter().map(next).collect();
            let sent: Vec<u8> = lists.iter().cloned().flat_map(list).collect();
            let (mut cut, mut received, mut rest) = (Splitter::new(PassThrough), Vec::new(), &sent[..]);
            for size in sizes.iter().cycle() {
                if rest.is_empty() {
                    break;
                }
                prop_assert_eq!(cut.end().is_ok(), cut.left == 0 && cut.kept.is_empty());
                let (data, later) = rest.split_at((*size).min(rest.len()));
                received.extend(messages(&cut.take(data).unwrap()));
                rest = later;
            }
            cut.end().unwrap();
            prop_assert!(received.len() >= lists.len(), "an empty list is a message too");
            let received: Vec<_> = received.into_iter().flat_map(|part| part.containers).collect();
            prop_assert_eq!(received, lists.concat());
        }

        #[test]
        fn responses_never_cause_a_panic(data in prop::collection::vec(any::<u8>(), 0..200)) {
            let mut cut = Splitter::new(PassThrough);
            for part in framed(&data).chunks(7) {
                if cut.take(part).is_err() {
                    break;
                }
            }
        }
    }

    #[test]
    fn long_responses_need_little_memory() {
        let (mut cut, mut most, mut count) = (Splitter::new(PassThrough), 0, 0);
        for data in list((0..10_000).map(container).collect()).chunks(16 << 10) {
            let parts = cut.take(data).unwrap();
            most = most.max(cut.kept.len());
            count += messages(&parts).iter().map(|part| part.containers.len()).sum::<usize>();
        }
        assert_eq!(count, 10_000);
        assert!(most < 200, "{most} bytes");
    }

    #[test]
    fn truncated_split_body_is_an_error() {
        let whole = list(vec![container(0), container(1)]);
        // After the first entry, and within the second.
        for length in [3, whole.len() / 2 + 3, whole.len() - 1] {
            let mut cut = Splitter::new(PassThrough);
            cut.take(&whole[..length]).unwrap();
            assert_eq!(cut.end().unwrap_err().code(), Code::DataLoss, "{length}");
        }
    }

    #[test]
    fn field_longer_than_its_response_is_an_error() {
        let long = [0x0a, 3, 1, 2];
        let without_end = [0x0a, 0x80];
        for message in [&long[..], &without_end] {
            let sent = [framed(message), framed(message)].concat();
            for size in 1..sent.len() {
                let mut cut = Splitter::new(PassThrough);
                let error = sent.chunks(size).find_map(|data| cut.take(data).err());
                assert_eq!(error.unwrap().code(), Code::DataLoss, "{message:?} by {size}");
            }
        }
    }

    #[test]
    fn oversized_or_compressed_response_is_an_error() {
        let too_long = u32::try_from(MESSAGE_LIMIT).unwrap() + 1;
        let mut cut = Splitter::new(PassThrough);
        let error = cut.take(&[&[0], &too_long.to_be_bytes()[..]].concat()).unwrap_err();
        assert_eq!(error.code(), Code::OutOfRange);
        let error = Splitter::new(PassThrough).take(&[1, 0, 0, 0, 0]).unwrap_err();
        assert_eq!(error.code(), Code::Internal);
    }
}
