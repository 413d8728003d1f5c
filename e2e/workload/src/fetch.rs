//! A small HTTP client.

use std::io::{self, BufRead as _, BufReader, Write as _};
use std::net::TcpStream;
use std::time::Duration;

/// How long the server may take to send its response.
const PATIENCE: Duration = Duration::from_secs(5);

/// Looks up a host, requests `/` from it, and prints its address and the status line. Fails unless the status is 200.
pub(crate) fn run(host: &str, port: u16) -> io::Result<i32> {
    let mut stream = TcpStream::connect((host, port))?;
    stream.set_read_timeout(Some(PATIENCE))?;
    write!(stream, "GET / HTTP/1.1\r\nhost: {host}\r\nconnection: close\r\n\r\n")?;
    let mut status = String::new();
    BufReader::new(&stream).read_line(&mut status)?;
    let status = status.trim_end();
    writeln!(io::stdout(), "{} {status}", stream.peer_addr()?.ip())?;
    let is_ok = status.split(' ').nth(1) == Some("200");
    Ok(i32::from(!is_ok))
}
