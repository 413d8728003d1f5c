//! A response body that is changed while it is received, before gRPC decodes it.

use std::fmt::Debug;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use http_body::{Body, Frame};
use prost::bytes::{BufMut as _, Bytes, BytesMut};
use tonic::{Code, Status};

use crate::client::MESSAGE_LIMIT;

/// The gRPC header: a compression flag and a length.
pub(crate) const HEADER: usize = 5;

/// Changes the messages of a response.
pub(crate) trait Rewriter: Debug + Send + Unpin {
    /// Takes received data of any length, and returns complete messages.
    fn take(&mut self, data: &[u8]) -> Result<Bytes, Status>;

    /// The end of the body: an error if a message is incomplete. A truncated list must not look complete.
    fn end(&self) -> Result<(), Status>;
}

/// The length of the next message, once its header is complete; clears the kept bytes then.
pub(crate) fn message_length(kept: &mut Vec<u8>) -> Result<Option<usize>, Status> {
    let Some((&[flag, length @ ..], _)) = kept.split_first_chunk::<HEADER>() else {
        return Ok(None);
    };
    kept.clear();
    if flag != 0 {
        return Err(Status::internal("unexpected compressed answer"));
    }
    let length = u32::from_be_bytes(length) as usize;
    if length > MESSAGE_LIMIT {
        return Err(Status::out_of_range(format!("{length} bytes, more than {MESSAGE_LIMIT}")));
    }
    Ok(Some(length))
}

/// A changed response.
#[derive(Debug)]
pub(crate) struct RewrittenBody<R> {
    whole: tonic::body::Body,
    rewriter: R,
}

impl<R: Rewriter> RewrittenBody<R> {
    pub(crate) fn new(whole: tonic::body::Body, rewriter: R) -> Self {
        Self { whole, rewriter }
    }
}

impl<R: Rewriter> Body for RewrittenBody<R> {
    type Data = Bytes;
    type Error = Status;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
        loop {
            let Some(frame) = ready!(Pin::new(&mut self.whole).poll_frame(context)?) else {
                return Poll::Ready(self.rewriter.end().err().map(Err));
            };
            match frame.into_data() {
                Ok(data) => {
                    let messages = self.rewriter.take(&data)?;
                    if !messages.is_empty() {
                        return Poll::Ready(Some(Ok(Frame::data(messages))));
                    }
                }
                Err(frame) => {
                    // A response that failed midway has its own error.
                    let status = frame.trailers_ref().and_then(Status::from_header_map);
                    if status.is_none_or(|status| status.code() == Code::Ok) {
                        self.rewriter.end()?;
                    }
                    return Poll::Ready(Some(Ok(frame)));
                }
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        self.whole.is_end_stream() && self.rewriter.end().is_ok()
    }
}

/// Appends a message with its gRPC header.
pub(crate) fn put_message(message: &[u8], messages: &mut BytesMut) {
    let length = u32::try_from(message.len())
        .expect("no longer than the received message, whose length fits");
    messages.reserve(HEADER + message.len());
    messages.put_u8(0);
    messages.put_u32(length);
    messages.put_slice(message);
}
