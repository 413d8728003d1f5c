//! Converts bytes of a log file to the text of the container.
//!
//! Works on chunks of any size without buffering lines.

use jiff::Timestamp;
use model::ports::logs::{LogRequest, LogStream};

use super::line::{Header, LONGEST_HEADER, header_length, parse};

/// The state of the conversion.
#[derive(Debug)]
pub(super) struct Text {
    since: Option<Timestamp>,
    timestamps: bool,
    stream: LogStream,
    /// The remaining byte limit.
    left: Option<u64>,
    state: State,
    /// Whether the output ends with a complete line: only there a timestamp is written.
    at_line_start: bool,
}

#[derive(Debug)]
enum State {
    /// In the header of a line; its bytes so far.
    Header(Vec<u8>),
    /// In the content of a line that is shown.
    Content { partial: bool },
    /// In a line that is not shown: too old or damaged.
    Skipped,
}

impl Text {
    pub(super) fn new(request: &LogRequest) -> Self {
        Self {
            since: request.since,
            timestamps: request.timestamps,
            stream: request.stream,
            left: request.limit_bytes,
            state: State::Header(Vec::new()),
            at_line_start: true,
        }
    }

    /// Whether the byte limit is reached.
    pub(super) fn is_full(&self) -> bool {
        self.left == Some(0)
    }

    /// Converts the next bytes of the file.
    pub(super) fn push(&mut self, mut bytes: &[u8]) -> Vec<u8> {
        let mut text = Vec::with_capacity(bytes.len());
        while !bytes.is_empty() && !self.is_full() {
            let line_end = bytes.iter().position(|byte| *byte == b'\n');
            let (piece, rest) = bytes.split_at(line_end.unwrap_or(bytes.len()));
            self.piece(piece, &mut text);
            bytes = rest;
            if line_end.is_some() {
                self.end_line(&mut text);
                bytes = &rest[1..];
            }
        }
        text
    }

    /// The file ended within a line, and another file begins.
    pub(super) fn restart(&mut self) -> Vec<u8> {
        let mut text = Vec::new();
        self.end_line(&mut text);
        text
    }

    /// Converts bytes of one line.
    fn piece(&mut self, piece: &[u8], text: &mut Vec<u8>) {
        match &mut self.state {
            State::Skipped => {}
            State::Content { .. } => self.put(piece, text),
            State::Header(header) => {
                let room = LONGEST_HEADER - header.len();
                let known = header.len();
                header.extend_from_slice(&piece[..piece.len().min(room)]);
                let Some(length) = header_length(header) else {
                    if piece.len() > room {
                        self.state = State::Skipped;
                    }
                    return;
                };
                header.truncate(length);
                let header = std::mem::take(header);
                self.begin_content(&header, text);
                self.piece(&piece[length - known..], text);
            }
        }
    }

    fn begin_content(&mut self, header: &[u8], text: &mut Vec<u8>) {
        let Some(header) = parse(header).filter(|header| self.shows(header)) else {
            self.state = State::Skipped;
            return;
        };
        if self.timestamps && self.at_line_start {
            self.put(header.shown_time.as_bytes(), text);
            self.put(b" ", text);
        }
        self.at_line_start = false;
        self.state = State::Content { partial: header.partial };
    }

    /// Whether a line matches the requested stream and time.
    fn shows(&self, header: &Header) -> bool {
        let is_recent = self.since.is_none_or(|since| header.time >= since);
        is_recent && (self.stream == LogStream::All || self.stream == header.stream)
    }

    fn end_line(&mut self, text: &mut Vec<u8>) {
        if let State::Content { partial: false } = self.state {
            self.put(b"\n", text);
            self.at_line_start = true;
        }
        self.state = State::Header(Vec::new());
    }

    fn put(&mut self, bytes: &[u8], text: &mut Vec<u8>) {
        let fits = match &mut self.left {
            None => bytes.len(),
            Some(left) => {
                let fits = usize::try_from(*left).map_or(bytes.len(), |left| left.min(bytes.len()));
                *left -= fits as u64;
                fits
            }
        };
        text.extend_from_slice(&bytes[..fits]);
    }
}

#[cfg(test)]
#[path = "text_tests.rs"]
mod tests;
