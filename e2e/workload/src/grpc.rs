//! A gRPC server that is always healthy: it responds to every call like `grpc.health.v1.Health/Check`, over
//! plain HTTP/2.
//!
//! A server library would be larger than the whole program. A health check needs few frames, and the answer never
//! depends on the request.

use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::process::exit;
use std::thread;
use std::time::Duration;

use crate::wait;

/// How long a client may take for its next frame.
const PATIENCE: Duration = Duration::from_mins(1);

/// The first bytes of a client.
const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
/// The longest frame without other settings.
const LONGEST: usize = 16 << 10;

const DATA: u8 = 0;
const HEADERS: u8 = 1;
const SETTINGS: u8 = 4;
const PING: u8 = 6;
const GOAWAY: u8 = 7;

/// Of `DATA` and `HEADERS`; of `SETTINGS` and `PING` it is the acknowledgement.
const END_STREAM: u8 = 1;
const ACK: u8 = 1;
const END_HEADERS: u8 = 4;

/// `:status: 200` and `content-type: application/grpc`, as HPACK without a dynamic table.
const RESPONSE: &[u8] = b"\x88\x0f\x10\x10application/grpc";
/// A message of two bytes, not compressed: `HealthCheckResponse { status: SERVING }`.
const SERVING: &[u8] = &[0, 0, 0, 0, 2, 8, 1];
/// `grpc-status: 0`.
const TRAILERS: &[u8] = b"\x00\x0bgrpc-status\x010";

/// Answers every call until a signal ends it.
pub(crate) fn run(port: u16) -> io::Result<i32> {
    let listener = TcpListener::bind((Ipv4Addr::UNSPECIFIED, port))?;
    // A separate thread waits for the signal: accepting a connection blocks.
    thread::spawn(|| exit(wait::sleep(None, 0).unwrap_or(1)));
    writeln!(io::stdout(), "serving gRPC on {port}")?;
    for stream in listener.incoming() {
        let stream = stream?;
        // A client may keep its connection. One that sends something else is not answered.
        thread::spawn(move || converse(&stream).ok());
    }
    Ok(0)
}

fn converse(stream: &TcpStream) -> io::Result<()> {
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_nodelay(true)?;
    answer(stream, stream)
}

/// A frame of a client.
struct Frame {
    kind: u8,
    flags: u8,
    stream: u32,
    payload: Vec<u8>,
}

/// Answers all calls of a connection, until it ends.
fn answer(mut input: impl Read, mut output: impl Write) -> io::Result<()> {
    let mut preface = [0; PREFACE.len()];
    input.read_exact(&mut preface)?;
    if preface != PREFACE {
        return Err(io::ErrorKind::InvalidData.into());
    }
    write(&mut output, &[frame(SETTINGS, 0, 0, &[])])?;
    loop {
        let Frame { kind, flags, stream, payload } = read(&mut input)?;
        match kind {
            SETTINGS if flags & ACK == 0 => write(&mut output, &[frame(SETTINGS, ACK, 0, &[])])?,
            PING if flags & ACK == 0 => write(&mut output, &[frame(PING, ACK, 0, &payload)])?,
            GOAWAY => return Ok(()),
            DATA | HEADERS if flags & END_STREAM != 0 => {
                let response = [
                    frame(HEADERS, END_HEADERS, stream, RESPONSE),
                    frame(DATA, 0, stream, SERVING),
                    frame(HEADERS, END_HEADERS | END_STREAM, stream, TRAILERS),
                ];
                write(&mut output, &response)?;
            }
            _ => {}
        }
    }
}

fn read(input: &mut impl Read) -> io::Result<Frame> {
    let mut head = [0; 9];
    input.read_exact(&mut head)?;
    let [high, middle, low, kind, flags, stream @ ..] = head;
    let length = usize::from(high) << 16 | usize::from(middle) << 8 | usize::from(low);
    if length > LONGEST {
        return Err(io::ErrorKind::InvalidData.into());
    }
    let mut payload = vec![0; length];
    input.read_exact(&mut payload)?;
    // The highest bit is reserved.
    let stream = u32::from_be_bytes(stream) & (u32::MAX >> 1);
    Ok(Frame { kind, flags, stream, payload })
}

/// The bytes of a frame. Only the low byte of the length is used: no payload here is longer.
fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let length = u8::try_from(payload.len()).unwrap_or(u8::MAX);
    let payload = payload.iter().take(length.into()).copied();
    let head = [0, 0, length, kind, flags].into_iter().chain(stream.to_be_bytes());
    head.chain(payload).collect()
}

/// Writes frames at once: one packet for each answer.
fn write(output: &mut impl Write, frames: &[Vec<u8>]) -> io::Result<()> {
    output.write_all(&frames.concat())?;
    output.flush()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The server's response to these frames of a client.
    fn answered(frames: &[Vec<u8>]) -> Vec<u8> {
        let input = [PREFACE, &frames.concat()].concat();
        let mut output = Vec::new();
        drop(answer(input.as_slice(), &mut output));
        output
    }

    #[test]
    fn call_is_answered_on_its_stream() {
        let call =
            [frame(HEADERS, END_HEADERS, 5, b"\x83"), frame(DATA, END_STREAM, 5, &[0, 0, 0, 0, 0])];
        let expected = [
            frame(SETTINGS, 0, 0, &[]),
            frame(HEADERS, END_HEADERS, 5, RESPONSE),
            frame(DATA, 0, 5, SERVING),
            frame(HEADERS, END_HEADERS | END_STREAM, 5, TRAILERS),
        ];
        assert_eq!(answered(&call), expected.concat());
    }

    #[test]
    fn settings_and_pings_are_acknowledged_once() {
        let frames = [
            frame(SETTINGS, 0, 0, &[0, 4, 0, 0, 255, 255]),
            frame(SETTINGS, ACK, 0, &[]),
            frame(PING, 0, 0, b"12345678"),
            frame(PING, ACK, 0, b"12345678"),
            frame(GOAWAY, 0, 0, &[0; 8]),
            frame(PING, 0, 0, b"too late"),
        ];
        let expected = [
            frame(SETTINGS, 0, 0, &[]),
            frame(SETTINGS, ACK, 0, &[]),
            frame(PING, ACK, 0, b"12345678"),
        ];
        assert_eq!(answered(&frames), expected.concat());
    }

    #[test]
    fn requests_in_another_protocol_get_no_response() {
        let mut output = Vec::new();
        let request = b"GET / HTTP/1.1\r\nhost: localhost\r\n\r\n";
        assert!(answer(request.as_slice(), &mut output).is_err());
        assert!(output.is_empty());
    }
}
