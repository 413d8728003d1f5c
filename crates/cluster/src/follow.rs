//! Follows all objects of one kind: a list, then a watch, without end.
//!
//! ```text
//!  begin ──streaming list──────────────> list is complete ─watch goes on──> ended: watch from the last version
//!    │  (refused: never again)               ^                               forgotten (410): begin
//!    └──list, page by page──> watch ─────────┘                               broken: wait, then watch
//! ```
//! A server whose store was emptied, or restored to an older state, counts versions again. It does not report
//! that to a watch from a version that it has not reached. This cannot happen during a watch, so the server's
//! version is read before a watch only if the last watch ended before its time.
//!
//! An object that cannot be decoded is named in the log and reported as unread; all others are reported.

mod wire;

use std::borrow::Cow;
use std::time::Duration;

use model::chain::Chain;
use model::cluster::Version;
use model::jitter::jittered;
use model::log_throttle::LogThrottle;
use model::ports::cluster::{ApiError, Change, Sink};
use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::Value;
use tokio::time::{Instant, sleep};
use tracing::{debug, info, warn};

use crate::call::{Call, Caller, decoded};
use crate::decode::Identity;
use crate::lines::Lines;

use self::wire::{Bare, Event, EventOutcome, List, failure};

/// How many objects a page has.
const PAGE: u32 = 500;
/// How long after its timeout a watch may be silent; then the connection is dead.
const SILENCE: Duration = Duration::from_secs(30);
/// The longest delay after a failure.
const LONGEST_WAIT: Duration = Duration::from_secs(30);

/// Marks the bookmark after the last object of a streaming list.
const INITIAL_END: &str = "k8s.io/initial-events-end";

/// The metadata that a follower needs.
pub(crate) trait HasMetadata {
    /// The identity of the object.
    fn identity(&self) -> Identity<'_>;
    /// The value of an annotation.
    fn annotation(&self, name: &str) -> Option<&str>;
}

/// Implements [`HasMetadata`] for an object with slim metadata.
macro_rules! has_slim_metadata {
    ($object:ident) => {
        impl crate::follow::HasMetadata for $object<'_> {
            fn identity(&self) -> crate::decode::Identity<'_> {
                self.metadata.identity()
            }

            fn annotation(&self, name: &str) -> Option<&str> {
                crate::decode::value(&self.metadata.annotations, name)
            }
        }
    };
}
pub(crate) use has_slim_metadata;

/// Objects of one kind.
pub(crate) trait Kind: Send + Sync {
    /// The object, as the server sends it.
    type Object<'a>: Deserialize<'a> + HasMetadata + Send;
    /// The stored form.
    type Record: Send;
    /// The identity of an object.
    type Key: Send;
    /// The name in logs.
    const NAME: &'static str;
    /// The minimum duration of a watch; the maximum is twice that.
    const LASTS: Duration = Duration::from_mins(5);
    /// Whether all objects count as gone when the server's version is older than ours, until the next list.
    /// Must be false for consumers that act on removals, as a node does for its pods.
    const FORGETS: bool = false;
    /// Whether objects must not be logged.
    const IS_SECRET: bool = false;
    /// The delay after the first failure.
    const FIRST_WAIT: Duration = Duration::from_millis(800);
    /// The URL path; it may contain the query of a selector.
    fn path(&self) -> Cow<'_, str>;
    fn key(object: &Identity<'_>) -> Self::Key;
    fn record(&self, object: Self::Object<'_>) -> Self::Record;
}

/// The result of a round.
#[derive(Debug)]
enum RoundEnd {
    /// All objects are listed, and the version to watch from is known.
    Listed,
    /// The server ended the watch normally.
    Well,
    /// The server no longer has the version to watch from.
    Forgotten,
    /// The server's version is older than the last one received: its store was replaced or
    /// restored.
    OtherPast,
    /// The server does not support streaming lists.
    NoStreaming,
}

/// The delay before a new list, which is expensive for the server. It grows while versions expire at once on
/// the server.
#[derive(Debug)]
struct RelistBackoff {
    first: Duration,
    next: Duration,
}

impl RelistBackoff {
    fn new(first: Duration) -> Self {
        Self { first, next: first }
    }

    /// Records how long a round took. A long round resets the delay.
    fn lasted(&mut self, time: Duration) {
        if time >= LONGEST_WAIT {
            self.next = self.first;
        }
    }

    fn take(&mut self) -> Duration {
        let rest = self.next;
        self.next = (rest * 2).min(LONGEST_WAIT);
        rest
    }
}

/// Follows one kind of object.
pub(crate) struct Follower<'a, K: Kind> {
    caller: &'a Caller,
    kind: K,
    sink: &'a dyn Sink<K::Record, K::Key>,
    /// The version to watch from; `None` before a new list.
    version: Option<String>,
    streams: bool,
    /// Whether the server may have lost data since it was last connected.
    in_doubt: bool,
    /// When the last message arrived.
    last_message: Instant,
    throttle: LogThrottle,
}

impl<'a, K: Kind> Follower<'a, K> {
    pub(crate) fn new(caller: &'a Caller, kind: K, sink: &'a dyn Sink<K::Record, K::Key>) -> Self {
        let (last_message, throttle) = (Instant::now(), LogThrottle::default());
        Self {
            caller,
            kind,
            sink,
            version: None,
            streams: true,
            in_doubt: true,
            last_message,
            throttle,
        }
    }

