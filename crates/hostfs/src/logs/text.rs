//! From the bytes of a log file to the text that the container wrote.
//!
//! Works on pieces of any size and keeps no line in memory: a line's content goes out as it comes.

use jiff::Timestamp;
use model::ports::logs::{LogRequest, LogStream};

use super::line::{Header, LONGEST_HEADER, header_length, parse};

/// The way from bytes to text, and how far it has come.
#[derive(Debug)]
pub(super) struct Text {
    since: Option<Timestamp>,
    timestamps: bool,
    stream: LogStream,
    /// How many bytes may still go out.
    left: Option<u64>,
    state: State,
    /// Whether the text so far ends with a whole line: only there a time is shown.
    at_line_start: bool,
}

#[derive(Debug)]
enum State {
    /// At the beginning of a line; what is there of it.
    Header(Vec<u8>),
    /// In the content of a line that is shown.
    Content { partial: bool },
    /// In a line that is not shown: it is too old, or damaged.
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

    /// Whether as much went out as was asked for.
    pub(super) fn is_full(&self) -> bool {
        self.left == Some(0)
    }

    /// Takes the next bytes of the file and gives the text that they are.
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

    /// The file ended in the middle of a line, and another one begins.
    pub(super) fn restart(&mut self) -> Vec<u8> {
        let mut text = Vec::new();
        self.end_line(&mut text);
        text
    }

    /// Takes bytes of one line.
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

    /// Whether a line is of the requested stream and time.
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
