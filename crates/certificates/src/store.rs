//! The files of a certificate, in the layout of the kubelet:
//!
//! ```text
//! kubelet-client-2026-11-19-04-38-00.pem    certificate and key, one file for each that was issued
//! kubelet-client-current.pem                link to the one in use
//! kubelet-client-updated.pem                link that a kubelet which was killed in a rotation left
//! kubelet-client.key.tmp                    key of the first request, until its certificate is stored
//! ```

use std::path::{Path, PathBuf};
use std::sync::Arc;

use jiff::{Timestamp, tz::TimeZone};
use model::ports::files::{FileError, HostFiles};

use crate::decide::{CertificatePair, Role};
use crate::keys::{KeyError, RequestKey};
use crate::pair::{PairError, parse_pair};

/// The largest file.
const LONGEST: u64 = 1 << 20;

/// Why the files cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// A file cannot be read, written or linked.
    #[error("use the certificate files")]
    File(#[source] FileError),
    /// The file is not a certificate with its key.
    #[error("use the certificate of {}", path.display())]
    Pair {
        /// The file.
        path: PathBuf,
        /// The cause.
        source: PairError,
    },
    /// The stored certificate cannot be read back.
    #[error("{} does not have the content that was written", .0.display())]
    Changed(PathBuf),
    /// The key cannot be generated.
    #[error("make the key {}", path.display())]
    Key {
        /// The file.
        path: PathBuf,
        /// The cause.
        source: KeyError,
    },
}

/// The files of one certificate.
#[derive(Debug, Clone)]
pub struct CertificateStore {
    files: Arc<dyn HostFiles>,
    directory: PathBuf,
    prefix: &'static str,
}

impl CertificateStore {
    /// The files of a role in a directory, which need not exist.
    pub fn new(files: Arc<dyn HostFiles>, directory: PathBuf, role: Role) -> Self {
        let prefix = match role {
            Role::Client => "kubelet-client",
            Role::Serving => "kubelet-server",
        };
        Self { files, directory, prefix }
    }

    fn path(&self, qualifier: &str) -> PathBuf {
        self.directory.join(format!("{}-{qualifier}.pem", self.prefix))
    }

    /// The link to the certificate in use.
    pub fn current_path(&self) -> PathBuf {
        self.path("current")
    }

    fn pending_key_path(&self) -> PathBuf {
        self.directory.join(format!("{}.key.tmp", self.prefix))
    }

    async fn read(&self, path: &Path) -> Result<Option<CertificatePair>, StoreError> {
        let content = match self.files.read(path, LONGEST).await {
            Ok(content) => content,
            Err(error) if error.is_not_found() => return Ok(None),
            Err(error) => return Err(StoreError::File(error)),
        };
        let pair = parse_pair(String::from_utf8_lossy(&content).into_owned());
        pair.map(Some).map_err(|source| StoreError::Pair { path: path.to_owned(), source })
    }

    /// The certificate in use; `None` without one.
    pub async fn current(&self) -> Result<Option<CertificatePair>, StoreError> {
        let current = self.current_path();
        if let Some(pair) = self.read(&current).await? {
            return Ok(Some(pair));
        }
        // Files of a kubelet that was killed between two steps of a rotation.
        let updated = self.path("updated");
        let Some(pair) = self.read(&updated).await? else { return Ok(None) };
        self.files.link(&updated, &current).await.map_err(StoreError::File)?;
        Ok(Some(pair))
    }

    /// Stores a certificate under a new name, and links it as the current one. If this fails, the link names the
    /// same certificate as before.
    pub async fn update(&self, pair: &CertificatePair, now: Timestamp) -> Result<(), StoreError> {
        let time = now.to_zoned(TimeZone::UTC).strftime("%Y-%m-%d-%H-%M-%S").to_string();
        let path = self.path(&time);
        let content = pair.pem.as_bytes();
        self.files.write_durably(&path, content).await.map_err(StoreError::File)?;
        // A link to a file that cannot be read would end all connections.
        let read = self.files.read(&path, LONGEST).await.map_err(StoreError::File)?;
        if read != content {
            return Err(StoreError::Changed(path));
        }
        self.files.link(&path, &self.current_path()).await.map_err(StoreError::File)
    }

    /// The key of the first request, which a new start uses again; generated if there is none.
    pub async fn pending_key(&self) -> Result<RequestKey, StoreError> {
        let path = self.pending_key_path();
        if let Ok(stored) = self.files.read(&path, LONGEST).await
            && let Ok(key) = RequestKey::parse(&stored)
        {
            return Ok(key);
        }
        let failed = |source| StoreError::Key { path: path.clone(), source };
        let key = RequestKey::generate().map_err(failed)?;
        self.files.write_durably(&path, key.pem().as_bytes()).await.map_err(StoreError::File)?;
        Ok(key)
    }

    /// Removes the key of the first request, if there is one.
    pub async fn remove_pending_key(&self) -> Result<(), StoreError> {
        self.files.remove_written(&self.pending_key_path()).await.map_err(StoreError::File)
    }
}
