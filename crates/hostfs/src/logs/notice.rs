//! Being told that a log was written to.

use std::fmt;
use std::path::Path;
use std::time::Duration;

use futures_util::StreamExt as _;
use inotify::{EventStream, Inotify, WatchMask};
use tokio::sync::OwnedSemaphorePermit;
use tokio::time::sleep;

/// How long nothing is heard before somebody looks anyway. Notices can be lost: their queue is
/// bounded, and some file systems send none.
const FORCED_LOOK: Duration = Duration::from_secs(1);

/// Room for some events; more than fit are read in the next turn.
const BUFFER: usize = 1024;

/// Tells when to look at a log again.
pub(super) struct Notice {
    /// Events of the log's directory, as long as they come.
    events: Option<EventStream<Vec<u8>>>,
    _permit: Option<OwnedSemaphorePermit>,
}

impl Notice {
    /// Listens to the directory of a log: there, its writing and its replacement both show. Without
    /// a permit, or when the kernel refuses, there is only the forced look.
    pub(super) fn of(log: &Path, permit: Option<OwnedSemaphorePermit>) -> Self {
        let events = permit.as_ref().zip(log.parent()).and_then(|(_, directory)| {
            let inotify = Inotify::init().ok()?;
            let mask = WatchMask::MODIFY | WatchMask::CREATE | WatchMask::MOVED_TO;
            inotify.watches().add(directory, mask | WatchMask::ONLYDIR).ok()?;
            inotify.into_event_stream(vec![0; BUFFER]).ok()
        });
        Self { events, _permit: permit }
    }

    /// Waits until it is time to look.
    pub(super) async fn wait(&mut self) {
        let event = async {
            match &mut self.events {
                Some(events) => events.next().await,
                None => std::future::pending().await,
            }
        };
        // Biased: either way the log is looked at.
        tokio::select! {
            biased;
            heard = event => {
                if !matches!(heard, Some(Ok(_))) {
                    self.events = None;
                }
            }
            () = sleep(FORCED_LOOK) => {}
        }
    }
}

impl fmt::Debug for Notice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Notice").field("notified", &self.events.is_some()).finish_non_exhaustive()
    }
}