    /// Follows without end.
    pub(crate) async fn run(mut self) {
        let (mut wait, mut rests) = (K::FIRST_WAIT, RelistBackoff::new(K::FIRST_WAIT));
        loop {
            let (begun, back) = (Instant::now(), self.caller.reach.follow());
            let ended = self.round().await;
            rests.lasted(begun.elapsed());
            match ended {
                Ok(RoundEnd::Listed) => wait = K::FIRST_WAIT,
                Ok(RoundEnd::Well) => {
                    wait = K::FIRST_WAIT;
                    // Delays the next watch if the server ends watches at once.
                    if begun.elapsed() < Duration::from_secs(1) {
                        sleep(K::FIRST_WAIT).await;
                    }
                }
                Ok(RoundEnd::Forgotten) => {
                    debug!(kind = K::NAME, "Resource version is expired, listing again");
                    self.version = None;
                    sleep(jittered(rests.take())).await;
                }
                Ok(RoundEnd::OtherPast) => {
                    self.discard_version();
                    sleep(jittered(rests.take())).await;
                }
                Ok(RoundEnd::NoStreaming) => {
                    info!(
                        kind = K::NAME,
                        "Server does not support streaming lists, listing by pages"
                    );
                    self.streams = false;
                }
                Err(error) => {
                    if self.last_message > begun {
                        wait = K::FIRST_WAIT;
                    }
                    if self.throttle.failed(Instant::now().into_std()) {
                        let error = Chain(&error);
                        warn!(kind = K::NAME, %error, "Watch failed, retrying");
                    }
                    let least = error.retry_after().unwrap_or_default().min(LONGEST_WAIT);
                    let least = jittered(K::FIRST_WAIT).max(least);
                    let is_back = back.wait(jittered(wait).max(least), least).await;
                    wait = if is_back { K::FIRST_WAIT } else { (wait * 2).min(LONGEST_WAIT) };
                }
            }
        }
    }

    /// Discards all data from the server, even the order of versions.
    fn discard_version(&mut self) {
        warn!(kind = K::NAME, "Server is at an older version than before, listing again");
        if K::FORGETS {
            self.sink.receive(Change::Restarted);
            self.sink.receive(Change::Complete);
        }
        self.version = None;
    }

    fn url(&self, query: &str) -> String {
        let path = self.kind.path();
        let joint = if path.contains('?') { '&' } else { '?' };
        format!("{path}{joint}{query}")
    }

    async fn round(&mut self) -> Result<RoundEnd, ApiError> {
        match self.version.clone() {
            Some(version) => self.watch(&version).await,
            None if self.streams => self.stream().await,
            None => self.list().await,
        }
    }

