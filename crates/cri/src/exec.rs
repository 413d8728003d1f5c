//! Commands in containers. Their output is truncated while it is received: a command may write megabytes, of
//! which only the beginning is needed, and gRPC buffers a complete message before it decodes any of it.

use prost::bytes::{Bytes, BytesMut};
use prost::encoding::encode_varint;
use proto::runtime_v1 as cri;
use tonic::client::Grpc;
use tonic::codegen::http::Response as HttpResponse;
use tonic::codegen::http::uri::PathAndQuery;
use tonic::{Request, Response, Status};
use tonic_prost::ProstCodec;
use tower::ServiceExt as _;

use crate::lists::Lister;
use crate::rewritten_body::{Rewriter, RewrittenBody, message_length, put_message};
use crate::wire::{FieldHeader, WITH_LENGTH, beginning};

/// How much of each output is kept.
const MOST_OF_OUTPUT: usize = 64 << 10;

/// Calls `ExecSync`.
pub(crate) async fn exec_sync(
    service: &mut Lister,
    request: Request<cri::ExecSyncRequest>,
) -> Result<Response<cri::ExecSyncResponse>, Status> {
    let channel = service.0.clone().map_response(shortened as fn(_) -> _);
    let mut grpc = Grpc::new(channel);
    grpc.ready()
        .await
        .map_err(|error| Status::unknown(format!("Service was not ready: {error}")))?;
    let path = PathAndQuery::from_static("/runtime.v1.RuntimeService/ExecSync");
    grpc.unary(request, path, ProstCodec::default()).await
}

fn shortened(answer: HttpResponse<tonic::body::Body>) -> HttpResponse<RewrittenBody<Shortener>> {
    answer.map(|whole| RewrittenBody::new(whole, Shortener::default()))
}

/// Truncates the long fields of messages.
#[derive(Debug, Default)]
struct Shortener {
    /// An incomplete header or field.
    kept: Vec<u8>,
    /// The rest of the message.
    left: usize,
    /// How much of the current field is still kept, and how much after that is dropped.
    copy: usize,
    skip: usize,
    /// The message so far, without the dropped bytes.
    message: Vec<u8>,
}

impl Shortener {
    fn begin_field(&mut self) -> Result<(), Status> {
        let Some(FieldHeader { number, kind, follow, .. }) = beginning(&self.kept)? else {
            return Ok(());
        };
        if follow > self.left {
            return Err(Status::data_loss(
                "the runtime's answer has a field that is longer than its message",
            ));
        }
        self.copy = follow.min(MOST_OF_OUTPUT);
        self.skip = follow - self.copy;
        if kind == WITH_LENGTH {
            encode_varint(number << 3 | kind, &mut self.message);
            encode_varint(self.copy as u64, &mut self.message);
        } else {
            self.message.extend_from_slice(&self.kept);
        }
        self.kept.clear();
        Ok(())
    }
}

impl Rewriter for Shortener {
    fn take(&mut self, mut data: &[u8]) -> Result<Bytes, Status> {
        let mut messages = BytesMut::new();
        while let Some((&byte, rest)) = data.split_first() {
            if self.left == 0 {
                data = rest;
                self.kept.push(byte);
                let Some(length) = message_length(&mut self.kept)? else { continue };
                self.left = length;
            } else if self.copy > 0 {
                let (now, later) = data.split_at(self.copy.min(data.len()));
                self.message.extend_from_slice(now);
                self.copy -= now.len();
                self.left -= now.len();
                data = later;
            } else if self.skip > 0 {
                let (now, later) = data.split_at(self.skip.min(data.len()));
                self.skip -= now.len();
                self.left -= now.len();
                data = later;
            } else {
                data = rest;
                self.kept.push(byte);
                self.left -= 1;
                self.begin_field()?;
            }
            if self.left == 0 {
                self.end()?;
                put_message(&std::mem::take(&mut self.message), &mut messages);
            }
        }
        Ok(messages.freeze())
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
    use prost::Message as _;
    use tonic::Code;

    use super::*;
    use crate::rewritten_body::HEADER;

    fn response(stdout: usize, stderr: usize, exit_code: i32) -> cri::ExecSyncResponse {
        let text = |length: usize| (0..=250).cycle().take(length).collect();
        cri::ExecSyncResponse { stdout: text(stdout), stderr: text(stderr), exit_code }
    }

    /// The truncated form of a response that arrives in pieces of this length.
    fn shortened_by(response: &cri::ExecSyncResponse, piece: usize) -> cri::ExecSyncResponse {
        let mut sent = BytesMut::new();
        put_message(&response.encode_to_vec(), &mut sent);
        let (mut cut, mut messages) = (Shortener::default(), Vec::new());
        for piece in sent.chunks(piece) {
            messages.extend(cut.take(piece).unwrap());
        }
        cut.end().unwrap();
        assert_eq!(
            messages.len() - HEADER,
            messages[1..HEADER].iter().fold(0, |all, byte| all << 8 | usize::from(*byte))
        );
        cri::ExecSyncResponse::decode(&messages[HEADER..]).unwrap()
    }

    #[test]
    fn outputs_are_cut_at_64_kib_for_any_chunk_sizes() {
        let most = MOST_OF_OUTPUT;
        for (stdout, stderr, code) in
            [(0, 0, 0), (3, 0, 1), (most, most, 3), (most + 1, 5, 3), (200_000, 300_000, -1)]
        {
            for piece in [1, 7, 1000, 1 << 20] {
                let expected = response(stdout.min(most), stderr.min(most), code);
                let seen = shortened_by(&response(stdout, stderr, code), piece);
                assert!(seen == expected, "{stdout} {stderr} {piece}");
            }
        }
    }

    #[test]
    fn field_longer_than_its_message_is_an_error() {
        let mut cut = Shortener::default();
        // A message of five bytes with a field of a hundred.
        let error = cut.take(&[0, 0, 0, 0, 5, 0x0a, 100, 1, 2, 3]).unwrap_err();
        assert_eq!(error.code(), Code::DataLoss);
        let mut cut = Shortener::default();
        cut.take(&[0, 0, 0, 0, 5, 0x0a, 3, 1]).unwrap();
        assert_eq!(cut.end().unwrap_err().code(), Code::DataLoss);
    }
}
