//! Detects an event stream that is open and reports nothing.

use model::ids::PodUid;
use model::observed::RuntimePod;
use model::seq::Seq;
use tracing::warn;

use super::{Done, Relist};
use crate::decide::{PodRecord, diff};

impl Relist {
    /// A relist found a change without an event: schedules a check whether the stream reports anything.
    pub(super) fn unannounced_change(&mut self) {
        let before = self.stream.deadline();
        self.stream = self.stream.unannounced_change(self.began.elapsed());
        if let Some(deadline) = self.stream.deadline().filter(|_| before.is_none()) {
            let deadline = self.began + deadline;
            self.work.push(Box::pin(async move {
                tokio::time::sleep_until(deadline).await;
                Done::StreamCheck
            }));
        }
    }

    pub(super) fn check_stream(&mut self) {
        let before = self.stream;
        self.stream = before.at(self.began.elapsed());
        if before.is_trusted() && !self.stream.is_trusted() && self.hints.flow() {
            warn!(
                "Event stream of the runtime is open but silent, relisting every period and reopening it"
            );
            self.metrics.broken();
            self.hints.reopen();
            self.relist_within(self.settings.relist_period);
        }
    }

    /// Whether a list shows a change of a pod for which no event was received.
    pub(super) fn is_unannounced(&self, uid: &PodUid, pod: Option<&RuntimePod>, at: Seq) -> bool {
        let seen = pod.map(PodRecord::from).unwrap_or_default();
        let known = self.records.get(uid);
        // The record does not advance while the status cannot be read: every list finds its changes again.
        let is_older = known.is_some_and(|record| record.at > at || record.reinspect);
        let known = known.map(|record| record.seen.clone()).unwrap_or_default();
        !is_older && !self.pending_events.contains_key(uid) && !diff(&known, &seen).is_empty()
    }
}
