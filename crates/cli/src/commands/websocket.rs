//! The client side of `WebSocket`s with Kubernetes' channels (`v4.channel.k8s.io`): each message is binary, and its
//! first byte is the channel.
//!
//! Frames of a client have a mask, which protects caches on the way that take payloads for requests. A
//! local socket has no caches, so the mask is zero.

/// The subprotocol.
pub(crate) const PROTOCOL: &str = "v4.channel.k8s.io";

/// The key of the handshake. The response to it only proves that the server supports the protocol.
pub(crate) const KEY: &str = "ZmVycm9sZXQgbG9jYWwgMQ==";

/// The longest message that is received.
const LONGEST: usize = 64 << 20;

const CONTINUATION: u8 = 0;
const TEXT: u8 = 1;
const BINARY: u8 = 2;
const CLOSE: u8 = 8;
const PING: u8 = 9;
const PONG: u8 = 10;

/// The flag of the last frame of a message, and the flag of a masked frame.
const LAST: u8 = 0x80;
const MASKED: u8 = 0x80;
/// The length of the payload is in the next two, or eight, bytes.
const LENGTH_16: u8 = 0x7e;
const LENGTH_64: u8 = 0x7f;

/// A message of the server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Message {
    /// Bytes of a channel.
    Channel(u8, Vec<u8>),
    /// A ping, to be answered with [`pong`].
    Ping(Vec<u8>),
    /// The server closes the connection.
    Close,
}

/// Why the connection cannot be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(crate) enum FrameError {
    #[error("the server sent a WebSocket frame that the protocol does not allow")]
    Malformed,
    #[error("the server sent a WebSocket message of more than {LONGEST} bytes")]
    TooLong,
}

/// A message on a channel.
pub(crate) fn message(channel: u8, bytes: &[u8]) -> Vec<u8> {
    frame(BINARY, &[&[channel][..], bytes].concat())
}

/// The answer to a ping.
pub(crate) fn pong(payload: &[u8]) -> Vec<u8> {
    frame(PONG, payload)
}

/// The close frame.
pub(crate) fn close() -> Vec<u8> {
    frame(CLOSE, &[])
}

fn frame(opcode: u8, payload: &[u8]) -> Vec<u8> {
    let mut frame = vec![LAST | opcode];
    match payload.len() {
        short @ 0..=125 => frame.push(MASKED | u8::try_from(short).expect("it is less than 126")),
        middle @ 126..=0xffff => {
            frame.push(MASKED | LENGTH_16);
            frame.extend(u16::try_from(middle).expect("it has two bytes").to_be_bytes());
        }
        long => {
            frame.push(MASKED | LENGTH_64);
            frame.extend((long as u64).to_be_bytes());
        }
    }
    frame.extend([0; 4]);
    frame.extend_from_slice(payload);
    frame
}

/// Decodes the frames of a server.
#[derive(Debug, Default)]
pub(crate) struct Decoder {
    buffer: Vec<u8>,
    /// The frames of an incomplete message.
    begun: Option<Vec<u8>>,
}

impl Decoder {
    /// Adds received bytes.
    pub(crate) fn push(&mut self, bytes: &[u8]) {
        self.buffer.extend_from_slice(bytes);
    }

    /// The next message, if it was received completely.
    pub(crate) fn next(&mut self) -> Result<Option<Message>, FrameError> {
        while let Some((first, payload)) = self.frame()? {
            let (opcode, is_last) = (first & 0x0f, first & LAST != 0);
            match opcode {
                PING => return Ok(Some(Message::Ping(payload))),
                CLOSE => return Ok(Some(Message::Close)),
                PONG => {}
                BINARY | TEXT if self.begun.is_none() => self.begun = Some(payload),
                CONTINUATION => match &mut self.begun {
                    Some(begun) if begun.len() + payload.len() <= LONGEST => begun.extend(payload),
                    Some(_) => return Err(FrameError::TooLong),
                    None => return Err(FrameError::Malformed),
                },
                _ => return Err(FrameError::Malformed),
            }
            if opcode < CLOSE && is_last {
                let message = self.begun.take().unwrap_or_default();
                if let Some((channel, bytes)) = message.split_first() {
                    return Ok(Some(Message::Channel(*channel, bytes.to_vec())));
                }
            }
        }
        Ok(None)
    }

