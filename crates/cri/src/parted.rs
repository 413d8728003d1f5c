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
        Err(malformed(&"an end before its end"))
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
    Status::data_loss(format!("the runtime's answer has {error}"))
}
