//! A small HTTP server.

use std::io::{self, BufRead as _, BufReader, Write as _};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::process::exit;
use std::thread;
use std::time::Duration;

use crate::wait;

/// How long a client may take to send its request.
const PATIENCE: Duration = Duration::from_secs(5);
/// The longest request that is read.
const LONGEST: u64 = 64 << 10;

/// Answers every request with 200, one after the other, until a signal ends it.
pub(crate) fn run(port: u16) -> io::Result<i32> {
    let listener = TcpListener::bind((Ipv4Addr::UNSPECIFIED, port))?;
    // A separate thread waits for the signal: accepting a connection blocks.
    thread::spawn(|| exit(wait::sleep(None, 0).unwrap_or(1)));
    writeln!(io::stdout(), "serving {port}")?;
    for stream in listener.incoming() {
        // A malformed request is not answered.
        answer(&stream?).ok();
    }
    Ok(0)
}

fn answer(mut stream: &TcpStream) -> io::Result<()> {
    stream.set_read_timeout(Some(PATIENCE))?;
    let mut lines = BufReader::new(io::Read::take(stream, LONGEST)).lines();
    let first = lines.next().transpose()?.unwrap_or_default();
    for line in lines {
        if line?.is_empty() {
            break;
        }
    }
    writeln!(io::stdout(), "{first}")?;
    stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\nconnection: close\r\n\r\nok")
}