    /// Lists all objects, page by page.
    async fn list(&mut self) -> Result<RoundEnd, ApiError> {
        self.sink.receive(Change::Restarted);
        let mut next = String::new();
        loop {
            let mut path = self.url(&format!("limit={PAGE}"));
            if !next.is_empty() {
                path.push_str("&continue=");
                path.push_str(&crate::urls::part(&next));
            }
            let page = match self.caller.read(Call::get(path)).await {
                Err(ApiError::Refused { code: 410, .. }) => return Ok(RoundEnd::Forgotten),
                page => page?,
            };
            self.note_message();
            let (following, version) = self.report_page(&page)?;
            next = following;
            if next.is_empty() {
                self.sink.receive(Change::Complete);
                (self.version, self.in_doubt) = (Some(version), false);
                return Ok(RoundEnd::Listed);
            }
        }
    }

    /// Reports the objects of a page. Returns the continue token, if any, and the version of the list.
    fn report_page(&self, page: &[u8]) -> Result<(String, String), ApiError> {
        let whole = serde_json::from_slice::<List<'_, K::Object<'_>>>(page);
        let metadata = if let Ok(list) = whole {
            for object in list.items {
                self.sink.receive(Change::Applied(self.kind.record(object)));
            }
            list.metadata
        } else {
            // One of them cannot be decoded: decode them individually.
            let list: List<'_, Value> = decoded(page)?;
            for item in list.items {
                self.report_item(&item.to_string())?;
            }
            list.metadata
        };
        Ok((metadata.next.into_owned(), metadata.resource_version.into_owned()))
    }

    fn report_item(&self, item: &str) -> Result<(), ApiError> {
        match serde_json::from_str::<K::Object<'_>>(item) {
            Ok(object) => self.sink.receive(Change::Applied(self.kind.record(object))),
            Err(error) => {
                let Bare { metadata } = decoded(item.as_bytes())?;
                self.unread(&metadata, &error);
            }
        }
        Ok(())
    }

    /// Reports an object that cannot be decoded. The others are still reported.
    fn unread(&self, object: &Identity<'_>, error: &serde_json::Error) {
        let Identity { name, namespace, .. } = object;
        let column = error.column();
        if K::IS_SECRET {
            warn!(kind = K::NAME, %namespace, %name, column, "Cannot decode object, skipping");
        } else {
            warn!(kind = K::NAME, %namespace, %name, %error, "Cannot decode object, skipping");
        }
        self.sink.receive(Change::Unread(K::key(object)));
    }

    /// Lists all objects as a stream, and continues as a watch.
    async fn stream(&mut self) -> Result<RoundEnd, ApiError> {
        let query = "sendInitialEvents=true&resourceVersionMatch=NotOlderThan";
        match self.events(query, true).await {
            // The feature is disabled or unknown.
            Err(ApiError::Refused { code: 400 | 422, .. }) => Ok(RoundEnd::NoStreaming),
            ended => ended,
        }
    }

    /// Watches changes from a version on.
    async fn watch(&mut self, version: &str) -> Result<RoundEnd, ApiError> {
        if self.in_doubt && is_older(&self.current().await?, version) {
            return Ok(RoundEnd::OtherPast);
        }
        let query = format!("resourceVersion={}", crate::urls::part(version));
        match self.events(&query, false).await {
            Err(ApiError::Refused { code: 410, .. }) => Ok(RoundEnd::Forgotten),
            ended => ended,
        }
    }

    /// The current version of the server's store.
    async fn current(&self) -> Result<String, ApiError> {
        let page = self.caller.read(Call::get(self.url("limit=1"))).await?;
        let list: List<'_, IgnoredAny> = decoded(&page)?;
        Ok(list.metadata.resource_version.into_owned())
    }

    fn note_message(&mut self) {
        self.last_message = Instant::now();
        if let Some(after) = self.throttle.recovered(self.last_message.into_std()) {
            info!(kind = K::NAME, ?after, "Watch works again");
        }
    }

