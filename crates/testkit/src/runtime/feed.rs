//! The event streams, and the events that no stream has received yet.

use std::collections::{BTreeMap, VecDeque};
use std::task::Waker;
use std::time::Duration;

use jiff::Timestamp;
use model::ids::ObjectId;
use model::observed::Sandbox;
use model::ports::runtime::{Code, ContainerEvent, ContainerEventKind};

use super::event_faults::{EventFault, EventFaults};

/// How long events are kept for the next stream while there is none, as containerd does.
const UNREAD_TTL: Duration = Duration::from_mins(5);

/// An event with the sandbox of its pod at that time.
#[derive(Debug, Clone)]
pub(crate) struct SentEvent {
    pub(crate) event: ContainerEvent,
    #[cfg_attr(
        not(feature = "hollow"),
        expect(dead_code, reason = "the port returns only the pod")
    )]
    pub(crate) sandbox: Sandbox,
}

/// An event in transit.
#[derive(Debug, Clone)]
struct Sent {
    arrives: Timestamp,
    content: SentEvent,
}

/// How a stream ends.
#[derive(Debug, Clone, Copy)]
pub(super) enum End {
    Plain,
    Fails(Code),
}

/// One open stream.
#[derive(Debug, Default)]
struct Listener {
    queue: VecDeque<Sent>,
    /// Set when the stream must end, and how.
    end: Option<End>,
    /// The waker of the stream's task.
    waker: Option<Waker>,
}

impl Listener {
    fn wake(&mut self) {
        if let Some(waker) = self.waker.take() {
            waker.wake();
        }
    }
}

/// The next item of a stream.
#[derive(Debug)]
pub(super) enum Next {
    Event(SentEvent),
    End(End),
    /// No item before this time, if known now.
    Wait(Option<Timestamp>),
}

/// All open streams. Each receives every event.
#[derive(Debug, Default)]
pub(super) struct Feed {
    pub(super) faults: EventFaults,
    listeners: BTreeMap<u64, Listener>,
    last: u64,
    /// Events without a stream to receive them.
    unread: VecDeque<Sent>,
}

impl Feed {
    /// Opens a stream. The first one after a time without any receives the kept events.
    pub(super) fn listen(&mut self, now: Timestamp) -> u64 {
        self.forget_old(now);
        let listener = Listener { queue: std::mem::take(&mut self.unread), ..Listener::default() };
        self.last += 1;
        self.listeners.insert(self.last, listener);
        self.last
    }

    pub(super) fn close(&mut self, key: u64) {
        self.listeners.remove(&key);
    }

    /// Ends every open stream, with an error or without.
    pub(super) fn end(&mut self, code: Option<Code>) {
        let end = code.map_or(End::Plain, End::Fails);
        for listener in self.listeners.values_mut() {
            listener.end = Some(end);
            listener.wake();
        }
    }

    /// Drops the kept events.
    pub(super) fn forget(&mut self) {
        self.unread.clear();
    }

    /// Sends an event of a sandbox or one of its containers to all streams, or keeps it for the next one.
    pub(super) fn send(
        &mut self,
        kind: ContainerEventKind,
        object: ObjectId,
        sandbox: Sandbox,
        at: Timestamp,
    ) {
        let event = ContainerEvent { pod_uid: sandbox.pod_uid.clone(), object, kind };
        let (copies, delay) = match self.faults.take(&event) {
            None => (1, Duration::ZERO),
            Some(EventFault::Lose) => (0, Duration::ZERO),
            Some(EventFault::Duplicate) => (2, Duration::ZERO),
            Some(EventFault::Delay(delay)) => (1, delay),
        };
        let arrives = at.checked_add(delay).unwrap_or(Timestamp::MAX);
        let sent = Sent { arrives, content: SentEvent { event, sandbox } };
        self.forget_old(at);
        for _ in 0..copies {
            for listener in self.listeners.values_mut() {
                listener.queue.push_back(sent.clone());
            }
            if self.listeners.is_empty() {
                self.unread.push_back(sent.clone());
            }
        }
        self.wake();
    }

    /// Wakes all streams: something is due earlier than before.
    pub(super) fn wake(&mut self) {
        for listener in self.listeners.values_mut() {
            listener.wake();
        }
    }

    /// The next item of a stream; registers the waker if there is none.
    pub(super) fn next(&mut self, key: u64, now: Timestamp, waker: &Waker) -> Next {
        let Some(listener) = self.listeners.get_mut(&key) else {
            return Next::End(End::Plain);
        };
        let arrived = listener.queue.iter().position(|sent| sent.arrives <= now);
        if let Some(sent) = arrived.and_then(|position| listener.queue.remove(position)) {
            return Next::Event(sent.content);
        }
        if let Some(end) = listener.end {
            self.listeners.remove(&key);
            return Next::End(end);
        }
        listener.waker = Some(waker.clone());
        Next::Wait(listener.queue.iter().map(|sent| sent.arrives).min())
    }

    fn forget_old(&mut self, now: Timestamp) {
        let kept = |sent: &Sent| {
            sent.arrives.checked_add(UNREAD_TTL).is_ok_and(|forgotten| forgotten > now)
        };
        while self.unread.front().is_some_and(|sent| !kept(sent)) {
            self.unread.pop_front();
        }
    }
}
