//! Connections.

use std::io::{self, Read};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::thread;
use std::time::Duration;

use super::Registry;
use super::http::exchange;

/// As many clients are served at a time; the kernel keeps some more waiting.
const WORKERS: usize = 8;
/// How long a client may leave us waiting.
const PATIENCE: Duration = Duration::from_secs(10);
/// How much of what a client still sends is read and thrown away.
const LEFTOVER_LIMIT: u64 = 1 << 20;

/// Answers clients for ever, and tells `log` of every request in a line.
pub fn serve(registry: &Registry, listener: &TcpListener, log: &(dyn Fn(&str) + Sync)) {
    let work = || {
        loop {
            let accepted = listener.accept();
            if let Err(error) = accepted.and_then(|(stream, _)| converse(registry, &stream, log)) {
                log(&format!("a client is gone: {error}"));
            }
        }
    };
    thread::scope(|scope| {
        for _ in 1..WORKERS {
            scope.spawn(work);
        }
        work();
    });
}

fn converse(
    registry: &Registry,
    mut stream: &TcpStream,
    log: &(dyn Fn(&str) + Sync),
) -> io::Result<()> {
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    exchange(registry, stream, log)?;
    // Closing with something unread would take the answer back from a client that is still sending.
    stream.shutdown(Shutdown::Write)?;
    io::copy(&mut (&mut stream).take(LEFTOVER_LIMIT), &mut io::sink())?;
    Ok(())
}
