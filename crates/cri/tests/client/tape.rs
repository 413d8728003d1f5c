//! The answer of a streaming method, which a test writes while the client reads.

use std::sync::Arc;

use futures_util::StreamExt;
use futures_util::stream::{self, BoxStream};
use prost::Message;
use prost::bytes::Bytes;
use tokio::sync::watch;
use tonic::{Code, Response, Status};

use crate::server::Handling;

/// The messages so far. Every call of the method reads from the beginning.
#[derive(Debug, Clone, Default)]
pub(crate) struct Tape(Arc<watch::Sender<Written>>);

#[derive(Debug, Default)]
struct Written {
    /// Whether the header is sent before the first message. Go servers do not do that.
    header: bool,
    messages: Vec<Bytes>,
    end: Option<Result<(), (Code, String)>>,
}

impl Tape {
    pub(crate) fn header(&self) {
        self.0.send_modify(|written| written.header = true);
    }

    pub(crate) fn message(&self, message: &impl Message) {
        self.0.send_modify(|written| written.messages.push(message.encode_to_vec().into()));
    }

    pub(crate) fn end(&self) {
        self.0.send_modify(|written| written.end = Some(Ok(())));
    }

    pub(crate) fn fail(&self, code: Code, message: &str) {
        self.0.send_modify(|written| written.end = Some(Err((code, message.to_owned()))));
    }
}

pub(crate) async fn play(
    tape: Tape,
    handling: Handling,
) -> Result<Response<BoxStream<'static, Result<Bytes, Status>>>, Status> {
    let mut written = tape.0.subscribe();
    let begun =
        |written: &Written| written.header || !written.messages.is_empty() || written.end.is_some();
    written.wait_for(begun).await.expect("the tape is held here");
    // Each item keeps the tape: without it, no more messages could be sent.
    let state = (tape, written, 0, handling);
    let messages = stream::unfold(state, |(tape, mut written, position, handling)| async move {
        let more = |written: &Written| written.messages.len() > position || written.end.is_some();
        let next = {
            let now = written.wait_for(more).await.expect("the tape is held here");
            now.messages.get(position).cloned().map_or_else(|| Err(now.end.clone()), Ok)
        };
        match next {
            Ok(message) => Some((Ok(message), (tape, written, position + 1, handling))),
            Err(Some(Err((code, message)))) => {
                Some((Err(Status::new(code, message)), (tape, written, position, handling)))
            }
            Err(_) => {
                handling.done();
                None
            }
        }
    });
    Ok(Response::new(messages.boxed()))
}
