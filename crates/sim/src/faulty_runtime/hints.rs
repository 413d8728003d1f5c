//! The event stream: some events are lost, duplicated, or overtaken by others.

use std::collections::VecDeque;
use std::sync::Arc;

use futures_util::StreamExt as _;
use futures_util::stream::unfold;
use model::ports::runtime::{ContainerEvent, ContainerEvents, RuntimeError};
use tokio::time::{Instant, sleep_until};

use crate::outside::{FaultPoint, Outside};
use crate::plan::Fault;

struct Hints {
    events: ContainerEvents,
    outside: Arc<Outside>,
    /// Delayed events.
    held: Vec<(Instant, ContainerEvent)>,
    /// Events to deliver next.
    ready: VecDeque<ContainerEvent>,
    over: bool,
}

/// The delivered events of a stream.
pub(super) fn faulty(events: ContainerEvents, outside: Arc<Outside>) -> ContainerEvents {
    let hints = Hints { events, outside, held: Vec::new(), ready: VecDeque::new(), over: false };
    unfold(hints, |mut hints| async move {
        let event = hints.next().await?;
        Some((event, hints))
    })
    .boxed()
}

impl Hints {
    async fn next(&mut self) -> Option<Result<ContainerEvent, RuntimeError>> {
        loop {
            if self.over {
                return None;
            }
            if let Some(event) = self.ready.pop_front() {
                return Some(Ok(event));
            }
            let due = self.held.iter().map(|(at, _)| *at).min();
            let event = tokio::select! {
                biased;
                () = until(due) => {
                    let position = self.held.iter().position(|(at, _)| Some(*at) == due);
                    let position = position.expect("the earliest of them is one of them");
                    return Some(Ok(self.held.remove(position).1));
                }
                event = self.events.next() => event,
            };
            match event {
                Some(Ok(event)) => self.arrive(event),
                // Events in transit are lost with the stream.
                end => {
                    self.over = true;
                    return end;
                }
            }
        }
    }

    fn arrive(&mut self, event: ContainerEvent) {
        let fault = self.outside.fault(FaultPoint::Hint);
        let name = self.outside.short(&event.object.to_string());
        match fault {
            Some(fault) => {
                self.outside.say(format!("FAULT    {fault}: {:?} of {name}", event.kind));
            }
            None => self.outside.note(&name),
        }
        match fault {
            Some(Fault::Lost) => {}
            Some(Fault::Overtaken(time)) => self.held.push((Instant::now() + time, event)),
            Some(Fault::Doubled) => self.ready.extend([event.clone(), event]),
            _ => self.ready.push_back(event),
        }
    }
}

async fn until(due: Option<Instant>) {
    match due {
        Some(due) => sleep_until(due).await,
        None => std::future::pending().await,
    }
}
