//! Reads a streaming body line by line.

use std::time::Duration;

use http_body_util::BodyExt as _;
use hyper::body::Bytes;
use kube::client::Body;
use model::ports::cluster::ApiError;
use tokio::time::timeout;
use tower::BoxError;

/// The longest line: the store behind the server limits objects to a few megabytes.
const LONGEST_LINE: usize = 32 << 20;
/// The buffer size that is kept for the next line.
const KEPT: usize = 64 << 10;

/// The lines of a body.
#[derive(Debug)]
pub(crate) struct Lines<B = Body> {
    body: B,
    /// The timeout without data.
    patience: Duration,
    buffer: Vec<u8>,
    /// The start of the next line.
    start: usize,
    /// Up to here there is no line end.
    searched: usize,
}

impl<B> Lines<B>
where
    B: hyper::body::Body<Data = Bytes> + Unpin,
    B::Error: Into<BoxError>,
{
    pub(crate) fn new(body: B, patience: Duration) -> Self {
        Self { body, patience, buffer: Vec::new(), start: 0, searched: 0 }
    }

    /// Waits for the next line; `None` when the body has ended. An incomplete last line is
    /// dropped.
    pub(crate) async fn next(&mut self) -> Result<Option<&[u8]>, ApiError> {
        loop {
            let found = self.buffer[self.searched..].iter().position(|byte| *byte == b'\n');
            if let Some(length) = found {
                let (start, end) = (self.start, self.searched + length);
                (self.start, self.searched) = (end + 1, end + 1);
                return Ok(Some(&self.buffer[start..end]));
            }
            self.make_room();
            if self.buffer.len() > LONGEST_LINE {
                return Err(ApiError::Unreadable("a line is too long".into()));
            }
            let frame = timeout(self.patience, self.body.frame()).await;
            let frame = frame.map_err(|_| ApiError::TooSlow(self.patience))?;
            let Some(frame) = frame else { return Ok(None) };
            let frame = frame.map_err(|error| ApiError::Unreachable(error.into()))?;
            if let Some(bytes) = frame.data_ref() {
                self.buffer.extend_from_slice(bytes);
            }
        }
    }

    /// Drops the lines that were returned.
    fn make_room(&mut self) {
        self.buffer.drain(..self.start);
        if self.buffer.capacity() > KEPT && self.buffer.len() < KEPT / 2 {
            self.buffer.shrink_to(KEPT);
        }
        (self.start, self.searched) = (0, self.buffer.len());
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;
    use std::pin::Pin;
    use std::task::{Context, Poll};

    use hyper::body::Frame;
    use tokio::time::Instant;

    use super::*;

    /// A body without data and without an end.
    struct PendingBody;

    impl hyper::body::Body for PendingBody {
        type Data = Bytes;
        type Error = Infallible;

        fn poll_frame(
            self: Pin<&mut Self>,
            _: &mut Context<'_>,
        ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
            Poll::Pending
        }
    }

    // behaviour: API-32
    #[tokio::test(start_paused = true)]
    async fn body_without_data_times_out() {
        let patience = Duration::from_mins(5);
        let mut lines = Lines::new(PendingBody, patience);
        let begin = Instant::now();
        assert!(matches!(lines.next().await, Err(ApiError::TooSlow(_))));
        assert_eq!(begin.elapsed(), patience);
    }

    async fn lines(text: &str) -> Vec<String> {
        let mut lines = Lines::new(Body::from(text.as_bytes().to_vec()), Duration::from_secs(1));
        let mut returned = Vec::new();
        while let Some(line) = lines.next().await.unwrap() {
            returned.push(String::from_utf8(line.to_vec()).unwrap());
        }
        returned
    }

    #[tokio::test]
    async fn lines_are_returned_one_by_one_without_an_incomplete_last_one() {
        assert_eq!(lines("a\nbc\n\nd\n").await, ["a", "bc", "", "d"]);
        assert_eq!(lines("a\nb").await, ["a"]);
        assert_eq!(lines("").await, [""; 0]);
    }
}
