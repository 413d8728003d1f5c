//! Failures of a registry, for its next requests.

use std::str::FromStr;
use std::sync::atomic::{AtomicUsize, Ordering};

/// How requests fail.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FaultKind {
    /// 429, with `Retry-After`.
    TooManyRequests,
    /// 500, with `Retry-After`.
    ServerError,
    /// The connection ends in the middle of a blob.
    CutBody,
}

/// The next requests for objects of a repository fail: `NAME=KIND*COUNT`, such as `workload=429*2`.
#[derive(Debug)]
pub struct Fault {
    repository: String,
    kind: FaultKind,
    left: AtomicUsize,
}

/// The text is no fault.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}: a fault is NAME=KIND*COUNT, with the kind 429, 500 or cut")]
pub struct NoFault(String);

impl FromStr for Fault {
    type Err = NoFault;

    fn from_str(text: &str) -> Result<Self, NoFault> {
        let parsed = || {
            let (name, rest) = text.split_once('=')?;
            let (kind, count) = rest.split_once('*')?;
            let kind = match kind {
                "429" => FaultKind::TooManyRequests,
                "500" => FaultKind::ServerError,
                "cut" => FaultKind::CutBody,
                _ => return None,
            };
            let left = AtomicUsize::new(count.parse().ok()?);
            Some(Self { repository: format!("{}/{name}", super::NAMESPACE), kind, left })
        };
        parsed().ok_or_else(|| NoFault(text.to_owned()))
    }
}

impl Fault {
    /// The fault of a request for an object, which is counted; `is_blob_read` if a blob is sent.
    pub(super) fn of(&self, repository: &str, is_blob_read: bool) -> Option<FaultKind> {
        let is_hit =
            self.repository == repository && (is_blob_read || self.kind != FaultKind::CutBody);
        let take = || {
            let order = Ordering::SeqCst;
            self.left.fetch_update(order, order, |left| left.checked_sub(1)).is_ok()
        };
        (is_hit && take()).then_some(self.kind)
    }
}