    /// The next frame: its first byte and its payload.
    fn frame(&mut self) -> Result<Option<(u8, Vec<u8>)>, FrameError> {
        let [first, second, rest @ ..] = &self.buffer[..] else { return Ok(None) };
        if first & 0x70 != 0 || second & MASKED != 0 {
            return Err(FrameError::Malformed);
        }
        let (length, header) = match *second {
            LENGTH_16 => match rest.first_chunk::<2>() {
                Some(bytes) => (u64::from(u16::from_be_bytes(*bytes)), 4),
                None => return Ok(None),
            },
            LENGTH_64 => match rest.first_chunk::<8>() {
                Some(bytes) => (u64::from_be_bytes(*bytes), 10),
                None => return Ok(None),
            },
            length => (u64::from(length), 2),
        };
        let length = usize::try_from(length).ok().filter(|length| *length <= LONGEST);
        let length = length.ok_or(FrameError::TooLong)?;
        if self.buffer.len() < header + length {
            return Ok(None);
        }
        let first = *first;
        let payload = self.buffer[header..header + length].to_vec();
        self.buffer.drain(..header + length);
        Ok(Some((first, payload)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A frame as a server writes it.
    fn of_server(first: u8, payload: &[u8]) -> Vec<u8> {
        let mut bytes = frame(first & 0x0f, payload);
        bytes[0] = first;
        let header = bytes.len() - payload.len();
        bytes[1] &= !MASKED;
        bytes.drain(header - 4..header);
        bytes
    }

    fn decoded(bytes: &[u8], piece: usize) -> Result<Vec<Message>, FrameError> {
        let mut decoder = Decoder::default();
        let mut messages = Vec::new();
        for piece in bytes.chunks(piece) {
            decoder.push(piece);
            while let Some(message) = decoder.next()? {
                messages.push(message);
            }
        }
        Ok(messages)
    }

    #[test]
    fn messages_are_decoded_from_any_fragmentation() {
        let long = vec![b'x'; 70_000];
        let bytes = [
            of_server(LAST | BINARY, b"\x01out"),
            of_server(LAST | BINARY, &[]),
            of_server(LAST | PING, b"hi"),
            of_server(BINARY, b"\x02fir"),
            of_server(LAST | PONG, b""),
            of_server(CONTINUATION, b"st"),
            of_server(LAST | CONTINUATION, b"!"),
            of_server(LAST | BINARY, &[&[3][..], &long[..200]].concat()),
            of_server(LAST | BINARY, &[&[1][..], &long[..]].concat()),
            of_server(LAST | CLOSE, &[3, 0xe8]),
        ]
        .concat();
        let expected = [
            Message::Channel(1, b"out".to_vec()),
            Message::Ping(b"hi".to_vec()),
            Message::Channel(2, b"first!".to_vec()),
            Message::Channel(3, long[..200].to_vec()),
            Message::Channel(1, long),
            Message::Close,
        ];
        for piece in [1, 7, bytes.len()] {
            assert_eq!(decoded(&bytes, piece).unwrap(), expected, "in pieces of {piece}");
        }
    }

    #[test]
    fn malformed_frames_are_refused() {
        let rows: [(&[u8], FrameError); 5] = [
            (&[LAST | 3, 0], FrameError::Malformed),
            (&[LAST | CONTINUATION, 0], FrameError::Malformed),
            (&[LAST | 0x40 | BINARY, 0], FrameError::Malformed),
            (&message(0, b"x"), FrameError::Malformed),
            (&[LAST | BINARY, LENGTH_64, 0, 0, 1, 0, 0, 0, 0, 0], FrameError::TooLong),
        ];
        for (bytes, expected) in rows {
            assert_eq!(decoded(bytes, bytes.len()), Err(expected), "{bytes:?}");
        }
    }

    #[test]
    fn client_frames_are_masked() {
        assert_eq!(message(4, b"ab"), [0x82, 0x83, 0, 0, 0, 0, 4, b'a', b'b']);
        assert_eq!(message(0, &[7; 300])[..4], [0x82, 0x80 | LENGTH_16, 1, 45]);
        assert_eq!(message(0, &vec![7; 70_000])[..4], [0x82, 0x80 | LENGTH_64, 0, 0]);
        assert_eq!(close(), [0x88, 0x80, 0, 0, 0, 0]);
    }
}