    async fn events(&mut self, query: &str, mut initial: bool) -> Result<RoundEnd, ApiError> {
        let lasts = jittered(K::LASTS);
        let seconds = lasts.as_secs();
        let path = self
            .url(&format!("watch=true&allowWatchBookmarks=true&timeoutSeconds={seconds}&{query}"));
        let begun = Instant::now();
        self.in_doubt = true;
        let answer = self.caller.send(Call::watch(path)).await?;
        let mut lines = Lines::new(answer.into_body(), lasts + SILENCE);
        let mut has_begun = false;
        while let Some(line) = lines.next().await? {
            if line.is_empty() {
                continue;
            }
            if initial && !has_begun {
                self.sink.receive(Change::Restarted);
                has_begun = true;
            }
            self.note_message();
            match self.take(line, initial)? {
                EventOutcome::Change => {}
                EventOutcome::InitialEnd => initial = false,
                EventOutcome::Forgotten => return Ok(RoundEnd::Forgotten),
                EventOutcome::Older => return Ok(RoundEnd::OtherPast),
            }
        }
        if initial {
            return Err(ApiError::Unreadable("a list was cut off".into()));
        }
        self.in_doubt = begun.elapsed() < Duration::from_secs(seconds);
        Ok(RoundEnd::Well)
    }

    /// Processes an event.
    fn take(&mut self, line: &[u8], initial: bool) -> Result<EventOutcome, ApiError> {
        let event: Event<'_, K::Object<'_>> = match serde_json::from_slice(line) {
            Ok(event) => event,
            Err(error) => return self.take_unread(line, error, initial),
        };
        let Event { kind, object } = event;
        let version = object.identity().resource_version.into_owned();
        if self.is_behind(&version, initial) {
            return Ok(EventOutcome::Older);
        }
        let taken = match &*kind {
            "ADDED" | "MODIFIED" => {
                self.sink.receive(Change::Applied(self.kind.record(object)));
                EventOutcome::Change
            }
            "DELETED" => {
                self.sink.receive(Change::Gone(K::key(&object.identity())));
                EventOutcome::Change
            }
            "BOOKMARK" if object.annotation(INITIAL_END) == Some("true") => {
                self.sink.receive(Change::Complete);
                EventOutcome::InitialEnd
            }
            "BOOKMARK" => EventOutcome::Change,
            "ERROR" => return failure(line).unwrap_or(Ok(EventOutcome::Forgotten)),
            other => {
                debug!(kind = K::NAME, other, "Unknown event type");
                EventOutcome::Change
            }
        };
        // During a list there is no version to resume from.
        self.reached(version, initial && !matches!(taken, EventOutcome::InitialEnd));
        Ok(taken)
    }

    /// Processes an error event, or an event whose object cannot be decoded.
    fn take_unread(
        &mut self,
        line: &[u8],
        error: serde_json::Error,
        initial: bool,
    ) -> Result<EventOutcome, ApiError> {
        if let Some(failure) = failure(line) {
            return failure;
        }
        let event = serde_json::from_slice::<Event<'_, Bare<'_>>>(line);
        let Some(event) = event.ok().filter(|event| !event.object.metadata.name.is_empty()) else {
            return Err(ApiError::Unreadable(Box::new(error)));
        };
        let Event { kind, object: Bare { metadata: object } } = event;
        let version = object.resource_version.clone().into_owned();
        if self.is_behind(&version, initial) {
            return Ok(EventOutcome::Older);
        }
        if kind == "DELETED" {
            self.sink.receive(Change::Gone(K::key(&object)));
        } else {
            self.unread(&object, &error);
        }
        self.reached(version, initial);
        Ok(EventOutcome::Change)
    }

    /// Whether an event is older than those before.
    fn is_behind(&self, version: &str, initial: bool) -> bool {
        !initial && self.version.as_ref().is_some_and(|known| is_older(version, known))
    }

    fn reached(&mut self, version: String, in_list: bool) {
        if !in_list && !version.is_empty() {
            self.version = Some(version);
        }
    }
}

/// Whether a version is older than another; false unless both are numbers.
fn is_older(version: &str, than: &str) -> bool {
    let (version, than) = (Version::from(version), Version::from(than));
    version.0.is_some() && version < than
}

#[cfg(test)]
#[path = "follow_tests.rs"]
mod tests;
