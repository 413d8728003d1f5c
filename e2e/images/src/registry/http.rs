//! The part of HTTP/1.1 that pulls need: a request has no body, and a connection one request.

use std::fmt;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::num::NonZeroUsize;
use std::thread;
use std::time::Duration;

use super::Registry;
use super::answer::{Answer, Status};

/// The longest request line with all its headers.
pub(super) const HEAD_LIMIT: u64 = 16 << 10;

/// The pause between two parts of a slow body.
const TENTH: Duration = Duration::from_millis(100);

/// The first byte of a TLS client.
const TLS_HANDSHAKE: u8 = 22;

/// A client's request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Request {
    pub method: Method,
    /// Without the query, which is ignored.
    pub path: String,
    /// The header of that name.
    pub authorization: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Method {
    Get,
    Head,
    Other(String),
}

impl fmt::Display for Method {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Get => "GET",
            Self::Head => "HEAD",
            Self::Other(name) => name,
        })
    }
}

/// Why the input is not a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(super) enum BadRequest {
    #[error("the head of a request has at most {HEAD_LIMIT} bytes")]
    TooLarge,
    #[error("this registry speaks plain HTTP")]
    Tls,
    #[error("this is not a request of HTTP/1.1")]
    Malformed,
}

impl Request {
    /// Reads a head up to the empty line at its end. Of its headers only `Authorization` is used.
    fn read(stream: impl Read) -> io::Result<Result<Self, BadRequest>> {
        let mut stream = BufReader::new(stream.take(HEAD_LIMIT));
        // containerd tries TLS first, and waits for a response to its greeting.
        if stream.fill_buf()?.first() == Some(&TLS_HANDSHAKE) {
            return Ok(Err(BadRequest::Tls));
        }
        let (mut first, mut authorization): (Option<Vec<u8>>, Option<String>) = (None, None);
        loop {
            let mut line = Vec::new();
            stream.read_until(b'\n', &mut line)?;
            if line.pop() != Some(b'\n') {
                let cut = stream.get_ref().limit() == 0;
                return Ok(Err(if cut { BadRequest::TooLarge } else { BadRequest::Malformed }));
            }
            line.pop_if(|byte| *byte == b'\r');
            match &first {
                Some(first) if line.is_empty() => {
                    let request = Self::parse(first).ok_or(BadRequest::Malformed);
                    return Ok(request.map(|request| Self { authorization, ..request }));
                }
                Some(_) => authorization = authorization.or_else(|| authorization_of(&line)),
                None => first = Some(line),
            }
        }
    }

    fn parse(line: &[u8]) -> Option<Self> {
        let line = str::from_utf8(line).ok()?;
        // The log has one line for each request.
        if line.contains(|c: char| !c.is_ascii_graphic() && c != ' ') {
            return None;
        }
        let mut words = line.split(' ');
        let (method, target, version) = (words.next()?, words.next()?, words.next()?);
        if words.next().is_some() || !matches!(version, "HTTP/1.1" | "HTTP/1.0") {
            return None;
        }
        let method = match method {
            "" => return None,
            "GET" => Method::Get,
            "HEAD" => Method::Head,
            other => Method::Other(other.to_owned()),
        };
        let path = target.split('?').next().filter(|path| path.starts_with('/'))?;
        Some(Self { method, path: path.to_owned(), authorization: None })
    }
}

/// The value of the header `Authorization`, if the line is that.
fn authorization_of(line: &[u8]) -> Option<String> {
    let (name, value) = str::from_utf8(line).ok()?.split_once(':')?;
    name.eq_ignore_ascii_case("authorization").then(|| value.trim().to_owned())
}

/// Reads a request and answers it. Logs a line about the request and its result, before the client can know.
pub(super) fn exchange(
    registry: &Registry,
    mut stream: impl Read + Write,
    log: &dyn Fn(&str),
) -> io::Result<()> {
    let (asked, answer, with_body, challenge) = match Request::read(&mut stream)? {
        Ok(request) => {
            let asked = format!("{} {}", request.method, request.path);
            let challenge = registry.challenge(&request.path);
            (asked, registry.answer(&request), request.method != Method::Head, challenge)
        }
        Err(problem) => ("?".to_owned(), Answer::to_bad(problem), true, String::new()),
    };
    log(&format!("{asked} {}", answer.status.code()));
    stream.write_all(head(&answer, &challenge).as_bytes())?;
    if with_body {
        let end = if answer.is_cut { answer.body.len() / 2 } else { answer.body.len() };
        send(&mut stream, &answer.body[..end], registry.pace)?;
    }
    stream.flush()
}

/// Sends a body, at the registry's pace.
fn send(stream: &mut impl Write, body: &[u8], pace: Option<NonZeroUsize>) -> io::Result<()> {
    let Some(pace) = pace else { return stream.write_all(body) };
    for part in body.chunks(pace.get()) {
        stream.write_all(part)?;
        stream.flush()?;
        thread::sleep(TENTH);
    }
    Ok(())
}

fn head(answer: &Answer<'_>, challenge: &str) -> String {
    let (code, phrase) = (answer.status.code(), answer.status.phrase());
    let mut lines = vec![
        format!("HTTP/1.1 {code} {phrase}"),
        "Docker-Distribution-Api-Version: registry/2.0".to_owned(),
        format!("Content-Type: {}", answer.content_type),
        format!("Content-Length: {}", answer.body.len()),
        "Connection: close".to_owned(),
    ];
    if let Some(digest) = answer.digest {
        lines.push(format!("Docker-Content-Digest: {digest}"));
    }
    if answer.status == Status::Unauthorized {
        lines.push(format!("WWW-Authenticate: {challenge}"));
    }
    if matches!(answer.status, Status::TooManyRequests | Status::ServerError) {
        lines.push("Retry-After: 1".to_owned());
    }
    if answer.status == Status::MethodNotAllowed {
        lines.push("Allow: GET, HEAD".to_owned());
    }
    lines.join("\r\n") + "\r\n\r\n"
}
