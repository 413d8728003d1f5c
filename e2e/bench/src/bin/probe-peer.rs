//! The program `probe-peer`: the server that agents probe, and bare requests to it.
//!
//! `probe-peer serve PORT` answers each HTTP request with 200 and closes the connection, as servers do after
//! `Connection: close`. A connection that is closed without a request counts as a TCP probe. `GET /count` returns the
//! number of HTTP requests and of TCP probes so far and is not counted.
//!
//! `GET /flip/CODE/COUNT` changes the status code of all later responses at once: the server holds requests until COUNT of
//! them wait, then answers all with the new code. The response contains the Unix time of the change in nanoseconds.
//!
//! `probe-peer request PORT RATE` sends RATE requests per second until it is killed. It does only what every prober has
//! to do: connect, write, read and close. Its CPU time is the floor of an agent's.
#![allow(clippy::disallowed_methods, reason = "a measuring tool works in real time")]

use std::cell::Cell;
use std::io::{self, ErrorKind, Read as _, Write as _};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::process::ExitCode;
use std::rc::Rc;
use std::thread;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use anyhow::{Context as _, Result, bail, ensure};
use tokio::net::{TcpListener, TcpStream as Connection};
use tokio::sync::Notify;
use tokio::task::{LocalSet, spawn_local};

const USAGE: &str = "usage: probe-peer serve PORT\n       probe-peer request PORT RATE";

/// The pause between two bursts of requests.
const PAUSE: Duration = Duration::from_millis(10);
/// The timeout of a bare request.
const PATIENCE: Duration = Duration::from_secs(10);
/// The longest request.
const LONGEST: usize = 4096;

/// The request of the agents, with their headers.
const REQUEST: &[u8] = b"GET / HTTP/1.1\r\nHost: 127.0.0.1:8080\r\nUser-Agent: kube-probe/1.36\r\n\
    Accept: */*\r\nConnection: close\r\n\r\n";

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = args.iter().map(String::as_str).collect();
    let ended = match words.as_slice() {
        ["serve", port] => port.parse().context(USAGE).and_then(serve),
        ["request", port, rate] => {
            let rate = rate.parse().context(USAGE);
            port.parse().context(USAGE).and_then(|port| send_requests(port, rate?))
        }
        _ => Err(anyhow::anyhow!(USAGE)),
    };
    match ended {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("probe-peer: {error:#}");
            ExitCode::FAILURE
        }
    }
}

/// The attempts so far.
#[derive(Debug, Default)]
struct Counts {
    http: Cell<u64>,
    tcp: Cell<u64>,
    /// The status code of responses.
    code: Cell<u16>,
    /// Whether requests are held until the next code, and the number of held requests.
    holds: Cell<bool>,
    waiting: Cell<usize>,
    /// Notified when a request begins to wait.
    arrived: Notify,
    /// Notified when held requests may continue.
    released: Notify,
}

impl Counts {
    /// Waits while requests are held.
    async fn pass(&self) {
        if self.holds.get() {
            self.waiting.set(self.waiting.get() + 1);
            self.arrived.notify_one();
            self.released.notified().await;
        }
    }

    /// Changes the code when enough requests wait; returns the time in nanoseconds of Unix time.
    async fn flip(&self, code: u16, count: usize) -> u128 {
        self.waiting.set(0);
        self.holds.set(true);
        while self.waiting.get() < count {
            self.arrived.notified().await;
        }
        self.code.set(code);
        self.holds.set(false);
        self.released.notify_waiters();
        SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_nanos()
    }
}

/// The code and the number of requests of `GET /flip/CODE/COUNT`.
fn flip(request: &[u8]) -> Option<(u16, usize)> {
    let path = std::str::from_utf8(request).ok()?.strip_prefix("GET /flip/")?.split(' ').next()?;
    let (code, count) = path.split_once('/')?;
    Some((code.parse().ok()?, count.parse().ok()?))
}

fn serve(port: u16) -> Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .context("start the async runtime")?;
    let counts = Rc::new(Counts { code: Cell::new(200), ..Counts::default() });
    LocalSet::new().block_on(&runtime, async {
        let listener = TcpListener::bind((Ipv4Addr::UNSPECIFIED, port)).await.context("listen")?;
        loop {
            let (connection, _) = listener.accept().await.context("accept a connection")?;
            let counts = Rc::clone(&counts);
            spawn_local(async move {
                // A client that closed the connection needs no answer.
                drop(answer(&connection, &counts).await);
            });
        }
    })
}

async fn answer(connection: &Connection, counts: &Counts) -> io::Result<()> {
    let (mut buffer, mut length) = ([0; LONGEST], 0);
    while !buffer[..length].ends_with(b"\r\n\r\n") {
        connection.readable().await?;
        match connection.try_read(&mut buffer[length..]) {
            Ok(0) if length == 0 => {
                counts.tcp.set(counts.tcp.get() + 1);
                return Ok(());
            }
            Ok(0) => return Err(ErrorKind::UnexpectedEof.into()),
            Ok(read) => length += read,
            Err(error) if error.kind() == ErrorKind::WouldBlock => {}
            Err(error) => return Err(error),
        }
    }
    let mut code = 200;
    let body = if buffer.starts_with(b"GET /count ") {
        format!("{} {}\n", counts.http.get(), counts.tcp.get())
    } else if let Some((code, count)) = flip(&buffer[..length]) {
        format!("{}\n", counts.flip(code, count).await)
    } else {
        counts.http.set(counts.http.get() + 1);
        counts.pass().await;
        code = counts.code.get();
        "ok".to_owned()
    };
    let length = body.len();
    let text =
        format!("HTTP/1.1 {code} -\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n{body}");
    // The buffer of a new connection has room for it.
    connection.try_write(text.as_bytes()).map(drop)
}

/// Sends the due requests in bursts, each to another address of the loopback network.
fn send_requests(port: u16, rate: u32) -> Result<()> {
    let since = Instant::now();
    let mut sent: u32 = 0;
    loop {
        let due = since.elapsed().as_secs_f64() * f64::from(rate);
        let mut burst = Vec::new();
        while f64::from(sent) < due {
            burst.push(connect(port, sent % rate)?);
            sent += 1;
        }
        burst.into_iter().try_for_each(finish)?;
        thread::sleep(PAUSE);
    }
}

fn connect(port: u16, number: u32) -> Result<TcpStream> {
    let address = Ipv4Addr::from_bits(Ipv4Addr::LOCALHOST.to_bits() + number);
    let mut stream = TcpStream::connect(SocketAddr::from((address, port))).context("connect")?;
    stream.set_read_timeout(Some(PATIENCE)).context("limit the time of a read")?;
    stream.write_all(REQUEST).context("send a request")?;
    Ok(stream)
}

fn finish(mut stream: TcpStream) -> Result<()> {
    let mut buffer = [0; LONGEST];
    let read = stream.read(&mut buffer).context("read a response")?;
    ensure!(buffer[..read].starts_with(b"HTTP/1.1 200"), "a response is not a success");
    if !buffer[..read].ends_with(b"ok") {
        bail!("a response is not complete");
    }
    Ok(())
}
