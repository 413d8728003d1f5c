//! A token file, which is rotated.

use std::fs::File;
use std::io::{Error, ErrorKind, Read as _};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use blocking::Flights;
use http::HeaderValue;
use tokio::time::Instant;
use tracing::warn;

/// How long a token is used without reading the file again.
const GOOD: Duration = Duration::from_mins(1);
/// The longest token.
const LONGEST: u64 = 64 << 10;
/// The timeout of a read.
const LIMIT: Duration = Duration::from_secs(10);

/// The token of a file. It is read again every minute, and after a refusal.
#[derive(Debug)]
pub(crate) struct TokenFile {
    path: PathBuf,
    /// One thread reads the file, for all calls that need it.
    reads: Flights<Result<HeaderValue, Arc<Error>>>,
    /// Written by the last reader of the file. Never held across an await.
    known: Mutex<CachedToken>,
}

#[derive(Debug, Clone)]
struct CachedToken {
    header: HeaderValue,
    /// The time of the last read; `None` if the file must be read again.
    read: Option<Instant>,
}

impl TokenFile {
    /// Opens an existing file.
    pub(crate) async fn open(path: PathBuf) -> Result<Self, Error> {
        let reads = Flights::new(1);
        let known = CachedToken { read: Some(Instant::now()), header: read(&reads, &path).await? };
        Ok(Self { path, reads, known: Mutex::new(known) })
    }

    /// The header. If the file cannot be read any more, the last token is used: some files are removed on
    /// purpose.
    pub(crate) async fn header(&self) -> HeaderValue {
        let known = self.lock().clone();
        if known.read.is_some_and(|read| read.elapsed() < GOOD) {
            return known.header;
        }
        let header = read(&self.reads, &self.path).await.unwrap_or_else(|error| {
            warn!(path = %self.path.display(), %error, "Cannot read token file, using the last token");
            known.header
        });
        *self.lock() = CachedToken { header: header.clone(), read: Some(Instant::now()) };
        header
    }

    /// The server refused the token of a call that started at `begun`.
    pub(crate) fn refused(&self, begun: Instant) {
        let mut known = self.lock();
        known.read = known.read.filter(|read| *read > begun);
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, CachedToken> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

async fn read(
    reads: &Flights<Result<HeaderValue, Arc<Error>>>,
    path: &Path,
) -> Result<HeaderValue, Error> {
    let owned = path.to_owned();
    let flight = reads.join("", move || read_now(&owned).map_err(Arc::new));
    let read = match flight {
        Some(flight) => flight.wait(LIMIT).await,
        None => None,
    };
    let late = || Arc::new(Error::new(ErrorKind::TimedOut, "the file cannot be read in time"));
    read.unwrap_or_else(|| Err(late())).map_err(|error| Error::new(error.kind(), error))
}

#[expect(clippy::disallowed_methods, reason = "runs on its own thread, which may hang")]
fn read_now(path: &Path) -> Result<HeaderValue, Error> {
    let mut text = String::new();
    File::open(path)?.take(LONGEST).read_to_string(&mut text)?;
    let token = text.trim();
    if token.is_empty() {
        return Err(Error::new(ErrorKind::InvalidData, "the file is empty"));
    }
    let header = HeaderValue::try_from(format!("Bearer {token}"));
    let mut header = header.map_err(|error| Error::new(ErrorKind::InvalidData, error))?;
    header.set_sensitive(true);
    Ok(header)
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;
    use std::os::unix::fs::FileExt as _;

    use tempfile::NamedTempFile;

    use super::*;

    fn file(token: &str) -> NamedTempFile {
        let mut file = NamedTempFile::new().unwrap();
        file.write_all(token.as_bytes()).unwrap();
        file
    }

    /// Replaces the token.
    fn replace(file: &NamedTempFile, token: &str) {
        file.as_file().set_len(0).unwrap();
        file.as_file().write_all_at(token.as_bytes(), 0).unwrap();
    }

    // behaviour: NODE-43
    #[tokio::test(start_paused = true)]
    async fn token_file_is_read_again_after_a_minute_or_a_refusal() {
        let file = file("one\n");
        let token = TokenFile::open(file.path().to_owned()).await.unwrap();
        let begun = Instant::now();
        assert_eq!(token.header().await, "Bearer one");
        replace(&file, "two");
        tokio::time::advance(GOOD.saturating_sub(Duration::from_secs(1))).await;
        assert_eq!(token.header().await, "Bearer one", "it is good for a minute");
        tokio::time::advance(Duration::from_secs(1)).await;
        assert_eq!(token.header().await, "Bearer two");
        replace(&file, "six");
        token.refused(begun);
        assert_eq!(token.header().await, "Bearer two", "the one that was refused is another");
        token.refused(Instant::now());
        assert_eq!(token.header().await, "Bearer six");
        // The file was removed on purpose.
        drop(file);
        token.refused(Instant::now());
        assert_eq!(token.header().await, "Bearer six");
    }

    #[tokio::test]
    async fn empty_token_file_is_an_error() {
        for text in ["", " \n", "a\nb"] {
            let file = file(text);
            assert!(TokenFile::open(file.path().to_owned()).await.is_err(), "{text:?}");
        }
        assert!(TokenFile::open("/nowhere/token".into()).await.is_err());
    }
}
