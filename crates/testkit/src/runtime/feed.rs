//! Who is told what happens, and what was not heard yet.

use std::collections::{BTreeMap, VecDeque};
use std::task::Waker;
use std::time::Duration;

use jiff::Timestamp;
use model::ids::ObjectId;
use model::observed::Sandbox;
use model::ports::runtime::{Code, ContainerEvent, ContainerEventKind};

use super::event_faults::{EventFault, EventFaults};

/// How long events are kept for the next listener while there is none, as containerd does.
const UNHEARD_FOR: Duration = Duration::from_mins(5);

/// An event, and the sandbox of its pod as it was then.
#[derive(Debug, Clone)]
pub(crate) struct Told {
    pub(crate) event: ContainerEvent,
    #[cfg_attr(not(feature = "hollow"), expect(dead_code, reason = "the port tells only the pod"))]
    pub(crate) sandbox: Sandbox,
}

/// An event on its way.
#[derive(Debug, Clone)]
struct Sent {
    arrives: Timestamp,
    told: Told,
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
    /// Set when the stream shall end, and how.
    end: Option<End>,
    /// Of whoever waits for the stream.
    waker: Option<Waker>,
}

impl Listener {
    fn wake(&mut self) {
        if let Some(waker) = self.waker.take() {
            waker.wake();
        }
    }
}

/// What comes next for a listener.
#[derive(Debug)]
pub(super) enum Next {
    Event(Told),
    End(End),
    /// Nothing before this moment, as far as known now.
    Wait(Option<Timestamp>),
}

/// All open streams. Every one of them is told everything.
#[derive(Debug, Default)]
pub(super) struct Feed {
    pub(super) faults: EventFaults,
    listeners: BTreeMap<u64, Listener>,
    last: u64,
    /// What happened while nobody listened.
    unheard: VecDeque<Sent>,
}

impl Feed {
    /// Opens a stream. The first listener after a time without any hears what was missed.
    pub(super) fn listen(&mut self, now: Timestamp) -> u64 {
        self.forget_old(now);
        let listener = Listener { queue: std::mem::take(&mut self.unheard), ..Listener::default() };
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

    /// Drops what nobody heard.
    pub(super) fn forget(&mut self) {
        self.unheard.clear();
    }

    /// Tells everybody, or the next who comes, what happened to a sandbox or in it.
    pub(super) fn tell(
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
        let sent = Sent { arrives, told: Told { event, sandbox } };
        self.forget_old(at);
        for _ in 0..copies {
            for listener in self.listeners.values_mut() {
                listener.queue.push_back(sent.clone());
            }
            if self.listeners.is_empty() {
                self.unheard.push_back(sent.clone());
            }
        }
        self.wake();
    }

    /// Lets everybody look again: something is due earlier than before.
    pub(super) fn wake(&mut self) {
        for listener in self.listeners.values_mut() {
            listener.wake();
        }
    }

    /// The next thing for a listener; who has to wait is woken when that changes.
    pub(super) fn next(&mut self, key: u64, now: Timestamp, waker: &Waker) -> Next {
        let Some(listener) = self.listeners.get_mut(&key) else {
            return Next::End(End::Plain);
        };
        let arrived = listener.queue.iter().position(|sent| sent.arrives <= now);
        if let Some(sent) = arrived.and_then(|position| listener.queue.remove(position)) {
            return Next::Event(sent.told);
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
            sent.arrives.checked_add(UNHEARD_FOR).is_ok_and(|forgotten| forgotten > now)
        };
        while self.unheard.front().is_some_and(|sent| !kept(sent)) {
            self.unheard.pop_front();
        }
    }
}
