//! Node log query: `/logs/?query=SERVICE` answers with the journal's entries of a service, or with its log file.

use std::any::Any;
use std::collections::VecDeque;
use std::fmt::Debug;
use std::io::{self, Read, Write as _};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use flate2::Compression;
use flate2::write::GzEncoder;
use futures_util::{Stream, StreamExt as _, stream};
use http_body_util::{BodyExt as _, StreamBody};
use hyper::body::{Bytes, Frame};
use hyper::header::{ACCEPT_ENCODING, CONTENT_ENCODING, HeaderValue, RETRY_AFTER};
use hyper::{HeaderMap, StatusCode};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::task::spawn_blocking;
use tokio::time::{Instant, timeout_at};

use super::plain_error;
use super::system_logs::{self, SystemLog, SystemLogs};
use crate::decide::{
    JOURNAL_UNITS, LogOptions, LogSource, NodeLogQuery, log_files, node_log_query,
};
use crate::respond::{Answer, answer};

/// The time limit of a response.
const LIMIT: Duration = Duration::from_secs(30);
/// The limit of concurrent queries: each runs a program.
const MOST_QUERIES: usize = 4;
/// The size of one read.
const CHUNK: usize = 64 << 10;
/// The longest list of the journal's units.
const LONGEST_LIST: u64 = 4 << 20;

const PLAIN: HeaderValue = HeaderValue::from_static("text/plain;charset=UTF-8");

/// A run of `journalctl`.
pub struct JournalRun {
    /// Its output.
    pub output: Box<dyn Read + Send>,
    /// Kills the program when dropped.
    pub guard: Box<dyn Any + Send>,
}

/// The journal of system services.
pub trait ServiceJournal: Debug + Send + Sync {
    /// Starts `journalctl` with these arguments, and without a shell. Blocks.
    fn start(&self, arguments: &[String]) -> io::Result<JournalRun>;
}

/// The logs of system services.
#[derive(Debug)]
pub struct NodeLogs {
    journal: Arc<dyn ServiceJournal>,
    permits: Arc<Semaphore>,
}

impl NodeLogs {
    /// The logs in this journal.
    pub fn new(journal: Arc<dyn ServiceJournal>) -> Self {
        Self { journal, permits: Arc::new(Semaphore::new(MOST_QUERIES)) }
    }

    /// Answers a request for a path below `/logs/`.
    pub(super) async fn page(
        &self,
        files: Arc<dyn SystemLogs>,
        path: String,
        query: Option<&str>,
        headers: &HeaderMap,
    ) -> Answer {
        let query = match node_log_query(query) {
            Ok(None) => return system_logs::page(files, path).await,
            Ok(Some(query)) => query,
            Err(errors) => return plain_error(StatusCode::BAD_REQUEST, &errors.to_string()),
        };
        let refused = |text: &str| plain_error(StatusCode::NOT_ACCEPTABLE, text);
        if !path.is_empty() {
            return refused("path not allowed in query mode");
        }
        match query.source() {
            Err(errors) => refused(&errors.to_string()),
            Ok(LogSource::File(file)) => {
                let answer = system_logs::page(files, file).await;
                let why = match answer.status() {
                    StatusCode::OK => return answer,
                    StatusCode::MOVED_PERMANENTLY => "is a directory",
                    StatusCode::FORBIDDEN => "permission denied",
                    _ => "no such file or directory",
                };
                refused(&query.unreadable(why).to_string())
            }
            Ok(LogSource::Services) => {
                let Ok(permit) = Arc::clone(&self.permits).try_acquire_owned() else {
                    return busy();
                };
                let logs = ServiceLogs::of(Arc::clone(&self.journal), files, query, permit).await;
                served(logs, headers)
            }
        }
    }
}

fn busy() -> Answer {
    let mut answer = plain_error(StatusCode::TOO_MANY_REQUESTS, "Too Many Requests");
    answer.headers_mut().insert(RETRY_AFTER, HeaderValue::from_static("1"));
    answer
}

/// A part of a response.
#[derive(Debug)]
enum Part {
    Text(String),
    /// The journal, with the arguments of `journalctl`.
    Journal(Vec<String>),
    /// The log file of a service.
    File(String),
}

/// A response in progress.
struct ServiceLogs {
    journal: Arc<dyn ServiceJournal>,
    files: Arc<dyn SystemLogs>,
    parts: VecDeque<Part>,
    /// The part that is being read, and the guard of its program.
    open: Option<Box<dyn Read + Send>>,
    guard: Option<Box<dyn Any + Send>>,
    deadline: Instant,
    _permit: OwnedSemaphorePermit,
}

impl ServiceLogs {
    async fn of(
        journal: Arc<dyn ServiceJournal>,
        files: Arc<dyn SystemLogs>,
        query: NodeLogQuery,
        permit: OwnedSemaphorePermit,
    ) -> Self {
        let deadline = Instant::now() + LIMIT;
        let units = units(Arc::clone(&journal), deadline).await;
        let parts = parts(&query, &units);
        Self { journal, files, parts, open: None, guard: None, deadline, _permit: permit }
    }

