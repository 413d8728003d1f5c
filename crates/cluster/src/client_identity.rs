//! The client certificate and its key in files, which are rotated.

use std::fs::Metadata;
use std::os::unix::fs::MetadataExt as _;
use std::path::PathBuf;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use blocking::Flights;
use kube::config::AuthInfo;
use tokio::time::Instant;

/// The minimum interval of checks.
const CHECK_AGAIN: Duration = Duration::from_mins(1);
/// The timeout of a check.
const LIMIT: Duration = Duration::from_secs(10);

/// Identifies a version of a file: it differs after a replacement and after a change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Version {
    inode: (u64, u64),
    length: u64,
    modified: (i64, i64),
    changed: (i64, i64),
}

impl Version {
    fn of(file: &Metadata) -> Self {
        Self {
            inode: (file.dev(), file.ino()),
            length: file.len(),
            modified: (file.mtime(), file.mtime_nsec()),
            changed: (file.ctime(), file.ctime_nsec()),
        }
    }
}

/// The files of a kubeconfig's client certificate. Calls check them, at most once a minute, and at once after
/// the server refused a call.
#[derive(Debug)]
pub(crate) struct ClientIdentity {
    paths: Vec<PathBuf>,
    /// One thread checks the files, so that a hanging file system blocks only it.
    checks: Flights<Vec<Option<Version>>>,
    /// Never held across an await.
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    /// The versions in use; `None` for a missing file.
    versions: Vec<Option<Version>>,
    /// When they were last compared; `None` if the next call must compare them.
    checked: Option<Instant>,
}

impl ClientIdentity {
    /// The files, if the credentials are in files. Call this before reading them, so that no change is missed.
    pub(crate) fn of(credentials: &AuthInfo) -> Option<Self> {
        let certificate = credentials.client_certificate_data.is_none();
        let certificate = credentials.client_certificate.as_ref().filter(|_| certificate);
        let key = credentials.client_key.as_ref().filter(|_| credentials.client_key_data.is_none());
        let mut paths: Vec<PathBuf> = certificate.into_iter().chain(key).map(Into::into).collect();
        paths.dedup();
        if paths.is_empty() {
            return None;
        }
        let versions = versions(&paths);
        let state = State { versions, checked: Some(Instant::now()) };
        Some(Self { paths, checks: Flights::new(1), state: Mutex::new(state) })
    }

    /// The versions of the files, if a check is due and they differ from those in use.
    pub(crate) async fn changed(&self) -> Option<Vec<Option<Version>>> {
        {
            let mut state = self.lock();
            if state.checked.is_some_and(|checked| checked.elapsed() < CHECK_AGAIN) {
                return None;
            }
            // Concurrent calls use the current certificate.
            state.checked = Some(Instant::now());
        }
        let paths = self.paths.clone();
        let found = self.checks.join("", move || versions(&paths))?.wait(LIMIT).await?;
        (found != self.lock().versions).then_some(found)
    }

    /// Makes the next call check the files.
    pub(crate) fn check_again(&self) {
        self.lock().checked = None;
    }

    /// Records that the files are used in these versions.
    pub(crate) fn use_versions(&self, versions: Vec<Option<Version>>) {
        self.lock().versions = versions;
    }

    /// The server refused a call that started at `begun`.
    pub(crate) fn refused(&self, begun: Instant) {
        let mut state = self.lock();
        state.checked = state.checked.filter(|checked| *checked > begun);
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The versions of files; `None` for a missing one.
fn versions(paths: &[PathBuf]) -> Vec<Option<Version>> {
    let version = |path: &PathBuf| std::fs::metadata(path).ok().as_ref().map(Version::of);
    paths.iter().map(version).collect()
}

#[cfg(test)]
mod tests {
    #![expect(clippy::disallowed_methods, reason = "certificates lie in files")]

    use std::fs;
    use std::path::Path;

    use super::*;

    fn credentials(directory: &Path) -> AuthInfo {
        let path = |name: &str| Some(directory.join(name).display().to_string());
        AuthInfo {
            client_certificate: path("cert.pem"),
            client_key: path("key.pem"),
            ..AuthInfo::default()
        }
    }

    /// Replaces a file, as rotation does.
    fn replace(path: &Path, text: &str) {
        let draft = path.with_extension("new");
        fs::write(&draft, text).unwrap();
        fs::rename(draft, path).unwrap();
    }

    // behaviour: NODE-61
    #[tokio::test(start_paused = true)]
    async fn certificate_files_are_compared_once_a_minute_or_after_a_refusal() {
        let place = tempfile::tempdir().unwrap();
        let [certificate, key] = ["cert.pem", "key.pem"].map(|name| place.path().join(name));
        fs::write(&certificate, "one").unwrap();
        fs::write(&key, "one").unwrap();
        let identity = ClientIdentity::of(&credentials(place.path())).unwrap();
        tokio::time::advance(CHECK_AGAIN).await;
        assert_eq!(identity.changed().await, None, "the same files");

        replace(&certificate, "two");
        tokio::time::advance(CHECK_AGAIN.saturating_sub(Duration::from_secs(1))).await;
        assert_eq!(identity.changed().await, None, "not within a minute");
        tokio::time::advance(Duration::from_secs(1)).await;
        assert!(identity.changed().await.is_some());
        tokio::time::advance(CHECK_AGAIN).await;
        // For example, the key file was written later: the next check finds the change again.
        let versions = identity.changed().await.unwrap();
        identity.use_versions(versions);
        tokio::time::advance(CHECK_AGAIN).await;
        assert_eq!(identity.changed().await, None);

        let begun = Instant::now();
        replace(&key, "two");
        identity.refused(begun - Duration::from_secs(1));
        assert_eq!(identity.changed().await, None, "checked after that call was begun");
        identity.refused(begun);
        assert!(identity.changed().await.is_some());
    }

    #[test]
    fn certificate_data_in_the_kubeconfig_has_no_files() {
        let place = tempfile::tempdir().unwrap();
        let inline = AuthInfo {
            client_certificate_data: Some("Y2VydA==".to_owned()),
            client_key_data: Some("a2V5".to_owned().into()),
            ..credentials(place.path())
        };
        assert!(ClientIdentity::of(&inline).is_none());
        assert!(ClientIdentity::of(&AuthInfo::default()).is_none());
    }
}
