//! A long answer as many short ones.
//!
//! A list of all containers is one message, of which gRPC has to have all before it decodes any: with some
//! ten thousand of them more than the rest of the agent. But fields of a message that follow one another
//! are messages too. So what has come of one is handed on as a message of its own, cut between fields.

use std::pin::Pin;
use std::task::{Context, Poll, ready};

use http_body::{Body, Frame};
use prost::bytes::{Buf as _, BufMut as _, Bytes, BytesMut};
use prost::encoding::decode_varint;
use tonic::codegen::http::Response;
use tonic::{Code, Status};

use crate::client::MESSAGE_LIMIT;

/// A compression flag and a length.
const HEADER: usize = 5;

/// How a field is written.
const VARINT: u64 = 0;
const EIGHT_BYTES: u64 = 1;
const WITH_LENGTH: u64 = 2;
const FOUR_BYTES: u64 = 5;

/// An answer that comes in parts.
#[derive(Debug)]
pub(crate) struct Parted {
    whole: tonic::body::Body,
    cut: Cut,
}

/// For an answer of whatever method whose fields are repeated.
pub(crate) fn parted(answer: Response<tonic::body::Body>) -> Response<Parted> {
    answer.map(|whole| Parted { whole, cut: Cut::default() })
}

impl Body for Parted {
    type Data = Bytes;
    type Error = Status;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
        loop {
            let Some(frame) = ready!(Pin::new(&mut self.whole).poll_frame(context)?) else {
                return Poll::Ready(self.cut.end().err().map(Err));
            };
            match frame.into_data() {
                Ok(data) => {
                    let parts = self.cut.parts(&data)?;
                    if !parts.is_empty() {
                        return Poll::Ready(Some(Ok(Frame::data(parts))));
                    }
                }
                Err(frame) => {
                    // An answer that failed half-way says so itself.
                    let status = frame.trailers_ref().and_then(Status::from_header_map);
                    if status.is_none_or(|status| status.code() == Code::Ok) {
                        self.cut.end()?;
                    }
                    return Poll::Ready(Some(Ok(frame)));
                }
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        self.whole.is_end_stream() && self.cut.end().is_ok()
    }
}

/// Cuts messages between their fields.
#[derive(Debug, Default)]
struct Cut {
    /// What came and is not handed on.
    kept: BytesMut,
    /// How much is to come of the message that is being cut, with what is kept.
    left: usize,
}

impl Cut {
    /// Takes in what came, and gives all that can be handed on: whole messages.
    fn parts(&mut self, data: &[u8]) -> Result<Bytes, Status> {
        self.kept.extend_from_slice(data);
        let mut parts = BytesMut::with_capacity(self.kept.len() + HEADER);
        loop {
            if self.left == 0 {
                let Some((&header, _)) = self.kept.split_first_chunk::<HEADER>() else { break };
                let [flag, length @ ..] = header;
                if flag != 0 {
                    return Err(Status::internal("a compressed answer, which nobody asked for"));
                }
                self.kept.advance(HEADER);
                self.left = u32::from_be_bytes(length) as usize;
                if self.left > MESSAGE_LIMIT {
                    let (left, most) = (self.left, MESSAGE_LIMIT);
                    return Err(Status::out_of_range(format!("{left} bytes, more than {most}")));
                }
                if self.left == 0 {
                    parts.put_slice(&header);
                    continue;
                }
            }
            let end = whole_fields(&self.kept[..self.kept.len().min(self.left)])?;
            if end == 0 {
                break;
            }
            let length =
                u32::try_from(end).expect("no longer than the message, whose length is one");
            parts.put_u8(0);
            parts.put_u32(length);
            parts.put(self.kept.split_to(end));
            self.left -= end;
        }
        Ok(parts.freeze())
    }

