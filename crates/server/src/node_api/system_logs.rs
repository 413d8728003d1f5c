//! `/logs`: files of the system's log directory.

use std::fmt::{Debug, Write as _};
use std::fs::File;
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use futures_util::stream;
use http_body_util::{BodyExt as _, StreamBody};
use hyper::StatusCode;
use hyper::body::{Bytes, Frame};
use hyper::header::{CONTENT_LENGTH, HeaderValue, LOCATION};
use tokio::task::spawn_blocking;

use super::{not_found, plain_error};
use crate::decide::encoded;
use crate::respond::{Answer, BrokenOff, TEXT, answer, error_text, text};

/// The size of one read.
const CHUNK: usize = 64 << 10;

pub(super) const HTML: HeaderValue = HeaderValue::from_static("text/html; charset=utf-8");
const GZIP: HeaderValue = HeaderValue::from_static("application/gzip");

/// An entry of the system's log directory.
#[derive(Debug)]
pub enum SystemLog {
    /// A file, open for reading.
    File(File),
    /// The names in a directory; those of directories end with a slash.
    Directory(Vec<String>),
}

/// The system's log directory.
pub trait SystemLogs: Debug + Send + Sync {
    /// Opens a path below the directory, and nothing outside of it. Blocks.
    fn open(&self, below: &Path) -> io::Result<SystemLog>;
}

/// Answers with a file or a directory.
pub(super) async fn page(logs: Arc<dyn SystemLogs>, path: String) -> Answer {
    let below = PathBuf::from(path.trim_end_matches('/'));
    let opened = spawn_blocking(move || {
        let opened = logs.open(&below)?;
        let length = match &opened {
            SystemLog::File(file) => file.metadata()?.len(),
            SystemLog::Directory(_) => 0,
        };
        io::Result::Ok((opened, length))
    });
    match opened.await {
        Ok(Ok((SystemLog::Directory(names), _))) if path.is_empty() || path.ends_with('/') => {
            text(StatusCode::OK, HTML, listing(&names))
        }
        Ok(Ok((SystemLog::Directory(_), _))) => {
            let name = path.rsplit('/').next().unwrap_or_default();
            let mut answer = error_text(StatusCode::MOVED_PERMANENTLY, String::new());
            if let Ok(location) = HeaderValue::from_str(&format!("{}/", encoded(name))) {
                answer.headers_mut().insert(LOCATION, location);
            }
            answer
        }
        Ok(Ok((SystemLog::File(file), length))) => content(file, length, &path),
        Ok(Err(error)) if error.kind() == io::ErrorKind::PermissionDenied => {
            plain_error(StatusCode::FORBIDDEN, "403 Forbidden")
        }
        Ok(Err(_)) => not_found(),
        Err(_) => plain_error(StatusCode::INTERNAL_SERVER_ERROR, "500 Internal Server Error"),
    }
}

/// The content of a file, with its length at the time of opening.
fn content(file: File, length: u64, path: &str) -> Answer {
    let chunks = stream::unfold(Some((file, length)), |state| async move {
        let (mut file, left) = state.filter(|(_, left)| *left > 0)?;
        let read = spawn_blocking(move || {
            let mut chunk = vec![0; CHUNK.min(usize::try_from(left).unwrap_or(CHUNK))];
            let count = file.read(&mut chunk)?;
            chunk.truncate(count);
            io::Result::Ok((chunk, file))
        });
        match read.await.map_err(io::Error::other).flatten() {
            Ok((chunk, _)) if chunk.is_empty() => None,
            Ok((chunk, file)) => {
                let left = left.saturating_sub(u64::try_from(chunk.len()).unwrap_or(left));
                Some((Ok(Frame::data(Bytes::from(chunk))), Some((file, left))))
            }
            Err(error) => Some((Err(BrokenOff::from(error)), None)),
        }
    });
    let is_compressed = Path::new(path).extension().is_some_and(|extension| extension == "gz");
    let content_type = if is_compressed { GZIP } else { TEXT };
    let mut answer = answer(StatusCode::OK, content_type, StreamBody::new(chunks).boxed_unsync());
    answer.headers_mut().insert(CONTENT_LENGTH, HeaderValue::from(length));
    answer
}

fn listing(names: &[String]) -> String {
    let mut page =
        "<!doctype html>\n<meta name=\"viewport\" content=\"width=device-width\">\n<pre>\n"
            .to_owned();
    for name in names {
        writeln!(page, "<a href=\"{}\">{}</a>", encoded(name), escaped(name))
            .expect("a string takes every text");
    }
    page.push_str("</pre>\n");
    page
}

pub(super) fn escaped(name: &str) -> String {
    let replacements =
        [('&', "&amp;"), ('<', "&lt;"), ('>', "&gt;"), ('"', "&#34;"), ('\'', "&#39;")];
    replacements.iter().fold(name.to_owned(), |text, (from, to)| text.replace(*from, to))
}
