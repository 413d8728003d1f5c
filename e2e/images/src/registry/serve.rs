//! Connections.

use std::io::{self, Read};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::thread;
use std::time::Duration;

use super::Registry;
use super::http::exchange;

/// The number of clients that are served at a time. The kernel queues further connections.
const WORKERS: usize = 8;
/// The timeout of a client's request.
const PATIENCE: Duration = Duration::from_secs(10);
/// How many unread bytes of a client are read and dropped.
const LEFTOVER_LIMIT: u64 = 1 << 20;

/// Serves clients for ever, and calls `log` with a line for every request.
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
    // Closing with unread input would reset the connection of a client that is still sending.
    stream.shutdown(Shutdown::Write)?;
    io::copy(&mut (&mut stream).take(LEFTOVER_LIMIT), &mut io::sink())?;
    Ok(())
}