    /// Nothing more comes. Half a list must not look like a whole one.
    fn end(&self) -> Result<(), Status> {
        if self.left == 0 && self.kept.is_empty() {
            return Ok(());
        }
        Err(Status::data_loss("the runtime's answer has an end before its end"))
    }
}

/// How long the fields are that are there as a whole.
fn whole_fields(data: &[u8]) -> Result<usize, Status> {
    let mut end = 0;
    while let Some(length) = field(&data[end..])? {
        end += length;
    }
    Ok(end)
}

/// How long the first field is; `None` when there is only a part of it.
fn field(data: &[u8]) -> Result<Option<usize>, Status> {
    let mut rest = data;
    let Some(key) = varint(&mut rest)? else { return Ok(None) };
    let value = match key & 7 {
        VARINT => {
            if varint(&mut rest)?.is_none() {
                return Ok(None);
            }
            0
        }
        EIGHT_BYTES => 8,
        FOUR_BYTES => 4,
        WITH_LENGTH => match varint(&mut rest)? {
            Some(length) => usize::try_from(length).unwrap_or(usize::MAX),
            None => return Ok(None),
        },
        kind => return Err(malformed(&format!("a field of the unknown kind {kind}"))),
    };
    let whole = (data.len() - rest.len()).saturating_add(value);
    Ok((whole <= data.len()).then_some(whole))
}

/// A number; `None` when there is only a part of it.
fn varint(data: &mut &[u8]) -> Result<Option<u64>, Status> {
    const LONGEST: usize = 10;
    let whole = data.iter().take(LONGEST).any(|byte| byte & 0x80 == 0);
    if !whole && data.len() < LONGEST {
        return Ok(None);
    }
    decode_varint(data).map(Some).map_err(|error| malformed(&format!("a fault: {error}")))
}

fn malformed(error: &dyn std::fmt::Display) -> Status {
    Status::internal(format!("the runtime's answer has {error}"))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use prost::Message;
    use proto::runtime_v1 as cri;

    use super::*;

    fn container(number: usize) -> cri::Container {
        cri::Container {
            id: format!("{number:064}"),
            metadata: Some(cri::ContainerMetadata { name: "main".into(), attempt: 3 }),
            created_at: 1 << 40,
            ..Default::default()
        }
    }

    /// A message as gRPC sends it.
    fn framed(message: &[u8]) -> Vec<u8> {
        let mut framed = vec![0];
        framed.put_u32(u32::try_from(message.len()).unwrap());
        framed.put_slice(message);
        framed
    }

    fn list(containers: Vec<cri::Container>) -> Vec<u8> {
        framed(&cri::ListContainersResponse { containers }.encode_to_vec())
    }

    /// The messages in what was handed on, which has no part of one.
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
        fn nothing_is_lost_or_comes_twice_however_an_answer_comes(
            lists in prop::collection::vec(0_usize..5, 0..4),
            sizes in prop::collection::vec(1_usize..200, 1..20),
        ) {
            let mut numbers = 0..;
            let next = |count| (&mut numbers).take(count).map(container).collect::<Vec<_>>();
            let lists: Vec<_> = lists.into_iter().map(next).collect();
            let sent: Vec<u8> = lists.iter().cloned().flat_map(list).collect();
            let (mut cut, mut received, mut rest) = (Cut::default(), Vec::new(), &sent[..]);
            for size in sizes.iter().cycle() {
                if rest.is_empty() {
                    break;
                }
                prop_assert_eq!(cut.end().is_ok(), cut.left == 0 && cut.kept.is_empty());
                let (data, later) = rest.split_at((*size).min(rest.len()));
                received.extend(messages(&cut.parts(data).unwrap()));
                rest = later;
            }
            cut.end().unwrap();
            prop_assert!(received.len() >= lists.len(), "an empty list is a message too");
            let received: Vec<_> = received.into_iter().flat_map(|part| part.containers).collect();
            prop_assert_eq!(received, lists.concat());
        }

        #[test]
        fn no_answer_makes_it_panic(data in prop::collection::vec(any::<u8>(), 0..200)) {
            let mut cut = Cut::default();
            for part in framed(&data).chunks(7) {
                if cut.parts(part).is_err() {
                    break;
                }
            }
        }
    }

    #[test]
    fn little_of_a_long_answer_is_kept() {
        let (mut cut, mut most, mut count) = (Cut::default(), 0, 0);
        for data in list((0..10_000).map(container).collect()).chunks(16 << 10) {
            let parts = cut.parts(data).unwrap();
            most = most.max(cut.kept.len());
            count += messages(&parts).iter().map(|part| part.containers.len()).sum::<usize>();
        }
        assert_eq!(count, 10_000);
        assert!(most < 200, "{most} bytes");
    }

    #[test]
    fn half_an_answer_is_an_error() {
        let whole = list(vec![container(0), container(1)]);
        // After the first entry, and within the second.
        for length in [3, whole.len() / 2 + 3, whole.len() - 1] {
            let mut cut = Cut::default();
            cut.parts(&whole[..length]).unwrap();
            assert_eq!(cut.end().unwrap_err().code(), Code::DataLoss, "{length}");
        }
    }

    #[test]
    fn fields_of_all_kinds_are_told_apart_and_what_is_none_is_an_error() {
        let fields = [8, 0x96, 1, 0x11, 1, 2, 3, 4, 5, 6, 7, 8, 0x1a, 2, 1, 1, 0x25, 1, 2, 3, 4];
        let ends = [3, 12, 16, 21];
        for length in 0..=fields.len() {
            let end = ends.iter().rev().find(|end| **end <= length).copied().unwrap_or(0);
            assert_eq!(whole_fields(&fields[..length]).unwrap(), end, "{length}");
        }
        for wrong in [&[0x0b, 1][..], &[0xff; 11]] {
            assert_eq!(whole_fields(wrong).unwrap_err().code(), Code::Internal, "{wrong:?}");
        }
        let too_long = u32::try_from(MESSAGE_LIMIT).unwrap() + 1;
        let mut cut = Cut::default();
        let error = cut.parts(&[&[0], &too_long.to_be_bytes()[..]].concat()).unwrap_err();
        assert_eq!(error.code(), Code::OutOfRange);
        let error = Cut::default().parts(&[1, 0, 0, 0, 0]).unwrap_err();
        assert_eq!(error.code(), Code::Internal);
    }
}