    /// The next chunk of the response.
    async fn next(&mut self) -> Option<Vec<u8>> {
        loop {
            let Some(mut open) = self.open.take() else {
                match self.parts.pop_front()? {
                    Part::Text(text) => return Some(text.into_bytes()),
                    Part::Journal(arguments) => {
                        let journal = Arc::clone(&self.journal);
                        let started = spawn_blocking(move || journal.start(&arguments)).await;
                        let Ok(run) = started.map_err(io::Error::other).flatten() else {
                            let text = "\nerror: journal output not available\n";
                            return Some(text.as_bytes().to_vec());
                        };
                        (self.open, self.guard) = (Some(run.output), Some(run.guard));
                    }
                    Part::File(service) => {
                        let files = Arc::clone(&self.files);
                        let opened = spawn_blocking(move || log_file(&*files, &service)).await;
                        match opened.unwrap_or_else(|error| Err(error.to_string())) {
                            Ok(file) => self.open = Some(file),
                            Err(text) => return Some(text.into_bytes()),
                        }
                    }
                }
                continue;
            };
            let read = spawn_blocking(move || {
                let mut chunk = vec![0; CHUNK];
                let count = open.read(&mut chunk)?;
                chunk.truncate(count);
                io::Result::Ok((chunk, open))
            });
            match timeout_at(self.deadline, read).await {
                Ok(Ok(Ok((chunk, open)))) if !chunk.is_empty() => {
                    self.open = Some(open);
                    return Some(chunk);
                }
                // The part has ended, or cannot be read any further.
                Ok(_) => self.guard = None,
                Err(_) => {
                    self.guard = None;
                    self.parts.clear();
                    return None;
                }
            }
        }
    }
}

/// The units with journal entries, one per line; empty if they cannot be read.
async fn units(journal: Arc<dyn ServiceJournal>, deadline: Instant) -> String {
    let started = spawn_blocking(move || journal.start(&JOURNAL_UNITS.map(str::to_owned))).await;
    let Ok(Ok(run)) = started else { return String::new() };
    let read = spawn_blocking(move || {
        let mut text = Vec::new();
        run.output.take(LONGEST_LIST).read_to_end(&mut text).map(|_| text)
    });
    let read = timeout_at(deadline, read).await;
    drop(run.guard);
    match read {
        Ok(Ok(Ok(text))) => String::from_utf8_lossy(&text).into_owned(),
        _ => String::new(),
    }
}

fn parts(query: &NodeLogQuery, units: &str) -> VecDeque<Part> {
    let (native, files) = query.divided(units);
    let mut parts = VecDeque::new();
    if !native.is_empty() {
        parts.push_back(Part::Journal(query.journal_arguments(&native)));
    }
    if files.is_empty() || query.options == LogOptions::default() {
        parts.extend(files.into_iter().map(|service| Part::File(service.to_owned())));
    } else {
        parts.push_back(Part::Text(format!(
            "\noptions present and query resolved to log files for [{}]\ntry without specifying options\n",
            files.join(" ")
        )));
    }
    parts
}

/// Opens the log file of a service, or returns the reason of the failure. Blocks.
fn log_file(files: &dyn SystemLogs, service: &str) -> Result<Box<dyn Read + Send>, String> {
    for name in log_files(service) {
        match files.open(Path::new(&name)) {
            Ok(SystemLog::File(file)) => return Ok(Box::new(file)),
            Ok(SystemLog::Directory(_)) => {}
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(format!("\nerror getting log for {service}: {error}\n")),
        }
    }
    Err(format!("\nlog not found for {service}\n"))
}

fn served(logs: ServiceLogs, headers: &HeaderMap) -> Answer {
    let pieces = stream::unfold(logs, |mut logs| async move {
        let piece = logs.next().await?;
        Some((piece, logs))
    });
    let accepts_gzip = headers.get(ACCEPT_ENCODING).is_some_and(|value| value == "gzip");
    if !accepts_gzip {
        return answer(StatusCode::OK, PLAIN, body(pieces));
    }
    let mut answer = answer(StatusCode::OK, PLAIN, body(compressed(pieces)));
    answer.headers_mut().insert(CONTENT_ENCODING, HeaderValue::from_static("gzip"));
    answer
}

fn body(
    pieces: impl Stream<Item = Vec<u8>> + Send + 'static,
) -> http_body_util::combinators::UnsyncBoxBody<Bytes, crate::respond::BrokenOff> {
    StreamBody::new(pieces.map(|piece| Ok(Frame::data(Bytes::from(piece))))).boxed_unsync()
}

/// The response, compressed.
fn compressed(pieces: impl Stream<Item = Vec<u8>> + Send) -> impl Stream<Item = Vec<u8>> + Send {
    let encoder = GzEncoder::new(Vec::new(), Compression::fast());
    let pieces = pieces.map(Some).chain(stream::iter([None]));
    pieces
        .scan(Some(encoder), |encoder, piece| {
            let written = match piece {
                Some(piece) => encoder.as_mut().map(|encoder| {
                    encoder.write_all(&piece).map(|()| std::mem::take(encoder.get_mut()))
                }),
                None => encoder.take().map(GzEncoder::finish),
            };
            std::future::ready(written.and_then(Result::ok))
        })
        // An empty chunk would end an HTTP/1.1 body.
        .filter(|piece| std::future::ready(!piece.is_empty()))
}

#[cfg(test)]
#[path = "node_logs_tests.rs"]
pub(super) mod tests;
